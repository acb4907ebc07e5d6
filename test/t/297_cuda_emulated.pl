# The CUDA device below a whole server, over the emulation of CUDA: what it serves, and that no statement and no chunk
# of a job is of two numerics when the GPU goes away in the middle.
use strict;
use warnings;
use File::Copy;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $build = $ENV{INFER_BUILD} || "$FindBin::RealBin/../../build";
my $emulated = "$build/engine/emulation/infer_cuda.so";
plan skip_all => "the emulated CUDA device is not built ($emulated)" if !-e $emulated;

my $bare = InferServer->start;
my $library = $bare->dir . '/../infer_cuda.so';
my $cpu = $bare->safe_psql("SELECT numerics_id FROM infer.devices WHERE in_use");
my $two = sql_bytes(add_model(2));
sub install { copy($emulated, $library) or die "$library: $!"; chmod 0755, $library; return; }

install();
$bare->stop;
$ENV{INFER_CUDA} = $library;
my $server = InferServer->start('infer.device' => 'auto', 'infer.statement_batch_rows' => 64);

# ---- what serves ----

$server->safe_psql("SELECT infer.create_model('m', data => $two)");
is($server->safe_psql("SELECT device, description, numerics_id <> '$cpu' AND numerics_id LIKE 'cuda-sm%', memory_budget > 0, detail FROM infer.devices"),
	'cuda:0|Emulated GPU|t|t|cuBLASLt 13 not found', 'auto: the GPU serves, and what it lacks is said')
  or diag($server->log_tail);
is($server->safe_psql("SELECT infer.predict('m', 40)"), '42', 'a call is computed by it');
is($server->safe_psql("SELECT count(*), min(y), max(y) FROM (SELECT infer.predict('m', g) - g AS y FROM generate_series(1, 1000) g) s"),
	'1000|2|2', 'and the rows of a statement');
is($server->safe_psql("SELECT DISTINCT device FROM infer.profile('m', 1)"), 'cuda:0', 'infer.profile names it');
is($server->safe_psql("SELECT memory_used > 0 FROM infer.devices"), 't', 'what the model takes of it is counted');

# ---- what it leaves to the CPU ----

is($server->safe_psql('SELECT host_copies, host_bytes FROM infer.devices'), '0|0', 'nothing was copied for the CPU to compute');
copy("$FindBin::RealBin/../../examples/iris/model.onnx", $server->dir . '/../iris.onnx') or die $!;
chmod 0644, $server->dir . '/../iris.onnx';
$server->safe_psql("SELECT infer.create_model('iris', '" . $server->dir . "/../iris.onnx')");
is($server->safe_psql("SELECT infer.classify('iris', 5.1, 3.5, 1.4, 0.2)"), 'setosa', 'a model with words for answers');
is($server->safe_psql("SELECT string_agg(primitive, ',') FROM infer.profile('iris', 5.1, 3.5, 1.4, 0.2) WHERE device = 'cpu'"), 'gather',
	'has the words looked up by the CPU');
is($server->safe_psql('SELECT host_copies > 0, host_bytes > 0 FROM infer.devices'), 't|t', 'and what is copied for that is counted');

# ---- it goes away in the middle of a statement ----

sub lose_gpu
{
	unlink $library;
	$server->wait_for_new_engine($server->kill_engine);
	return;
}

sub find_gpu
{
	my ($name) = @_;

	install();
	$server->safe_psql('SELECT infer.restart_engine()');
	ok($server->poll_query_until("SELECT device = 'cuda:0' FROM infer.devices WHERE in_use"), $name);
	return;
}

$server->safe_psql('CREATE TABLE t AS SELECT g AS id, g::float8 AS x, NULL::float8 AS y FROM generate_series(1, 200000) g; ALTER TABLE t ADD PRIMARY KEY (id)');
$server->safe_psql('SELECT infer.reset_stats()');
my $session = $server->background_psql;
$session->send("SELECT sum(infer.predict('m', x)) FROM t");
ok($server->poll_query_until("SELECT coalesce(sum(rows), 0) > 500 FROM infer.stats WHERE model = 'm'"), 'a statement is under way');
lose_gpu();
$session->wait;
like($session->errors, qr/IF001: the inference engine was replaced by one that computes other bits/, 'it fails when the engine computes by another device');
like($session->errors, qr/Some rows were computed by cuda-sm\S+, and others by \Q$cpu\E/, 'and says by which');
$session->quit;
is($server->safe_psql("SELECT device, in_use FROM infer.devices ORDER BY in_use DESC"), "cpu|t\ncuda|f", 'the CPU serves now');
is($server->safe_psql("SELECT sum(infer.predict('m', x) - x) FROM t"), '400000', 'and the statement succeeds when it is run again');

