# What ends a wait, while the device or the whole engine hangs: cancel, statement_timeout,
# termination, a client that has gone, infer.timeout.  And what is left of it: nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $three = sql_bytes(add_model(3));

# ---- a device that hangs for ever, then an engine that does not move at all ----

my $server = InferServer->start('infer.device' => 'null:hang=1+', 'infer.engine_timeout' => '1h');
$server->safe_psql("SELECT infer.create_model('m', data => $three)");

sub ends
{
	my ($what) = @_;
	my ($session, $pid);

	is($server->psql_sqlstate("SET statement_timeout = '100ms'; SELECT infer.predict('m', 1)"), '57014',
		"$what: statement_timeout ends a call");
	is($server->psql_sqlstate("SET statement_timeout = '100ms'; SELECT infer.try('m', 1)"), '57014',
		"$what: and one of infer.try, which does not hide that");

	# IF001: a new session, which was not even greeted
	like($server->psql_sqlstate("SET infer.timeout = '100ms'; SELECT infer.predict('m', 1)"),
		qr/^IF00[13]$/, "$what: infer.timeout ends a call");
	is($server->safe_psql("SET infer.timeout = '100ms'; SELECT infer.try('m', 1) IS NULL"), 't',
		"$what: infer.try gives NULL then");

	$session = $server->background_psql()->send("SELECT infer.predict('m', 1)");
	$pid = $session->backend_pid;
	ok($server->poll_query_until("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Extension'),
		"$what: a call waits");
	$server->safe_psql("SELECT pg_cancel_backend($pid)");
	$session->wait;
	is($session->sqlstate, '57014', "$what: it can be cancelled");
	is($session->query('SELECT 1'), '1', "$what: the session goes on");

	$session->send("SELECT infer.predict('m', 1)");
	ok($server->poll_query_until("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Extension'),
		"$what: another call waits");
	$server->safe_psql("SELECT pg_terminate_backend($pid)");
	ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0'),
		"$what: it can be terminated");

	$session = $server->background_psql()->send("SELECT infer.predict('m', 1)");
	$pid = $session->backend_pid;
	ok($server->poll_query_until("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Extension'),
		"$what: a third call waits");
	kill 'KILL', $session->client_pid;
	ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0'),
		"$what: it ends when its client has gone");
	return;
}

my $greeted = $server->background_psql();
$greeted->query('SELECT count(*) FROM infer.stats');
ends('hanging device');

# More calls given up than a session has regions: it starts anew with another connection.
is($server->safe_psql(q{
	SET statement_timeout = '5s';
	SET infer.timeout = '20ms';
	SELECT count(*) FROM generate_series(1, 80) i WHERE infer.try('m', i) IS NULL}), '80',
	'eighty calls given up in one session');

my $engine = $server->engine_pid;
my $descriptors = $server->process_descriptors($engine);
$server->safe_psql("SET infer.timeout = '20ms'; SELECT count(infer.try('m', i)) FROM generate_series(1, 30) i") for 1 .. 3;
ok(InferServer::wait_until(sub { $server->process_descriptors($engine) <= $descriptors }),
	'the engine keeps no descriptor of connections that have gone');

kill 'STOP', $engine;
ends('stopped engine');
for my $view (qw(stats loaded_models devices activity))
{
	my (undef, undef, $err) = $server->psql("SET infer.timeout = '100ms'; SELECT * FROM infer.$view");

	like($err, qr/IF001: .* could not be reached.*HINT: .*infer\.restart_engine\(\)/s, "infer.$view says what to do about an engine that is not reached");
	$greeted->query("SET infer.timeout = '100ms'; SELECT * FROM infer.$view");
	like($greeted->errors, qr/IF00[13]: .*HINT: .*infer\.restart_engine\(\)/s, "infer.$view says so in a session that had reached it");
}
kill 'CONT', $engine;
is($server->engine_pid, $engine, 'the engine is still the same');
is($server->safe_psql("SELECT count(*) FROM infer.models"), '1', 'the catalogue was never held up');
$server->stop('fast');
ok(!$server->process_is_alive($engine), 'a hanging device does not hold up the shutdown');

# ---- a slow device: results of calls that were given up reach nobody ----

$server->start_again('infer.device' => 'null:delay=60');
is($server->safe_psql(q{
	CREATE FUNCTION mixed() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE wrong int := 0; late int := 0; y float8;
	BEGIN
		FOR i IN 1 .. 40 LOOP
			BEGIN
				PERFORM set_config('infer.timeout', CASE WHEN i % 2 = 0 THEN '20ms' ELSE '10s' END, true);
				y := infer.predict('m', i);
				IF y <> i + 3 THEN wrong := wrong + 1; END IF;
			EXCEPTION WHEN SQLSTATE 'IF003' THEN
				late := late + 1;
			END;
		END LOOP;
		RETURN wrong || ' ' || late;
	END $$;
	SELECT mixed()}), '0 20', 'a call after one that was given up gets its own result');

# Cancelled in the middle of a statement with a cursor and a subtransaction.
my $session = $server->background_psql();
is($session->query(q{
	BEGIN; DECLARE c CURSOR FOR SELECT infer.predict('m', i) FROM generate_series(1, 5) i;
	FETCH 1 FROM c}), '4', 'a cursor gives a row');
$session->query(q{SAVEPOINT s; SET LOCAL statement_timeout = '20ms'; SELECT infer.predict('m', 7)});
is($session->sqlstate, '57014', 'a call in a subtransaction is cancelled');
is($session->query('ROLLBACK TO s; FETCH 1 FROM c'), '5', 'the cursor goes on with its own result');
$session->query('COMMIT');

# ---- the bounds of a session ----

$server->restart('infer.device' => 'cpu');
is($server->psql_sqlstate("SET infer.payload_limit = '1MB'"), '55P02', 'infer.payload_limit is not for sessions');
$session = $server->background_psql();
$session->query("SELECT infer.predict('m', 1)");
my $backend = $session->backend_pid;
my $memory = $session->query(q{
	SELECT count(infer.predict('m', i)) FROM generate_series(1, 1000) i;
	SELECT sum(total_bytes) FROM pg_backend_memory_contexts});
my $open = $server->process_descriptors($backend);
my $later = $session->query(q{
	SELECT count(infer.predict('m', i)) FROM generate_series(1, 20000) i;
	SELECT sum(total_bytes) FROM pg_backend_memory_contexts});
s/.*\n// for $memory, $later;
cmp_ok($later - $memory, '<', 100_000, 'twenty thousand calls leave no memory behind in the backend');
is($server->process_descriptors($backend), $open, 'nor descriptors');

my @links = map { readlink } glob "/proc/$backend/fd/*";
is_deeply([ grep { defined && /infer-region/ } @links ], [], 'a session at rest holds no memfd');
@links = grep { defined && /^\/memfd:infer/ } map { readlink } glob '/proc/' . $server->engine_pid . '/fd/*';
is(scalar @links, 1, 'the engine holds that of the status page only');
like($links[0], qr/infer-status/, 'by its name');
my @inheritable;
for my $info (glob "/proc/$backend/fdinfo/*")
{
	open my $handle, '<', $info or next;
	my ($fd) = $info =~ /(\d+)$/;
	my ($flags) = join('', <$handle>) =~ /^flags:\s+(\d+)/m;
	push @inheritable, readlink "/proc/$backend/fd/$fd"
	  if !(oct($flags) & 02000000) && (readlink("/proc/$backend/fd/$fd") // '') =~ /^socket:|memfd|eventpoll/;
}
cmp_ok(scalar(@inheritable), '<=', 1, "all but the client's own socket is close-on-exec") or diag("@inheritable");

# A session that does not move holds up nobody.
my $stopped = $server->background_psql();
$stopped->send("SELECT count(infer.predict('m', i)) FROM generate_series(1, 200000) i");
kill 'STOP', $stopped->backend_pid;
is($server->safe_psql("SELECT count(infer.predict('m', i)) FROM generate_series(1, 1000) i"), '1000',
	'a stopped session holds up nobody');
kill 'CONT', $stopped->backend_pid;
is($stopped->wait, '200000', 'and goes on where it was');

$session->query('BEGIN');
$session->query(qq{SAVEPOINT s; SELECT infer.predict('m', 'nonsense'); ROLLBACK TO s}) for 1 .. 20;
is($session->query("SELECT infer.predict('m', 1)"), '4', 'calls that fail while they are filled free their regions');
$session->query('COMMIT');

# ---- parallel workers are clients of their own ----

is($server->safe_psql(q{
	CREATE TABLE t AS SELECT g AS x FROM generate_series(1, 5000) g;
	ALTER TABLE t SET (parallel_workers = 2); ANALYZE t;
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	SELECT sum(infer.predict('m', x)) FROM t}), 5000 * 5001 / 2 + 3 * 5000, 'a parallel query is right');

# ---- many at once ----

$server->restart('max_connections' => 520);
my ($status, $out, $err) = $server->pgbench("SELECT infer.predict('m', 1);\n", '-c', '500', '-t', '1', '-j', '2');
my %states = map { $_ => 1 } $err =~ /ERROR:  (.*)/g;
is($status, 0, 'five hundred connections at once are answered') or diag($err);
is_deeply([ $server->engine_pids ], [ $server->engine_pid ], 'by the one engine');

done_testing();
