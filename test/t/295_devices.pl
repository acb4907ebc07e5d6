# infer.device: what is there is used, what is not there is said, and what was asked for by name is not replaced.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $two = sql_bytes(add_model(2));

# ---- auto without a GPU: the CPU serves, and the other device's row says why ----

my $server = InferServer->start('infer.device' => 'auto');
$server->safe_psql("SELECT infer.create_model('m', data => $two)");
is($server->safe_psql("SELECT infer.predict('m', 1)"), '3', 'auto: the CPU serves');
is($server->safe_psql("SELECT device, in_use, detail IS NOT NULL, threads IS NULL, since IS NULL FROM infer.devices ORDER BY in_use DESC"),
	"cpu|t|f|f|f\ncuda|f|t|t|t", 'and infer.devices has a row that says why there is no GPU');
like($server->log, qr/no CUDA device: \S/, 'as the log does');

# ---- cpu: nobody looks for a GPU ----

$server->restart('infer.device' => 'cpu');
is($server->safe_psql("SELECT string_agg(device, ',') FROM infer.devices"), 'cpu', 'cpu: there is nothing to say of others');

# ---- cuda without a GPU: calls fail with the reason, and no other device answers ----

for my $device ('cuda', 'cuda:0')
{
	my $size = $server->log_size;

	$server->restart('infer.device' => $device, 'infer.timeout' => '3s');
	$server->wait_for_log(qr/could not open the device/, $size);
	my ($code, $out, $err) = $server->psql("\\set VERBOSITY verbose\nSELECT infer.predict('m', 1)");
	isnt($code, 0, "$device: a call fails where there is no such GPU");
	like($err, qr/could not open the device/, 'and says why');
}

# ---- names that no device has ----

for my $device ('cuda:', 'cuda:x', 'cuda:-1', 'cuda:99999', 'gpu')
{
	$server->restart('infer.device' => $device);
	like(($server->psql("SELECT infer.predict('m', 1)"))[2], qr/unknown device "\Q$device\E"/, "$device: no device is called that");
}
$server->stop;
done_testing();