find_gpu('restart_engine looks for the GPU again');

# ---- answers that wait to be read when it goes away ----

$session = $server->background_psql;
$session->query('BEGIN');
$session->query("DECLARE c CURSOR FOR SELECT infer.predict('m', x) FROM t");
$session->query('MOVE 300 IN c');
ok($server->poll_query_until('SELECT count(*) = 0 FROM infer.activity'), 'a cursor has been read, and its next batch is computed');
lose_gpu();
$session->query("DO \$\$ DECLARE c refcursor := 'c'; BEGIN PERFORM infer.predict('m', 1); MOVE 300 IN c; END \$\$");
like($session->errors, qr/IF001: .*\nDETAIL:  Some rows were computed by \Q$cpu\E, and others by cuda-sm/,
	'that one is of the engine that computed it, though another one is connected when it is read');
$session->quit;

find_gpu('the GPU is back for two processes');
my $hold = $server->write_file('hold', '');
$server->safe_psql(<<"SQL");
CREATE TABLE p AS SELECT g::float8 AS x FROM generate_series(1, 20000) g;
CREATE FUNCTION held(x float8) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS \$\$
BEGIN WHILE x <= 50 AND (pg_stat_file('$hold', true)).size IS NOT NULL LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN false; END \$\$;
ANALYZE p;
SELECT infer.reset_stats();
SQL
$session = $server->background_psql;
$session->query('SET max_parallel_workers_per_gather = 1; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0');
my $pid = $session->query('SELECT pg_backend_pid()');
$session->send("SELECT sum(infer.predict('m', x)) FROM p WHERE NOT held(x)");
ok($server->poll_query_until("SELECT coalesce(sum(rows), 0) > 15000 AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE $pid IN (pid, leader_pid)
		AND wait_event IS DISTINCT FROM 'PgSleep' AND wait_event IS DISTINCT FROM 'ExecuteGather') FROM infer.stats WHERE model = 'm'"),
	'one process has computed all rows that it can have, and the other one waits at its first');
lose_gpu();
unlink $hold;
$session->wait;
like($session->errors, qr/IF001: .*\nDETAIL:  Some rows were computed by cuda-sm\S+, and others by \Q$cpu\E/, 'that one has no rows of the other device');
$session->quit;

find_gpu('the GPU is back for a cursor');
$session = $server->background_psql;
$session->query("BEGIN; DECLARE c CURSOR FOR SELECT infer.predict('m', x) FROM t; MOVE 300 IN c");
ok($server->poll_query_until('SELECT count(*) = 0 FROM infer.activity'), 'it has been read, and its next batch is computed');
lose_gpu();
is($session->query("SELECT infer.predict('m', 1)"), '3', 'another statement of its transaction is computed by the CPU');
$session->query('MOVE 8 IN c; ' x 25);
like($session->errors, qr/\A\S* ERROR:  IF001: .*\nDETAIL:  Some rows were computed by cuda-sm\S+, and others by \Q$cpu\E/,
	'the cursor has no rows of both, though no FETCH would have seen two');
$session->quit;

find_gpu('the GPU is back');
$session = $server->background_psql;
$session->send("DO \$\$ BEGIN PERFORM infer.predict('m', 1); COMMIT; WHILE NOT EXISTS (SELECT FROM infer.devices WHERE device = 'cpu' AND in_use) LOOP PERFORM pg_sleep(0.05); END LOOP; PERFORM infer.predict('m', 2); END \$\$");
ok($server->poll_query_until("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = " . $session->backend_pid), 'a procedure has committed');
lose_gpu();
$session->wait;
is($session->errors, '', 'and goes on with the other device: its transactions are by themselves');
$session->quit;

find_gpu('the GPU is there for two transactions of one message');
$session = $server->background_psql;
$session->send("BEGIN\\; SELECT infer.predict('m', 1)\\; COMMIT\\; DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM infer.devices WHERE device = 'cpu' AND in_use) LOOP PERFORM pg_sleep(0.05); END LOOP; END \$\$\\; BEGIN\\; SELECT infer.predict('m', 2)\\; COMMIT");
ok($server->poll_query_until("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = " . $session->backend_pid), 'the first has committed');
lose_gpu();
$session->wait;
is($session->errors, '', 'each is by itself, though they began at the same time');
$session->quit;

# ---- and in the middle of a job ----

