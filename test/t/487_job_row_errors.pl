# Errors that are one row's alone: of the condition, of inputs that are read again, of triggers that raise what
# locks raise.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start('infer.engine_timeout' => '10min', autovacuum => 'off');

$server->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")");

sub submit
{
	my ($arguments) = @_;

	return $server->safe_psql("SELECT infer.submit_job('add', $arguments)");
}

sub ended
{
	my ($job) = @_;

	$server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')");
	return $server->safe_psql("SELECT state, total, done, failed, gone FROM infer.jobs WHERE job = $job", options => [ '-F', ' ' ]);
}

sub errors
{
	my ($job) = @_;

	return $server->safe_psql("SELECT string_agg(key[1] || ' ' || sqlstate, ', ' ORDER BY key[1]::int) FROM infer.job_errors WHERE job = $job");
}

sub errors_by_text
{
	my ($job) = @_;

	return $server->safe_psql("SELECT string_agg(key[1] || ' ' || sqlstate, ', ' ORDER BY key[1]) FROM infer.job_errors WHERE job = $job");
}

# ---- conditions ----

# d is 0 where the condition fails; it is met by odd keys.
$server->safe_psql(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, x float8 NOT NULL, d int NOT NULL, y float8);
INSERT INTO t SELECT g, g, CASE WHEN g IN (1, 2, 1500, 1501, 3000) THEN 0 ELSE g % 2 END FROM generate_series(1, 3000) g;
UPDATE t SET d = 2 WHERE d = 0 AND id NOT IN (1, 2, 1500, 1501, 3000);
SQL
my $job = submit(q{'t', input => 'x', output => 'y', condition => '1 / d = 1'});
is(ended($job), 'completed 1503 1498 5 0', 'rows for which the condition fails have failed, and the rest is done');
is(errors($job), '1 22012, 2 22012, 1500 22012, 1501 22012, 3000 22012', 'they are told by their keys');
is($server->safe_psql('SELECT count(*), bool_and(d = 1 AND y = x + 1) FROM t WHERE y IS NOT NULL'), '1498|t', 'those that meet it were written, and no others');

# Taken up again, they are looked at again.
$server->safe_psql('UPDATE t SET d = 1 WHERE id IN (1, 2); UPDATE t SET d = 2 WHERE id = 3000');
is($server->safe_psql("SELECT infer.retry_job($job)"), 5, 'they are tried again');
is(ended($job), 'completed 1503 1500 2 1', 'what meets the condition by now is done, what does not is gone');
is(errors($job), '1500 22012, 1501 22012', 'the others fail again');

