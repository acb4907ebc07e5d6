# The engine's memory for values and its slots: held while a call needs them, and never by a
# session at rest, a call that was given up, or a client that has gone.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.payload_limit' => '7MB', 'infer.queue_limit' => 2, max_connections => 20);
my $wide = sql_bytes(wide_add_model(3, 'n'));
$server->safe_psql(qq(SELECT infer.create_model('w$_', data => $wide, options => '{"dims": {"n": $_}}'))) for 100_000, 400_000, 1;

# N values of X, there and back: eight bytes for each
sub wide { my ($n, $x) = @_; return "SELECT count(*) FROM unnest(infer.outputs('w$n', array_fill($x, ARRAY[$n])))"; }

# ---- sessions at rest ----

my @sessions = map { $server->background_psql() } 1 .. 8;
is(join(',', map { $_->query(wide(400_000, 1)) } @sessions), join(',', (400_000) x 8),
	'sessions that rest leave the memory for values to others');
is($sessions[0]->query("SELECT infer.predict('w1', 1)"), '4', 'and go on');
$sessions[0]->query("BEGIN; " . wide(400_000, 1) . "; SELECT infer.predict('w1', 'nonsense')");
is($sessions[0]->sqlstate, '42804', 'a transaction fails');
is($sessions[1]->query(wide(400_000, 1)), '400000', 'its session rests, too');
$sessions[0]->query('ROLLBACK');

is($sessions[2]->query('BEGIN; SELECT 1; ' . wide(400_000, 1)), "1\n400000", 'a session holds what its transaction may need again');
is($sessions[3]->query(wide(400_000, 1)), '', 'and a single call that wants the same');
is($sessions[3]->sqlstate, 'IF002', 'is refused at once');
$sessions[3]->send("SET infer.request_class = 'statement'; " . wide(400_000, 1));
is($sessions[2]->query('COMMIT; SELECT 1'), '1', 'at its end');
is($sessions[3]->wait, '400000', 'a statement that has waited goes on');

# ---- a session waits for nobody if the memory is its own ----

my $own = $server->background_psql();
is($own->query("SET infer.request_class = 'statement'; SET infer.timeout = 0; SET statement_timeout = '20s';
	BEGIN; " . wide(100_000, 1) . '; ' . wide(400_000, 1) . '; ' . wide(100_000, 1) . '; COMMIT'), "100000\n400000\n100000",
	'a call does not wait for memory that its own session holds');
$own->query(q{
	CREATE FUNCTION nested(n int) RETURNS int LANGUAGE plpgsql STABLE AS $$
	BEGIN
		RETURN (SELECT count(infer.predict('w1', i)) FROM generate_series(1, n) i);
	END $$});
is($own->query("SELECT infer.predict('w1', nested(10))"), '13', 'calls in the arguments of calls are answered');

# ---- calls that are given up ----

$server->restart('infer.device' => 'null:delay=20,hang_on=666', 'infer.engine_timeout' => '1h', 'infer.payload_limit' => '16MB', 'infer.queue_limit' => 4);
is($server->safe_psql(wide(400_000, 1)), '400000', 'a device that does not hang yet');
my $engine = $server->engine_pid;
my $descriptors = $server->process_descriptors($engine);

# Slow, so that no call runs on the thread that reads them.  The first hangs the device for good and keeps what it has; of the others nothing may stay.
for my $how (('a client killed', 'a backend terminated', 'a call cancelled', 'statement_timeout', 'infer.timeout', 'a client killed') x 2)
{
	my $session = $server->background_psql();
	my $pid = $session->backend_pid;

	$session->query("SET statement_timeout = '300ms'") if $how eq 'statement_timeout';
	$session->query("SET infer.timeout = '300ms'") if $how eq 'infer.timeout';
	$session->send(wide(400_000, 666));
	if ($how !~ /timeout/)
	{
		$server->poll_query_until("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Extension') or die $how;
	}
	kill 'KILL', $session->client_pid if $how eq 'a client killed';
	$server->safe_psql("SELECT pg_terminate_backend($pid)") if $how eq 'a backend terminated';
	$server->safe_psql("SELECT pg_cancel_backend($pid)") if $how eq 'a call cancelled';
	if ($how =~ /timeout|cancelled/)
	{
		$session->wait;
		like($session->sqlstate, qr/^(57014|IF003)$/, "$how: the call ends, whether there was memory and a slot for it or not");
		$session->quit;
	}
	ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0'), "$how: the session ends");
}
ok(InferServer::wait_until(sub { $server->process_descriptors($engine) <= $descriptors }), 'no descriptor of them stays in the engine');
is($server->psql_sqlstate("SET infer.timeout = '300ms'; " . wide(400_000, 1)), 'IF003', 'there is memory and a slot for another call');
is($server->engine_pid, $engine, 'in the same engine');

done_testing();
