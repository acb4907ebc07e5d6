# What jobs read and write: keys of any type, rows that change meanwhile, rows that cannot be written.
#
# Between reading and writing the engine stands still (SIGSTOP), so that what others do to the rows in
# between is what the test says.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start('infer.engine_timeout' => '10min');

$server->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")");

# ---- helpers ----

# submit(name => SQL ...): the job's number.
sub submit
{
	my ($arguments, %options) = @_;

	return $server->safe_psql("SELECT infer.submit_job('add', $arguments)", %options);
}

sub state_of
{
	my ($job) = @_;

	my $state;

	InferServer::wait_until(sub {
		$state = $server->safe_psql("SELECT state FROM infer.jobs WHERE job = $job");
		return $state =~ /^(completed|failed|expired|cancelled)$/;
	});
	return $state;
}

sub counts
{
	my ($job) = @_;

	return $server->safe_psql("SELECT done, failed, gone FROM infer.jobs WHERE job = $job", options => [ '-F', ' ' ]);
}

# run(ARGUMENTS): its state and counts at the end.
sub run
{
	my ($arguments, %options) = @_;
	my $job = submit($arguments, %options);

	return state_of($job) . ' ' . counts($job);
}

sub hold { kill 'STOP', $server->engine_pid }
sub release { kill 'CONT', $server->engine_pid }