# Errors of functions, in shards; the row is known to be bad only when it is read.
$server->safe_psql(<<'SQL');
UPDATE t SET y = NULL;
CREATE FUNCTION wanted(d int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF d = 0 THEN
		RAISE EXCEPTION 'no row for me';
	END IF;
	RETURN d = 1;
END $$;
SQL
$job = submit(q{'t', input => 'x', output => 'y', condition => 'wanted(d)', shards => 3});
is(ended($job), 'completed 1502 1500 2 0', 'the same of what a function in the condition raises, in shards');
is(errors($job), '1500 P0001, 1501 P0001', 'likewise told');
is($server->safe_psql("SELECT shards FROM infer.jobs WHERE job = $job"), 3, 'keys were cut into ranges for all that');

# Few rows meet the condition, and the one that fails lies far behind: it is not looked for from the beginning again and again.
$server->safe_psql(<<'SQL');
CREATE TABLE far (id int PRIMARY KEY, x float8 NOT NULL, d int NOT NULL, y float8);
INSERT INTO far SELECT g, g, CASE g WHEN 30000 THEN 0 ELSE 2 END FROM generate_series(1, 30000) g;
INSERT INTO far SELECT g, g, 1 FROM generate_series(30001, 30010) g;
CREATE SEQUENCE calls;
CREATE FUNCTION counted(d int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	PERFORM nextval('public.calls');
	RETURN 1 / d = 1;
END $$;
SQL
$job = submit(q{'far', input => 'x', output => 'y', condition => 'counted(d)'});
is(ended($job), 'completed 11 10 1 0', 'a row that fails behind many that do not meet the condition');
cmp_ok($server->safe_psql('SELECT last_value FROM calls'), '<', 8 * 30010, 'each row was looked at a few times only');

# A row without a key could not be told of: also where the condition fails for it.
SKIP:
{
	skip 'from 17 on the planner believes NOT NULL', 2 if $server->safe_psql('SHOW server_version_num') >= 170000;
	$server->safe_psql(<<'SQL');
CREATE TABLE loose (k int UNIQUE NOT NULL, x float8 NOT NULL, d int NOT NULL, y float8);
UPDATE pg_attribute SET attnotnull = false WHERE attrelid = 'loose'::regclass AND attname = 'k';
INSERT INTO loose VALUES (1, 1, 1), (2, 2, 0), (NULL, 3, 0), (4, 4, 1);
UPDATE pg_attribute SET attnotnull = true WHERE attrelid = 'loose'::regclass AND attname = 'k';
SQL
	$job = submit(q{'loose', key => 'k', input => 'x', output => 'y', condition => '1 / d = 1'});
	ended($job);
	is($server->safe_psql("SELECT state, sqlstate, last_error FROM infer.jobs WHERE job = $job"), 'failed|22004|key column source.k is NULL in some rows',
		'a row without a key for which the condition fails is told as such');
	$server->safe_psql('DELETE FROM loose WHERE k IS NULL');
	$job = submit(q{'loose', key => 'k', input => 'x', output => 'y', condition => '1 / d = 1'});
	is(ended($job), 'completed 3 2 1 0', 'without it others fail by themselves');
}

# ---- keys whose texts cannot be read back ----

$server->safe_psql(<<'SQL');
CREATE TYPE odd;
CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal STRICT IMMUTABLE AS 'int4in';
CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'oidout';
CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = int4);
CREATE CAST (odd AS int4) WITHOUT FUNCTION AS IMPLICIT;
CREATE TABLE odd_keys (id odd PRIMARY KEY, x float8 NOT NULL, d int NOT NULL, y float8);
INSERT INTO odd_keys SELECT g::text::odd, g, CASE g WHEN -2 THEN 0 ELSE 1 END FROM generate_series(-3, 3) g;
SQL
$job = submit(q{'odd_keys', input => 'x', output => 'y', condition => '1 / d = 1'});
is(ended($job), 'completed 7 6 1 0', 'a row that cannot be read, nor found again by its key, has failed');
is(errors_by_text($job), '4294967294 22003', 'and is told by the key\'s text');

my $holder = $server->background_psql;
$holder->query("BEGIN; SELECT FROM odd_keys WHERE id = '-1' FOR UPDATE");
$job = submit(q{'odd_keys', input => 'x', output => 'y', condition => 'd = 1'});
ok($server->poll_query_until("SELECT pending FROM infer.jobs WHERE job = $job", 1), 'one is locked, and put off');
$holder->query('COMMIT');
is(ended($job), 'completed 6 5 1 0', 'and has failed when it cannot be found again');
is(errors_by_text($job), '4294967295 22003', 'told likewise');
$holder->quit;

# ---- a kept column's row that is put off, and then cannot be read ----

$server->safe_psql(<<'SQL');
CREATE TABLE kept (id int PRIMARY KEY, x float8, d int, y float8, v text);
SELECT infer.keep_fresh('add', 'kept', input => 'x / d', output => 'y', version_column => 'v');
INSERT INTO kept SELECT g, g, 1 FROM generate_series(1, 10) g;
SQL
ok($server->poll_query_until("SELECT count(*) FROM kept WHERE v = 'add\@1'", 10), 'a kept column is fresh');

# Nobody marks the column when the row changes: what marks the row is the job that put it off.
my $locker = $server->background_psql;
kill 'STOP', $server->engine_pid;
$server->safe_psql('UPDATE kept SET v = NULL');
ok($server->poll_query_until("SELECT count(*) FROM infer.read_job_workers() w JOIN pg_stat_activity a USING (pid)
	WHERE w.chunk = 1 AND a.wait_event_type = 'Extension'", 1), 'its job has read all rows');
$locker->query("SET session_replication_role = replica; BEGIN; UPDATE kept SET d = 0 WHERE id = 5");
kill 'CONT', $server->engine_pid;
ok($server->poll_query_until('SELECT pending FROM infer.jobs ORDER BY job DESC LIMIT 1', 1), 'one is locked, and put off');
$locker->query('COMMIT');
ok($server->poll_query_until("SELECT v FROM kept WHERE id = 5", 'add@1 failed'), 'which cannot be read then, and is marked');

# ---- locks, and triggers that say the same ----

$server->safe_psql(<<'SQL');
CREATE TABLE parent (id float8 PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 101);
CREATE TABLE child (id int PRIMARY KEY, x float8, y float8 REFERENCES parent);
INSERT INTO child SELECT g, g FROM generate_series(1, 100) g;
CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_LEVEL = 'STATEMENT' OR NEW.id = 7 THEN
		RAISE EXCEPTION 'canceling statement due to lock timeout' USING ERRCODE = 'lock_not_available';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER busy BEFORE UPDATE ON child FOR EACH ROW EXECUTE FUNCTION busy();
SQL
$locker->query('BEGIN; SELECT FROM parent WHERE id = 51 FOR UPDATE');
$job = submit(q{'child', input => 'x', output => 'y'});
ok($server->poll_query_until("SELECT string_agg(concat_ws(' ', key[1], state, sqlstate, retryable), ', ' ORDER BY key[1]::int) FROM infer.job_errors WHERE job = $job AND key IN ('{7}', '{50}')",
	'7 failed 55P03 t, 50 pending t'), 'a row whose trigger says that it is locked fails after a while, one that waits for a lock waits on');
is($server->safe_psql("SELECT attempts FROM infer.job_errors WHERE job = $job AND key = '{7}'"), 5, 'after five times');
$locker->query('COMMIT');
is(ended($job), 'completed 100 99 1 0', 'which is written when the lock is gone');
$locker->quit;

# A trigger for each statement is in the way of all rows, and fails the job as other faults do.
$server->safe_psql(<<'SQL');
DROP TRIGGER busy ON child;
CREATE TRIGGER busy BEFORE UPDATE ON child FOR EACH STATEMENT EXECUTE FUNCTION busy();
SQL
$job = submit(q{'child', input => 'x', output => 'y'});
ok($server->poll_query_until("SELECT last_error FROM infer.jobs WHERE job = $job", 'canceling statement due to lock timeout'), 'a trigger for each statement');
$server->reload('infer.max_job_workers' => 0);
ok($server->poll_query_until("SELECT faults FROM infer.job_shard WHERE job = $job", 1), 'is a fault');
$server->safe_psql("UPDATE infer.job_shard SET faults = 10, resume_at = NULL WHERE job = $job");
$server->reload('infer.max_job_workers' => 2);
like(ended($job), qr/^failed /, 'and so many faults in a row fail the job');

$server->stop;
done_testing;
