# Columns that are kept fresh, end to end: what leads to a job and what does not, what a job's end leaves, and that
# nothing is lost by crashes, races, dumps, prepared transactions or promotions.  Jobs are counted by the numbers they take.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.device' => 'null:crash_on=-666', 'infer.cpu_threads' => 1, log_min_messages => 'log',
	max_prepared_transactions => 5, wal_level => 'replica');

# ---- helpers ----

sub sql { return $server->safe_psql(@_); }

# A table of rows 1 to COUNT with x = id, whose writes are counted.
sub make_table
{
	my ($name, $count) = @_;

	sql(<<SQL);
CREATE TABLE $name (id int PRIMARY KEY, x float8, y float8, v text, note text, writes int NOT NULL DEFAULT 0);
CREATE INDEX ON $name (id) WHERE v IS NULL;
INSERT INTO $name (id, x) SELECT i, i FROM generate_series(1, $count) i;
SQL
	return;
}

sub keep { my ($table, $more) = @_; return sql("SELECT infer.keep_fresh('m', '$table', 'x', 'y', 'v'" . ($more || '') . ')'); }

# Waits until a table is as it should be: every row made by VERSION of its x as it is (plus ADDEND), and nothing to do.
sub is_fresh
{
	my ($table, $version, $name, %psql) = @_;
	my $addend = { 1 => 10, 2 => 20, 3 => 30 }->{$version};

	ok($server->poll_query_until(<<SQL, 't', %psql), $name);
SELECT NOT EXISTS (SELECT FROM $table WHERE v IS DISTINCT FROM 'm\@$version' OR y IS DISTINCT FROM x + $addend)
	AND (SELECT state = 'fresh' FROM infer.fresh_columns WHERE "table" = '$table'::regclass)
SQL
	return;
}

# The last number that a job got, when no job of the table is or will be.
sub last_job
{
	my ($table) = @_;

	$server->poll_query_until("SELECT state = 'fresh' FROM infer.fresh_columns WHERE \"table\" = '$table'::regclass");
	return sql('SELECT last_value FROM infer.job_id');
}

sub jobs_since { my ($last, $table) = @_; return last_job($table) - $last; }

# The columns of the last job of a table.
sub last_of
{
	my ($table, $columns) = @_;

	return sql("SELECT $columns FROM infer.jobs j JOIN infer.fresh_columns f USING (job) WHERE f.\"table\" = '$table'::regclass");
}

sql(sprintf 'SELECT infer.create_model($$m$$, data => %s)', sql_bytes(add_model($_))) for 10, 20, 30;

# ---- what leads to a job ----

make_table('t', 500);
keep('t');
is_fresh('t', 1, 'what is there is scored');
is(last_of('t', 'done, failed, j.state, name'), '500|0|completed|fresh public.t.y', 'by a job like others');

my ($last, $job) = (last_job('t'));
sql('INSERT INTO t (id, x) VALUES (501, 7), (502, 8)');
is_fresh('t', 1, 'new rows are scored');
is(last_of('t', 'done'), 2, 'and nothing else');
sql('UPDATE t SET x = x + 100 WHERE id BETWEEN 5 AND 7');
is_fresh('t', 1, 'changed rows are scored');
is(last_of('t', 'done'), 3, 'and nothing else');
is(jobs_since($last, 't'), 2, 'one job for each commit');
is(sql("SELECT count(*) FROM infer.jobs WHERE name LIKE 'fresh %'"), 1, 'of which the last one is kept');

$last = last_job('t');
sql("UPDATE t SET note = 'seen'");
sql('UPDATE t SET x = x');
sql('UPDATE t SET id = id + 10000 WHERE id > 490');
sql('BEGIN; INSERT INTO t (id, x) VALUES (-1, 1); ROLLBACK');
sql("INSERT INTO t (id, x, y, v) VALUES (-2, 1, 11, 'm\@1')");
sql('DELETE FROM t WHERE id = 3');
is(jobs_since($last, 't'), 0, 'what changes no input leads to no job; the jobs\' own writes do not either');

