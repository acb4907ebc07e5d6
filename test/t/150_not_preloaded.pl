# Without shared_preload_libraries: errors with the line to add, and nothing else.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start;
my $three = sql_bytes(add_model(3));
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
$server->restart('shared_preload_libraries' => '');

is(scalar(my @engines = $server->engine_pids), 0, 'no engine runs');
for my $sql ("SELECT infer('m', 1)", "SELECT infer.predict('m', 1)", "SELECT infer.load_model('m')",
	"SELECT infer.restart_engine()", "SELECT * FROM infer.stats", "SELECT infer.create_model('n', data => $three)")
{
	my ($status, undef, $err) = $server->psql($sql);
	my $short = substr $sql, 0, 40;
	like($err, qr/ERROR:  55000: infer must be loaded when the server starts/, "$short: a clear error");
	like($err, qr/HINT:  Add the line shared_preload_libraries = 'infer'/, "$short: with the line to add");
}
$server->safe_psql('CREATE DATABASE fresh');
my ($status, undef, $err) = $server->psql('CREATE EXTENSION infer', database => 'fresh');
like($err, qr/ERROR:  55000: .*\n(.*\n)*HINT:  Add the line shared_preload_libraries = 'infer'/, 'CREATE EXTENSION says so');
is($server->psql_sqlstate("LOAD 'infer'"), '', 'the library can be loaded');
is($server->safe_psql("LOAD 'infer'; SHOW infer.timeout"), '1min', 'and has its session settings');
is($server->safe_psql('SELECT count(*) FROM infer.models'), '1', 'the catalogue can be read');
is($server->safe_psql('SELECT 1'), '1', 'nothing crashed');

done_testing();
