# What infer.model_version says of a model is not believed beyond what the engine answers: a dump's
# owner, who restores that table, need not be a superuser.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start();
my $three = sql_bytes(add_model(3));
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
my $start_time = $server->postmaster_start_time;

# The SQLSTATE of a call while one path of the signature has another value.
sub with_signature
{
	my ($path, $value, $call) = @_;
	my (undef, undef, $err) = $server->psql("BEGIN;
		UPDATE infer.model_version SET signature = jsonb_set(signature, '{$path}', '$value');
		$call");

	return $err =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}):/ ? $1 : $err;
}

is(with_signature('outputs,0,dims', '[]', "SELECT infer.predict('m', 1)"), '', 'another shape of as many elements answers');
for my $call ("SELECT infer('m', 1)", "SELECT infer.outputs('m', 1)", "SELECT infer.try('m', 1)")
{
	is(with_signature('outputs,0,dims', '[4294967296, 4294967296]', $call), 'XX001', "dims whose product overflows: $call");
	is(with_signature('outputs,0,dims', '[-2]', $call), 'XX001', "a negative dimension: $call");
	is(with_signature('outputs,0,dims', '[3]', $call), '08P01', "more elements than the engine answers: $call");
	is(with_signature('outputs,0,dims', '[2, 3]', $call), '08P01', "more of them, nested: $call");
	is(with_signature('outputs,0,type', '"string"', $call), $call =~ /outputs/ ? '42809' : '08P01', "another type: $call");
}
is(with_signature('inputs,0,dims', '[4294967296, 4294967297]', "SELECT infer('m', 1)"), 'XX001', 'dims of an input');
is(with_signature('outputs,0', '{"name": "y", "type": "float32", "dims": [0], "role": "label"}', "SELECT infer.classify('m', 1)"),
	'08P01', 'a label that is none');
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'the model itself is as it was');
is($server->postmaster_start_time, $start_time, 'and the server went on');

$server->stop;
done_testing();