sql('UPDATE t SET v = NULL WHERE id < 5');
is_fresh('t', 1, 'rows are scored again when somebody asks for it');
sql("UPDATE t SET v = 'm\@7', y = 0 WHERE id = 9");
is_fresh('t', 1, 'or writes another version');
sql("INSERT INTO t (id, x, y, v) VALUES (-3, 1, 0, 'other')");
is_fresh('t', 1, 'or brings it along');
sql("COPY t (id, x) FROM PROGRAM 'seq 20001 22000 | sed \"s/.*/&\t&/\"'");
is_fresh('t', 1, 'COPY');
$last = last_job('t');
sql(<<SQL);
DO \$\$ BEGIN
	FOR i IN 30001..30200 LOOP
		BEGIN
			INSERT INTO t (id, x) VALUES (i, i);
			IF i % 2 = 0 THEN RAISE 'no'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END \$\$;
SQL
is_fresh('t', 1, 'subtransactions');
is(sql("SELECT infer.stale_rows('m', 't')"), 0, 'no row is stale');

# ---- versions ----

$last = last_job('t');
my $rows = sql('SELECT count(*) FROM t');
sql("SELECT infer.activate_model('m', 2)");
is_fresh('t', 2, 'another version is activated');
is(jobs_since($last, 't'), 1, 'by one job');
is(last_of('t', 'done'), $rows, 'of all rows');
sql("BEGIN; SELECT infer.activate_model('m', 3); ROLLBACK");
is(sql("SELECT infer.stale_rows('m', 't')"), 0, 'one that was not leads to nothing');
make_table('pinned', 5);
sql("SELECT infer.keep_fresh('m\@1', 'pinned', 'x', 'y', 'v')");
is_fresh('pinned', 1, 'a version may be named');
sql("SELECT infer.activate_model('m', 1)");
is_fresh('t', 1, 'and back');
sql("INSERT INTO pinned (id, x) VALUES (6, 6)");
is_fresh('pinned', 1, 'it stays as it is');
sql("SELECT infer.drop_fresh(NULL, 'pinned')");

# a version that is activated while the job of another one waits
$server->reload('infer.max_job_workers' => 0);
$job = sql('SELECT last_value FROM infer.job_id');
sql("UPDATE t SET v = 'other' WHERE id = 8");
ok($server->poll_query_until("SELECT count(*) = 1 FROM infer.jobs WHERE job > $job AND state = 'validating' AND model = 'm\@1'"), 'a job waits');
sql("SELECT infer.activate_model('m', 2)");
$server->reload('infer.max_job_workers' => 2);
is_fresh('t', 2, 'the version that it does not know is not forgotten');
sql("SELECT infer.activate_model('m', 1)");
is_fresh('t', 1, 'and back');

# ---- rows that change while they are computed ----

sub stop_engine { kill 'STOP', $server->engine_pid; return; }
sub continue_engine { kill 'CONT', $_ for $server->engine_pids; return; }

$server->reload('infer.engine_timeout' => '60s');
stop_engine();
sql('UPDATE t SET x = -1 WHERE id = 10');
ok($server->poll_query_until("SELECT state = 'updating' FROM infer.fresh_columns WHERE \"table\" = 't'::regclass"), 'a job waits for the engine');

sql('UPDATE t SET x = -2 WHERE id = 10');
sql('DELETE FROM t WHERE id = 11');
my $holder = $server->background_psql;
$holder->query('BEGIN; SELECT x FROM t WHERE id = 10 FOR UPDATE');
continue_engine();
is(sql('SELECT v IS NULL FROM t WHERE id = 10'), 't', 'the old input\'s result is not written');
$holder->query('COMMIT');
$holder->finish if $holder->can('finish');
is_fresh('t', 1, 'the row ends with the new input\'s');

# ---- rows that fail ----

