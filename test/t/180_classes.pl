# Bulk work gives way: infer.request_class, infer.slice and infer.job_share between the session,
# the engine and infer.stats.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

# A row takes the null device 3 s, in 41 segments.
my $server = InferServer->start('infer.device' => 'null:delay=3000', 'infer.slice' => 75_000, 'infer.job_share' => 0);
open my $fixture, '<:raw', "$InferServer::top/test/fixtures/onnx/chain.onnx" or die "chain.onnx: $!";
my $chain = sql_bytes(do { local $/; <$fixture> });
$server->safe_psql("SELECT infer.create_model('chain', data => $chain); SELECT infer.load_model('chain')");

my $call = "SELECT cardinality(infer.outputs('chain', array_fill(1, ARRAY[16])))";
my $bulk = $server->background_psql();
$bulk->send("SET infer.request_class = 'job'; $call");
ok($server->poll_query_until("SELECT wait_event_type FROM pg_stat_activity WHERE pid = " . $bulk->backend_pid, 'Extension'),
	'a job is under way');
is($server->safe_psql($call), '16', 'an interactive call of the same model is answered');
ok(!$bulk->is_done, 'before the job is');
is($bulk->wait, '16', 'which then ends as well');
is($server->safe_psql("SELECT DISTINCT interrupted, long_segments, predicted_error IS NULL FROM infer.stats WHERE model = 'chain'"), '1|0|t',
	'it was interrupted between two segments');

# ---- at a reload ----

$server->reload('infer.slice' => 1000, 'infer.job_share' => 50);
is($server->safe_psql('SHOW infer.slice') . ' ' . $server->safe_psql('SHOW infer.job_share'), '1000 50', 'both settings may change');
ok(InferServer::wait_until(sub
	{
		$server->safe_psql($call);
		return $server->safe_psql("SELECT max(long_segments) FROM infer.stats WHERE model = 'chain'") > 0;
	}), 'and the engine is told: segments longer than that slice are counted');

done_testing();