find_gpu('the GPU is there for a job');
my $job = $server->safe_psql("SELECT infer.submit_job('m', 't', input => 'x', output => 'y')");
ok($server->poll_query_until("SELECT done > 500 FROM infer.jobs WHERE job = $job"), 'a job is under way');
lose_gpu();
is($server->safe_psql("SELECT infer.wait_job($job, timeout => '2 minutes')"), 'completed', 'it goes on by the CPU');
is($server->safe_psql('SELECT count(*) FROM t WHERE y = x + 2'), '200000', 'and computes each row');

find_gpu('the GPU is back for another job');
$server->safe_psql(<<'SQL');
CREATE TABLE held AS SELECT;
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN WHILE EXISTS (SELECT FROM held) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN new; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION hold();
SQL
$job = $server->safe_psql("SELECT infer.submit_job('m', 't', input => 'x', output => 'y')");
ok($server->poll_query_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type LIKE 'infer job%' AND wait_event = 'PgSleep'"), 'its first chunk is being written');
ok($server->poll_query_until('SELECT count(*) = 0 FROM infer.activity'), 'and the next ones are computed');
my $log = $server->log_size;
lose_gpu();
$server->safe_psql('DELETE FROM held');
is($server->safe_psql("SELECT infer.wait_job($job, timeout => '2 minutes')"), 'completed', 'it goes on by the CPU');
like(substr($server->log, $log), qr/job $job waits 1 s: the inference engine was replaced by one that computes other bits/,
	'with nothing that it remembers of before');

# ---- it can be opened, but is lost again and again ----

# After so many of CUDA's calls each engine's GPU answers with 719 for good (a kernel failed, be it a row's doing or not).
install();
$ENV{INFER_EMULATED_FAIL} = '150:719:1';
$log = $server->log_size;
$server->restart;
$server->safe_psql('CREATE TABLE u AS SELECT g AS id, g::float8 AS x, NULL::float8 AS y FROM generate_series(1, 20000) g; ALTER TABLE u ADD PRIMARY KEY (id)');
is($server->safe_psql("SELECT device FROM infer.devices WHERE in_use"), 'cuda:0', 'a GPU that will be lost serves at first');
$job = $server->safe_psql("SELECT infer.submit_job('m', 'u', input => 'x', output => 'y')");
is($server->safe_psql("SELECT infer.wait_job($job, timeout => '2 minutes')"), 'completed', 'a job goes on by the CPU');
is($server->safe_psql("SELECT done, failed FROM infer.jobs WHERE job = $job"), '20000|0', 'and no row is held to be guilty');
is($server->safe_psql('SELECT count(*) FROM u WHERE y = x + 2'), '20000', 'and each is computed');
is($server->safe_psql("SELECT infer.predict('m', 40)"), '42', 'nor is the model disabled');
my $said = substr($server->log, $log);
is(scalar(() = $said =~ /infer: the GPU was lost/g), 2, 'the GPU is tried once more, and then no longer');
like($said, qr/the GPU was lost, another engine tries it again.*WARNING:  .*the GPU was lost twice within 10 minutes, another engine computes on the CPU/s,
	'the log says so');
is($server->safe_psql("SELECT device, in_use, detail ~ '^lost twice within 10 minutes; tried again by infer.restart_engine\\(\\), or if an engine starts after 2\\d\\d\\d-.* \\S+\$' FROM infer.devices WHERE detail IS NOT NULL"),
	'cuda|f|t', 'and infer.devices until when')
  or diag($server->safe_psql('SELECT device, detail FROM infer.devices'));
$server->wait_for_new_engine($server->kill_engine);
is($server->safe_psql("SELECT device FROM infer.devices WHERE in_use"), 'cpu', 'an engine that is started meanwhile leaves the GPU alone, too');
find_gpu('restart_engine does not');

# Of these calls most are made while the engine starts.
$ENV{INFER_EMULATED_FAIL} = '60:719:1';
$server->restart;
ok($server->poll_query_until("SELECT infer.predict('m', 40) = 42"), 'where the GPU is lost while the engine starts, the CPU computes, too');
is($server->safe_psql('SELECT device FROM infer.devices WHERE in_use'), 'cpu', 'before long');
delete $ENV{INFER_EMULATED_FAIL};

# ---- who asked for the GPU gets no other bits ----

install();
$server->restart('infer.device' => 'cuda', 'infer.timeout' => '5s');
is($server->safe_psql("SELECT infer.predict('m', 40)"), '42', 'cuda: the GPU serves');
unlink $library;
$server->kill_engine;
like(($server->psql("SELECT infer.predict('m', 40)"))[2], qr/the inference engine/, 'without it calls fail');
install();
ok($server->poll_query_until("SELECT infer.predict('m', 40) = 42"), 'until it is back');
$server->stop;
done_testing();