sql("INSERT INTO t (id, x) VALUES (40001, 'Infinity'), (40002, 2)");
ok($server->poll_query_until("SELECT v = 'm\@1 failed' AND y IS NULL FROM t WHERE id = 40001"), 'a row that fails says so');
$last = last_job('t');
is(last_of('t', 'done, failed'), '1|1', 'the other one does not');
sql('INSERT INTO t (id, x) VALUES (40003, 3)');
ok($server->poll_query_until("SELECT v = 'm\@1' FROM t WHERE id = 40003"), 'another one comes');
is(jobs_since($last, 't'), 1, 'and is scored by itself');
is(last_of('t', 'done, failed'), '1|0', 'the failed row is not tried again');
is(sql("SELECT count(*) FROM infer.job_errors JOIN infer.jobs USING (job) WHERE name = 'fresh public.t.y'"), 1, 'its error is kept');
is(sql("SELECT infer.stale_rows('m', 't')"), 1, 'and it counts as stale');
sql('UPDATE t SET x = 5 WHERE id = 40001');
is_fresh('t', 1, 'until its input changes');
sql('INSERT INTO t (id, x) VALUES (40004, -666)');
ok($server->poll_query_until("SELECT v = 'm\@1 failed' FROM t WHERE id = 40004"), 'a row that ends the engine is not tried for ever');
sql('DELETE FROM t WHERE id = 40004');
is_fresh('t', 1, 'and harms no others');

# ---- many writers ----

my $bench = $server->background_pgbench(<<'SQL', '-c', '4', '-j', '2', '-t', '150');
\set id random(1, 400)
\set x random(1, 1000000)
BEGIN;
UPDATE t SET x = :x WHERE id = :id;
INSERT INTO t (id, x) SELECT 50000 + count(*) * 10 + :client_id, :x FROM t WHERE false OR :id % 10 = 0 HAVING :id % 10 = 0 ON CONFLICT DO NOTHING;
END;
SQL
is(($bench->finish)[0], 0, 'writers succeed');
is_fresh('t', 1, 'rows are fresh when writers have ended');

# ---- what ends it ----

sql('CREATE ROLE keeper LOGIN; CREATE SCHEMA keeper AUTHORIZATION keeper');
sql("SELECT infer.grant_model('m', 'keeper')");
$server->safe_psql('CREATE TABLE keeper.k (id int PRIMARY KEY, x float8, y float8, v int)', user => 'keeper');
$server->safe_psql("INSERT INTO keeper.k VALUES (1, 1); SELECT infer.keep_fresh('m', 'keeper.k', 'x', 'y', 'v')", user => 'keeper');
ok($server->poll_query_until('SELECT y = 11 AND v = 1 FROM keeper.k'), 'an integer tells the version as well');
is(sql("SELECT owner FROM infer.jobs WHERE name = 'fresh keeper.k.y'"), 'keeper', 'the job is the keeping role\'s');
sql("SELECT infer.revoke_model('m', 'keeper'); INSERT INTO keeper.k VALUES (2, 2)");
ok($server->poll_query_until(<<'SQL'), 'without the right to the model the job fails, and another one will follow');
SELECT state = 'waiting' AND problem ~ '^job \d+ failed: permission denied for model "m"' FROM infer.fresh_columns WHERE "table" = 'keeper.k'::regclass
SQL
sql("SELECT infer.grant_model('m', 'keeper')");
ok($server->poll_query_until('SELECT bool_and(y = x + 10 AND v = 1) FROM keeper.k'), 'which does what is left');
sql('ALTER TABLE keeper.k OWNER TO postgres; INSERT INTO keeper.k VALUES (3, 3)');
is(sql("SELECT state, problem FROM infer.fresh_columns WHERE \"table\" = 'keeper.k'::regclass"),
	'stopped|role "keeper" does not own the table any more', 'a table that has another owner is not kept as the former one');