# Until a job has read its first rows, and waits for them.
sub wait_until_read
{
	my ($job) = @_;

	ok($server->poll_query_until("SELECT count(*) FROM infer.read_job_workers() w JOIN pg_stat_activity a USING (pid)
		WHERE w.job = $job AND w.chunk = 1 AND a.wait_event_type = 'Extension'", 1), "job $job has read rows");
}

# ---- keys ----

$server->safe_psql(<<'SQL');
CREATE SCHEMA "My Schema";
CREATE TYPE "My Schema"."Mood; Kind" AS ENUM ('sad', 'so ''so''', 'Happy "!"', 'x,y');
CREATE DOMAIN "My Schema"."Id" AS text COLLATE "C" CHECK (VALUE <> '');
CREATE TYPE "My Schema".pair AS (a int, b text);
SQL

# What a job's process may fall to, once: in the 100th row that it writes.
$server->safe_psql(<<'SQL');
CREATE SEQUENCE fall;
CREATE FUNCTION fall() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('public.fall') = 100 THEN
		PERFORM pg_terminate_backend(pg_backend_pid());
	END IF;
	RETURN NEW;
END $$;
SQL

# Jobs with these columns as key do all of the rows, also from a checkpoint on, and in shards.
sub keys_work
{
	my ($name, $columns, $keys, $rows, $count) = @_;
	my $table = qq{"My Schema"."T.""$name"""};
	my $literal = $table =~ s/'/''/gr;
	my $job = qq{'$literal', input => '"In put"', output => '"Out.Put"'};

	$server->safe_psql(<<SQL);
CREATE TABLE $table ($columns, "In put" float8 NOT NULL DEFAULT 5, "Out.Put" float8, PRIMARY KEY ($keys));
INSERT INTO $table ($keys) $rows;
SQL
	is(run($job), "completed $count 0 0", "$name as key");
	is($server->safe_psql(qq{SELECT count(*) FROM $table WHERE "Out.Put" = 6}), $count, "$name: each row was written");

	$server->safe_psql(<<SQL);
UPDATE $table SET "Out.Put" = NULL;
SELECT setval('fall', 1);
CREATE TRIGGER fall BEFORE UPDATE ON $table FOR EACH ROW EXECUTE FUNCTION fall();
SQL
	is(run($job), "completed $count 0 0", "$name as key of a checkpoint");
	is($server->safe_psql(qq{SELECT count(*) FROM $table WHERE "Out.Put" = 6}), $count, "$name: each row was written once more");
	is(run("$job, shards => 3"), "completed $count 0 0", "$name as key of shards");
}

keys_work('uuid', 'k uuid', 'k', 'SELECT gen_random_uuid() FROM generate_series(1, 500)', 500);
keys_work('enum', 'k "My Schema"."Mood; Kind"', 'k', 'SELECT unnest(enum_range(NULL::"My Schema"."Mood; Kind"))', 4);
keys_work('domain', '"K" "My Schema"."Id"', '"K"', q{SELECT 'x' || i FROM generate_series(1, 500) i}, 500);
keys_work('text', 'k text', 'k',
	q{SELECT i || E'\'"\\{}(), \n NULL' FROM generate_series(1, 300) i UNION ALL VALUES (''), ('NULL'), ('"'), ('\\'), ('{a,b}'), ('(x)'), (' '), (repeat('k', 2000))}, 308);
keys_work('composite', 'a bigint, "B c" text', 'a, "B c"', q{SELECT i % 7, 'x' || i FROM generate_series(1, 500) i}, 500);
keys_work('numeric', 'k numeric', 'k',
	q{SELECT i / 7.0 FROM generate_series(1, 300) i UNION ALL VALUES (1.50), ('NaN'), ('Infinity'), ('-Infinity'), (1e-30), (-1e30)}, 306);
keys_work('timestamptz', 'k timestamptz', 'k',
	q{SELECT '2020-01-01'::timestamptz + i * '1.000001 s'::interval FROM generate_series(1, 300) i UNION ALL VALUES ('infinity'::timestamptz), ('-infinity')}, 302);
keys_work('bytea', 'k bytea', 'k',
	q{SELECT sha256(i::text::bytea) FROM generate_series(1, 300) i UNION ALL VALUES (''::bytea), ('\x00')}, 302);
keys_work('bool and date', 'b bool, d date', 'b, d', q{SELECT i % 2 = 0, '2020-01-01'::date + i FROM generate_series(1, 300) i}, 300);
keys_work('float8', 'k float8', 'k', q{SELECT 1.0::float8 / i FROM generate_series(1, 300) i UNION ALL VALUES ('NaN'::float8), ('-0'), ('1e-300')}, 303);
keys_work('array', 'k int[]', 'k', q{SELECT ARRAY[i % 3, i] FROM generate_series(1, 300) i UNION ALL VALUES ('{}'::int[])}, 301);
keys_work('row', 'k "My Schema".pair', 'k', q{SELECT ROW(i, 'x' || i)::"My Schema".pair FROM generate_series(1, 300) i}, 300);
keys_work('range', 'k int4range', 'k', q{SELECT int4range(i, i + 2) FROM generate_series(1, 300) i UNION ALL VALUES ('empty'::int4range)}, 301);
keys_work('interval', 'k interval', 'k', q{SELECT i * '1 day 02:03:04.5'::interval FROM generate_series(-20, 300) i}, 321);
keys_work('inet and char', 'k inet, c "char"', 'k, c', q{SELECT '10.0.0.0'::inet + i, 'c' FROM generate_series(1, 300) i}, 300);

# ---- rows that change between reading and writing ----

# thirty(NAME): a table of 30 rows whose input is the key; OPTIONS come behind its columns.
sub thirty
{
	my ($name, $columns, $after) = @_;

	$columns = $columns ? ", $columns" : '';
	$after ||= '';
	$server->safe_psql(<<SQL);
CREATE TABLE $name (id int, a float8, note text, x float8, PRIMARY KEY (id)$columns) $after;
INSERT INTO $name (id, a, note) SELECT i, i, 'n' FROM generate_series(1, 30) i;
VACUUM ANALYZE $name;
SQL
}

# What is not id + 1 in a table's column x.
sub not_written
{
	my ($table) = @_;

	return $server->safe_psql("SELECT id, a, COALESCE(x::text, '-') FROM $table WHERE x IS DISTINCT FROM id + 1 ORDER BY id",
		options => [ '-F', ' ' ]);
}

sub errors
{
	my ($job) = @_;

	return $server->safe_psql("SELECT key[1], sqlstate FROM infer.job_errors WHERE job = $job ORDER BY key[1]::int",
		options => [ '-F', ' ' ]);
}

sub reaches
{
	my ($job, $done, $what) = @_;

	ok($server->poll_query_until("SELECT done FROM infer.jobs WHERE job = $job", $done), $what);
}

thirty('changes');
hold();
my $job = submit(q{'changes', input => 'a', output => 'x'});
wait_until_read($job);
is($server->safe_psql("SELECT count(*) FROM pg_locks l JOIN infer.read_job_workers() w USING (pid) WHERE l.relation = 'changes'::regclass"),
	0, 'no lock while the engine computes');
is($server->safe_psql("SELECT count(*) FROM pg_stat_activity a JOIN infer.read_job_workers() w USING (pid)
	WHERE w.job = $job AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)"), 0, 'no snapshot and no transaction');
$server->safe_psql($_) for split /;\n/, <<'SQL';
UPDATE changes SET a = 100 WHERE id = 7;
DELETE FROM changes WHERE id = 8;
UPDATE changes SET id = 1009 WHERE id = 9;
UPDATE changes SET note = 'other' WHERE id = 10;
UPDATE changes SET a = 0 WHERE id = 11; UPDATE changes SET a = 11 WHERE id = 11;
DELETE FROM changes WHERE id = 12; INSERT INTO changes VALUES (12, 12, 'again', 500);
DELETE FROM changes WHERE id = 13;
SET lock_timeout = '2s'; ALTER TABLE changes ADD COLUMN later int DEFAULT 7;
VACUUM changes;
INSERT INTO changes (id, a) VALUES (-5, 1), (-4, 1), (-3, 1);
SQL
is($server->safe_psql("SELECT count(*) FROM changes WHERE id < 0 AND ctid = '(0,8)'"), 1, 'the place of a deleted row is in use again');
is($server->psql_sqlstate(q{SELECT infer.read_job_value('(0,1)', 1)}), '55000', 'results of jobs are for jobs');
my $locker = $server->background_psql;
$locker->query(q{BEGIN; SELECT id FROM changes WHERE id = 20 FOR UPDATE; UPDATE changes SET a = 77 WHERE id = 21;
	SELECT id FROM changes WHERE id = 22 FOR KEY SHARE; SELECT id FROM changes WHERE id = 23 FOR SHARE});
release();
reaches($job, 30 - 3 - 3, 'locked rows are not waited for');
is($server->safe_psql("SET lock_timeout = '2s'; UPDATE changes SET note = 'mine' WHERE id IN (1, 2, 7, 10); SELECT 1"), 1,
	'the job holds no lock while others do');
$locker->query('COMMIT');
is(state_of($job) . ' ' . counts($job), 'completed 27 0 3', 'changed rows were computed again, deleted ones and those with another key are gone');
is(not_written('changes'), "-5 1 -\n-4 1 -\n-3 1 -\n7 100 101\n21 77 78\n1009 9 -", 'no result is stale, and no row of another key was written');
$locker->quit;

# ---- rows that change between being looked at and being written ----

# The statement stands still in its first row, until go has a row.
$server->safe_psql(<<'SQL');
CREATE TABLE go (what text);
CREATE FUNCTION stand() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	WHILE NEW.id = 1 AND NOT EXISTS (SELECT FROM public.go WHERE what = TG_TABLE_NAME) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN NEW;
END $$;
SQL
for my $between (
	[ 'came', 'UPDATE came SET a = 290 WHERE id = 29; UPDATE came SET note = note WHERE id = 28; DELETE FROM came WHERE id = 27', 29 ],
	[ 'held', 'SELECT 1', 30 ])
{
	my ($table, $change, $done) = @$between;

	thirty($table);
	$server->safe_psql("CREATE TRIGGER stand BEFORE UPDATE ON $table FOR EACH ROW EXECUTE FUNCTION stand()");
	$job = submit(qq{'$table', input => 'a', output => 'x'});
	ok($server->poll_query_until("SELECT count(*) FROM infer.read_job_workers() w JOIN pg_stat_activity a USING (pid)
		WHERE w.job = $job AND a.wait_event = 'PgSleep'", 1), "job $job is writing");
	my $holder = $server->background_psql;
	$holder->query("BEGIN; SELECT 1 FROM $table WHERE id = 30 FOR UPDATE") if $table eq 'held';
	$server->safe_psql("$change; INSERT INTO go VALUES ('$table')");
	ok($server->poll_query_until("SELECT done = 29 AND pending = 1 FROM infer.jobs WHERE job = $job"), 'a row that was just locked is not waited for')
	  if $table eq 'held';
	$holder->query('COMMIT') if $table eq 'held';
	is(state_of($job) . ' ' . counts($job), "completed $done 0 " . (30 - $done), 'rows that just changed are told apart');
	$holder->quit;
}
is(not_written('came'), '29 290 291', 'and computed again');

# ---- the table is altered ----

thirty('altered');
hold();
$job = submit(q{'altered', input => 'a', output => 'x'});
wait_until_read($job);
$server->safe_psql("SET lock_timeout = '2s'; ALTER TABLE altered ALTER COLUMN a TYPE numeric, ALTER COLUMN note SET DEFAULT 'x'");
release();
is(state_of($job) . ' ' . counts($job), 'completed 30 0 0', 'the type of the input changes');
is(not_written('altered'), '', 'all of its rows were written');

thirty('kept');
my $session = $server->background_psql;
hold();
$job = submit(q{'kept', input => 'a', output => 'x'});
wait_until_read($job);
$session->query('BEGIN; LOCK TABLE kept');
release();
ok($server->poll_query_until("SELECT last_error ~ 'lock' FROM infer.jobs WHERE job = $job"), 'a locked table is waited for, and the job says so');
$session->query('COMMIT');
is(state_of($job) . ' ' . counts($job), 'completed 30 0 0', 'it goes on by itself');

# ---- rows that cannot be written ----

thirty('checked', 'CHECK (x <> 8), CHECK (x <> 26)');
$job = submit(q{'checked', input => 'a', output => 'x'});
is(state_of($job) . ' ' . counts($job), 'completed 28 2 0', 'rows that break a constraint fail by themselves');
is(errors($job), "7 23514\n25 23514", 'they say why');
is(not_written('checked'), "7 7 -\n25 25 -", 'the others were written');

$server->safe_psql(<<'SQL');
CREATE TABLE known (x float8 PRIMARY KEY);
INSERT INTO known SELECT i FROM generate_series(1, 20) i;
SQL
thirty('refers', 'FOREIGN KEY (x) REFERENCES known DEFERRABLE INITIALLY DEFERRED');
$job = submit(q{'refers', input => 'a', output => 'x'});
is(state_of($job) . ' ' . counts($job), 'completed 19 11 0', 'a deferred foreign key fails the rows that break it');
$server->safe_psql('UPDATE refers SET x = NULL');
$session->query('BEGIN; DELETE FROM known WHERE x = 5');
$job = submit(q{'refers', input => 'a', output => 'x', condition => 'id <= 10'});
ok($server->poll_query_until("SELECT done > 0 AND pending > 0 FROM infer.jobs WHERE job = $job"), 'a row that refers to a locked one is put off');
$session->query('ROLLBACK');
is(state_of($job) . ' ' . counts($job), 'completed 10 0 0', 'until it can be written');

thirty('unique_x', 'UNIQUE (x)');
$server->safe_psql('UPDATE unique_x SET a = 3 WHERE id = 4');
$job = submit(q{'unique_x', input => 'a', output => 'x'});
is(state_of($job) . ' ' . counts($job), 'completed 29 1 0', 'one of two rows with the same unique result fails');
is(errors($job), '4 23505', 'the second');

# triggers
$server->safe_psql(<<'SQL');
CREATE TABLE writes (name name, id int, x float8);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id = 5 THEN
		RAISE EXCEPTION 'not five' USING ERRCODE = 'UX005';
	ELSIF NEW.id = 6 THEN
		RETURN NULL;
	ELSIF NEW.id = 7 THEN
		NEW.x := -1;
	END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.writes VALUES (TG_TABLE_NAME, NEW.id, NEW.x);
	RETURN NULL;
END $$;
SQL
thirty('triggers', 'twice float8 GENERATED ALWAYS AS (x * 2) STORED');
$server->safe_psql(<<'SQL');
CREATE TRIGGER watch BEFORE UPDATE ON triggers FOR EACH ROW EXECUTE FUNCTION watch();
CREATE TRIGGER note AFTER UPDATE ON triggers FOR EACH ROW EXECUTE FUNCTION note();
SQL
$job = submit(q{'triggers', input => 'a', output => 'x'});
is(state_of($job) . ' ' . counts($job), 'completed 28 2 0', 'triggers may raise, and leave out rows');
is(errors($job), "5 UX005\n6 09000", 'both say so');
is(not_written('triggers'), "5 5 -\n6 6 -\n7 7 -1", 'and they may change rows');
is($server->safe_psql("SELECT count(*), count(DISTINCT id) FROM writes WHERE name = 'triggers'"), '28|28', 'each row was written once');
is($server->safe_psql('SELECT count(*) FROM triggers WHERE twice = x * 2'), 28, 'generated columns were computed');

# policies
$server->safe_psql(<<'SQL');
CREATE ROLE scorer LOGIN;
SELECT infer.grant_model('add', 'scorer');
SQL
thirty('policies');
$server->safe_psql(<<'SQL');
ALTER TABLE policies ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON policies TO scorer;
GRANT UPDATE (x) ON policies TO scorer;
CREATE POLICY see ON policies FOR SELECT TO scorer USING (id <= 20);
CREATE POLICY change ON policies FOR UPDATE TO scorer USING (id <> 4) WITH CHECK (x <> 11);
SQL
$job = submit(q{'policies', input => 'a', output => 'x'}, user => 'scorer');
is(state_of($job) . ' ' . counts($job), 'completed 18 2 0', 'row-level security applies');
is(errors($job), "4 09000\n10 42501", 'also where rows are written');
is($server->safe_psql('SELECT count(*) FROM policies WHERE x IS NOT NULL'), 18, 'no other row was written');

# types
thirty('narrow', 'version text, number int');
is(run(q{'narrow', input => 'a', output => 'number', verb => 'predict', version_column => 'version'}), 'completed 30 0 0',
	'a number is assigned to an integer column');
is($server->safe_psql("SELECT DISTINCT number - id, version FROM narrow", options => [ '-F', ' ' ]), '1 add@1', 'with the version beside it');
thirty('versions', 'version int');
$server->safe_psql('UPDATE versions SET a = 1e300 WHERE id = 2');
is(run(q{'versions', input => 'a', output => 'x', version_column => 'version'}), 'completed 29 1 0', 'an input that does not fit fails');
is($server->safe_psql('SELECT count(*) FROM versions WHERE version = 1'), 29, 'a version may be a number');

# ---- parts ----

$server->safe_psql(<<'SQL');
CREATE TABLE parts (id int, region text, a float8, x float8, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a');
CREATE TABLE parts_b (region text NOT NULL, x float8, a float8, gone int, id int NOT NULL);
ALTER TABLE parts_b DROP COLUMN gone;
ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES IN ('b');
CREATE TABLE parts_c PARTITION OF parts FOR VALUES IN ('c') PARTITION BY RANGE (id);
CREATE TABLE parts_c1 PARTITION OF parts_c FOR VALUES FROM (0) TO (15);
CREATE UNLOGGED TABLE parts_c2 PARTITION OF parts_c FOR VALUES FROM (15) TO (100);
INSERT INTO parts SELECT i, chr(97 + i % 3), i FROM generate_series(1, 30) i;
SQL
hold();
$job = submit(q{'parts', input => 'a', output => 'x'});
wait_until_read($job);
$server->safe_psql(<<'SQL');
UPDATE parts SET region = 'a' WHERE id = 1;
UPDATE parts SET a = a WHERE id = 2;
DELETE FROM parts WHERE id = 3;
UPDATE parts SET a = 40 WHERE id = 4;
SQL
release();
is(state_of($job) . ' ' . counts($job), 'completed 28 0 2', 'partitions: a row that moved has another key');
is(not_written('parts'), "1 1 -\n4 40 41", 'the others were written in their partitions');

thirty('fast');
$server->safe_psql('ALTER TABLE fast SET UNLOGGED');
is(run(q{'fast', input => 'a', output => 'x'}), 'completed 30 0 0', 'an unlogged table');

# ---- few rows of many ----

# Reads that would go through the whole table are cut: a read passes over 50,000 keys at first.
$server->safe_psql(<<'SQL');
CREATE TABLE sparse (id int PRIMARY KEY, a float8, x float8);
INSERT INTO sparse SELECT i, i % 50000 FROM generate_series(1, 200000) i;
VACUUM ANALYZE sparse;
ALTER DATABASE infer SET cpu_tuple_cost = 10;
SELECT pg_stat_reset_single_table_counters('sparse_pkey'::regclass);
SQL
is(run(q{'sparse', input => 'a', output => 'x', condition => 'a = 7'}), 'completed 4 0 0', 'few rows of many');
is($server->safe_psql("SELECT array_agg(id ORDER BY id), min(x), max(x) FROM sparse WHERE x IS NOT NULL"),
	'{7,50007,100007,150007}|8|8', 'those that meet the condition');
ok($server->poll_query_until("SELECT idx_scan >= 6 FROM pg_stat_user_indexes WHERE indexrelname = 'sparse_pkey'"),
	'a read passes over so many keys only');
is(run(q{'sparse', input => 'a', output => 'x', condition => 'a > 100', shards => 2}), 'completed 199596 0 0', 'many rows of many');
is($server->safe_psql("SELECT count(*) FROM sparse WHERE x = a + 1"), 199600, 'each of them');
$server->safe_psql('ALTER DATABASE infer RESET cpu_tuple_cost');

# ---- another target ----

thirty('source');
$server->safe_psql(<<'SQL');
CREATE TABLE target (id bigint PRIMARY KEY, x real, version int, extra text DEFAULT 'd');
INSERT INTO target SELECT i, -1, 0, 'old' FROM generate_series(1, 10) i;
SQL
my $into = q{source => 'SELECT id, a FROM source', key => 'id', input => 'a', target => 'target', output => 'x', version_column => 'version'};
hold();
$job = submit($into);
wait_until_read($job);
my $other = $server->background_psql;
$other->query('BEGIN; SELECT 1 FROM target WHERE id = 4 FOR UPDATE; INSERT INTO target VALUES (24, 0); UPDATE target SET x = 9 WHERE id = 5');
$server->safe_psql('UPDATE source SET a = 60 WHERE id = 6; DELETE FROM source WHERE id = 7; UPDATE source SET note = note WHERE id = 8; INSERT INTO target VALUES (25, 5)');
release();
ok($server->poll_query_until("SELECT done >= 20 AND pending > 0 FROM infer.jobs WHERE job = $job"), 'what others have locked in the target is not waited for');
$other->query('COMMIT');
is(state_of($job) . ' ' . counts($job), 'completed 29 0 1', 'and written when it is free');
is($server->safe_psql('SELECT id, x, version, extra FROM target WHERE x IS DISTINCT FROM id + 1 ORDER BY id', options => [ '-F', ' ' ]),
	"6 61 1 old\n7 -1 0 old", 'rows are inserted, or updated where they are there');
is($server->safe_psql('SELECT count(*) FROM target WHERE version = 1'), 29, 'with the version');
is(run($into), 'completed 29 0 0', 'once more');

# ---- queries that are read once ----

$server->safe_psql(<<'SQL');
CREATE TABLE scores (k text COLLATE "C" PRIMARY KEY, x float8);
CREATE VIEW seen AS SELECT id, 'k' || id AS k, a FROM source;
SQL
my $scores = q{, input => 'a', target => 'scores', output => 'x'};
is(run(qq{source => 'SELECT s.k, t.a FROM seen s JOIN source t USING (id)', key => 'k'$scores}), 'completed 29 0 0', 'a join');
is($server->safe_psql("SELECT count(*) FROM scores s JOIN seen v USING (k) WHERE s.x = v.a + 1"), 29, 'each of its rows');
is(run(qq{source => 'SELECT k, a FROM seen ORDER BY a DESC LIMIT 5', key => 'k'$scores}), 'completed 5 0 0', 'a view, some of its rows');

$job = submit(qq{source => 'SELECT NULLIF(k, ''k3'') AS k, a FROM seen', key => 'k'$scores});
is(state_of($job), 'failed', 'a key that is NULL');
like($server->safe_psql("SELECT sqlstate, last_error FROM infer.jobs WHERE job = $job"), qr/^22004\|key column "k" is NULL/, 'says so');
$job = submit(qq{source => 'SELECT left(k, 2) AS k, a FROM seen', key => 'k'$scores});
is(state_of($job), 'failed', 'a key that is there twice');
like($server->safe_psql("SELECT sqlstate, last_error FROM infer.jobs WHERE job = $job"), qr/^23505\|.*same key/, 'says so');

my $series = qq{source => 'SELECT ''k'' || g AS k, g::numeric AS a FROM generate_series(1, 1000) g', key => 'k'$scores};
$server->safe_psql(<<'SQL');
TRUNCATE scores;
SELECT setval('fall', 1);
CREATE TRIGGER fall BEFORE INSERT ON scores FOR EACH ROW EXECUTE FUNCTION fall();
SQL
is(run($series), 'completed 1000 0 0', 'on from a checkpoint');
is($server->safe_psql("SELECT count(*) FROM scores WHERE k = 'k' || x - 1"), 1000, 'each row of it');
is(run("$series, shards => 3"), 'completed 1000 0 0', 'in shards');
hold();
$job = submit($series);
wait_until_read($job);
$other->query("BEGIN; SELECT 1 FROM scores WHERE k IN ('k1', 'k10', 'k101') FOR UPDATE");
release();
ok($server->poll_query_until("SELECT done = 997 AND pending = 3 FROM infer.jobs WHERE job = $job"), 'rows of a query come back');
$other->query('COMMIT');
is(state_of($job) . ' ' . counts($job), 'completed 1000 0 0', 'by their keys');

$session->quit;
$other->quit;
$server->stop;
done_testing;