sql('ALTER TABLE keeper.k OWNER TO keeper; SELECT infer.activate_model($$m$$, 1)');
ok($server->poll_query_until('SELECT bool_and(y = x + 10 AND v = 1) FROM keeper.k'), 'and goes on when it is back');
sql('ALTER TABLE keeper.k DISABLE TRIGGER ALL; INSERT INTO keeper.k VALUES (4, 4)');
ok($server->poll_query_until("SELECT state = 'stopped' FROM infer.fresh_columns WHERE \"table\" = 'keeper.k'::regclass"), 'nor with its triggers disabled');
sql('ALTER TABLE keeper.k ENABLE TRIGGER ALL; SELECT infer.activate_model($$m$$, 1)');
ok($server->poll_query_until('SELECT bool_and(y = x + 10 AND v = 1) FROM keeper.k'), 'what came meanwhile is found');
sql('DROP OWNED BY keeper; DROP ROLE keeper');
ok($server->poll_query_until('SELECT count(*) = 1 FROM infer.fresh'), 'what is dropped is forgotten');

# ---- stopping ----

make_table('slow', 200);
stop_engine();
keep('slow');
ok($server->poll_query_until("SELECT state = 'updating' FROM infer.fresh_columns WHERE \"table\" = 'slow'::regclass"), 'a job runs');
$job = sql("SELECT job FROM infer.fresh_columns WHERE \"table\" = 'slow'::regclass");
sql("SELECT infer.cancel_job($job)");
ok($server->poll_query_until("SELECT state = 'cancelled' FROM infer.jobs WHERE job = $job"), 'it can be cancelled');
continue_engine();
$last = sql('SELECT last_value FROM infer.job_id');
sql("UPDATE slow SET note = 'x' WHERE false");
is(sql("SELECT state, problem FROM infer.fresh_columns WHERE \"table\" = 'slow'::regclass"), "stopped|job $job was cancelled", 'and is not begun again');
sql('INSERT INTO slow (id, x) VALUES (201, 1)');
is_fresh('slow', 1, 'until something changes');
stop_engine();
sql('UPDATE slow SET x = 3');
ok($server->poll_query_until("SELECT state = 'updating' FROM infer.fresh_columns WHERE \"table\" = 'slow'::regclass"), 'a job runs');
$job = sql("SELECT job FROM infer.fresh_columns WHERE \"table\" = 'slow'::regclass");
sql("SELECT infer.drop_fresh('m', 'slow')");
continue_engine();
ok($server->poll_query_until("SELECT state = 'cancelled' FROM infer.jobs WHERE job = $job"), 'drop_fresh cancels it');
is(sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'slow'::regclass"), 0, 'and leaves no trigger');
sql('DROP TABLE slow');

# ---- prepared transactions ----

sql("BEGIN; INSERT INTO t (id, x) VALUES (60001, 1); PREPARE TRANSACTION 'later'");
sql("COMMIT PREPARED 'later'");
is_fresh('t', 1, 'its rows are scored when it is committed');

# ---- restarts ----

sql('INSERT INTO t (id, x) VALUES (60002, 2)');
$server->stop('immediate');
$server->start_again;
is_fresh('t', 1, 'a crash loses nothing');
sql("BEGIN; UPDATE t SET x = 99 WHERE id = 60002; PREPARE TRANSACTION 'later'");
$server->restart;
is_fresh('t', 1, 'a restart with a prepared transaction');
sql("COMMIT PREPARED 'later'");
is_fresh('t', 1, 'which is committed afterwards');
stop_engine();
sql('UPDATE t SET x = x + 1');
ok($server->poll_query_until("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'infer job'"), 'a job runs');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'infer job'");
continue_engine();
is_fresh('t', 1, 'a terminated runner loses nothing');

# ---- dump and restore ----

sql("ALTER TABLE t RENAME x TO input; ALTER TABLE t RENAME TO renamed");
sql('UPDATE renamed SET input = 4 WHERE id = 1');
ok($server->poll_query_until("SELECT count(*) = 0 FROM renamed WHERE v IS DISTINCT FROM 'm\@1' OR y IS DISTINCT FROM input + 10"), 'names may change');
sql('CREATE TABLE parts (id int PRIMARY KEY, x float8, y float8, v text) PARTITION BY RANGE (id)');
sql('CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)');
keep('parts', ", key => 'id', condition => 'id < 150'");
sql('CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200)');
sql('INSERT INTO parts (id, x) SELECT i, i FROM generate_series(0, 149) i');
is_fresh('parts', 1, 'partitions are kept');
sql('INSERT INTO parts_2 (id, x) VALUES (160, 1); UPDATE parts_2 SET x = 1 WHERE id = 140');
ok($server->poll_query_until("SELECT count(*) = 150 FROM parts WHERE v = 'm\@1' AND y = x + 10"), 'also what is written to one directly, where it meets the condition');

my $dump = "$server->{parent}/dump";
my %environment = $server->environment;
{
	local @ENV{ keys %environment } = values %environment;
	is(system($server->program('pg_dump'), '-f', $dump), 0, 'pg_dump');
	# triggers may come long after the rows of infer.fresh, which have been looked at by then
	my $text = do { local (@ARGV, $/) = ($dump); <> };
	ok($text =~ s/^CREATE TRIGGER infer_fresh_/SELECT pg_sleep(2);\n$&/m, 'with its triggers');
	$dump = $server->write_file('dump-slow', $text);
	sql('CREATE DATABASE restored');
	is(system($server->program('psql'), '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', 'restored', '-f', $dump), 0, 'and back');
}
my %there = (database => 'restored');
is(sql('SELECT count(*) FROM renamed', %there), sql('SELECT count(*) FROM renamed'), 'the rows are there');
sql('UPDATE renamed SET input = 5 WHERE id < 3; INSERT INTO parts_1 (id, x) VALUES (-0, 3) ON CONFLICT (id) DO UPDATE SET x = 3', %there);
ok($server->poll_query_until("SELECT count(*) = 0 FROM renamed WHERE v IS DISTINCT FROM 'm\@1' OR y IS DISTINCT FROM input + 10", 't', %there),
	'a restored column is kept fresh');
ok($server->poll_query_until("SELECT count(*) = 150 FROM parts WHERE v = 'm\@1' AND y = x + 10", 't', %there), 'partitions as well');
sql("SELECT infer.activate_model('m', 2)", %there);
ok($server->poll_query_until("SELECT count(*) = 0 FROM renamed WHERE v IS DISTINCT FROM 'm\@2' OR y IS DISTINCT FROM input + 20", 't', %there),
	'by another version too');
is(sql("SELECT count(*) FROM renamed WHERE v = 'm\@1'"), sql('SELECT count(*) FROM renamed'), 'databases have nothing to do with each other');
like(($server->psql("SELECT infer.drop_model('m')", %there))[2], qr/depends on server m/, 'what depends on what is known again');
sql("SELECT infer.drop_fresh('m', 'parts'); SELECT infer.drop_fresh('m', 'renamed')", %there);
is(sql("SELECT count(*) FROM pg_trigger WHERE tgname ~ 'infer_fresh'", %there), 0, 'and it can be dropped');
sql('DROP DATABASE restored');

# ---- a standby that is promoted ----

my $standby = $server->start_standby;
is($standby->safe_psql("SELECT count(*) FROM infer.fresh_columns"), 2, 'a standby shows what is kept');
sql('UPDATE renamed SET input = 6 WHERE id = 6');
$server->stop('immediate');
$standby->safe_psql('SELECT pg_promote()');
$standby->safe_psql('UPDATE renamed SET input = 7 WHERE id = 7');
ok($standby->poll_query_until("SELECT count(*) = 0 FROM renamed WHERE v IS DISTINCT FROM 'm\@1' OR y IS DISTINCT FROM input + 10"),
	'and keeps it when it is promoted');

# ---- dropping the extension ----

is($standby->psql_sqlstate('DROP EXTENSION infer'), '2BP01', 'the extension is not dropped from under triggers');
$standby->safe_psql('DROP EXTENSION infer CASCADE');
is($standby->safe_psql("SELECT count(*) FROM pg_trigger WHERE tgname ~ 'infer_fresh'"), 0, 'unless with them');
$standby->safe_psql('UPDATE renamed SET input = 8 WHERE id = 8');

done_testing;
