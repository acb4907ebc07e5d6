# Jobs as they are submitted, waited for, cancelled and tried again by several sessions and roles; what is checked when they are
# submitted, and once more when they run.  test/sql/jobs_submit.sql has what a single session can see.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.cpu_threads' => 1, 'infer.max_job_workers' => 0, max_prepared_transactions => 2);
my $major = $server->safe_psql('SHOW server_version_num') / 10000;

$server->safe_psql(<<SQL);
SELECT infer.create_model('add', data => ${\ sql_bytes(add_model(3)) }, options => '{"features": ["x"]}');
SELECT infer.create_model('wide', data => ${\ sql_bytes(large_add_model(3, 5)) });
CREATE TABLE t (id int PRIMARY KEY, x float8, y float8);
INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
CREATE ROLE alice LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE carol LOGIN;
CREATE ROLE nobody;
GRANT alice TO carol;
GRANT SELECT, UPDATE ON t TO alice, bob, nobody;
SELECT infer.grant_model('add', 'alice'), infer.grant_model('add', 'bob'), infer.grant_model('add', 'nobody');
SQL

my $job_on_t = q{infer.submit_job('add', 't', output => 'y'};

sub submit { my ($arguments, %psql) = @_; return $server->safe_psql("SELECT infer.submit_job($arguments)", %psql); }
sub column { my ($job, $column) = @_; return $server->safe_psql("SELECT $column FROM infer.job WHERE job = $job"); }
sub ended { my ($job) = @_; return $server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')"); }
sub run_jobs { my ($workers) = @_; $server->safe_psql("ALTER SYSTEM SET infer.max_job_workers = $workers; SELECT pg_reload_conf()"); return; }

# ---- names ----

my $first = $server->background_psql;
my $second = $server->background_psql;
$first->query('BEGIN');
my $job = $first->query("SELECT $job_on_t, name => 'score')");
$second->send("SELECT $job_on_t, name => 'score')");
ok($server->poll_query_until("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $second->backend_pid),
	'a second submission under a name waits until the first has been committed');
$first->query('COMMIT');
is($second->wait, $job, 'and is the same job then');
like($second->errors, qr/NOTICE:.*job "score" has not ended yet: it is job $job$/m, 'with a notice');
$first->query('BEGIN');
my $rolled_back = $first->query("SELECT $job_on_t, name => 'other')");
$second->send("SELECT $job_on_t, name => 'other')");
ok($server->poll_query_until("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $second->backend_pid), 'another one waits, too');
$first->query('ROLLBACK');
my $other = $second->wait;
cmp_ok($other, '>', $rolled_back, 'and is a job of its own if the first was rolled back');
isnt(submit(q{'add', 't', output => 'y', name => 'score'}, user => 'alice'), $job, 'another role has names of its own');
$server->safe_psql("BEGIN; SELECT $job_on_t, name => 'prepared'); PREPARE TRANSACTION 'p'");
$second->send("SET statement_timeout = 0; SELECT $job_on_t, name => 'prepared')");
ok($server->poll_query_until("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $second->backend_pid),
	'a name waits for a prepared transaction');
$server->safe_psql("COMMIT PREPARED 'p'");
is($second->wait, $server->safe_psql("SELECT job FROM infer.job WHERE name = 'prepared'"), 'and is its job then');
is($server->safe_psql("SELECT $job_on_t) <> $job_on_t)"), 't', 'without a name each submission is a job');

# ---- waiting ----

is($server->safe_psql("SELECT infer.wait_job($job, '0')"), 'validating', 'wait_job with no time looks only');
is($server->safe_psql("SELECT infer.wait_job($job, '50 ms')"), 'validating', 'and after its time tells the state');
is($server->psql_sqlstate("SET statement_timeout = '50 ms'; SELECT infer.wait_job($job)"), '57014', 'statement_timeout ends it');
$second->send("SELECT infer.wait_job($job)");
$server->poll_query_until("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = " . $second->backend_pid);
$server->safe_psql('SELECT pg_cancel_backend(' . $second->backend_pid . ')');
$second->wait;
is($second->sqlstate, '57014', 'so does pg_cancel_backend');
$second->send("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT infer.wait_job($job)");
is($server->psql_sqlstate("SELECT infer.wait_job($job, '0')", user => 'bob'), '42501', 'nobody else may wait for it');
is($server->psql_sqlstate("SELECT infer.cancel_job($job)", user => 'bob'), '42501', 'or cancel it');
is($server->psql_sqlstate("SELECT infer.retry_job($job)", user => 'bob'), '42501', 'or take it up again');
is($server->psql_sqlstate("SELECT infer.drop_job($job)", user => 'bob'), '42501', 'or drop it');
my $alices = $server->safe_psql("SELECT job FROM infer.job WHERE owner_name = 'alice'");
is($server->safe_psql("SELECT infer.cancel_job($alices)", user => 'carol'), 't', 'a member of its role may cancel it');
$server->safe_psql("SELECT infer.cancel_job(job) FROM infer.job WHERE job NOT IN ($job)");

# ---- roles ----

is($server->psql_sqlstate("SET ROLE nobody; SELECT $job_on_t)"), $major < 17 ? '28000' : '',
	$major < 17 ? 'a role that cannot log in has no jobs' : 'a role that cannot log in may have jobs');
$server->safe_psql(<<SQL);
CREATE FUNCTION submit() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public AS
	\$\$ SELECT $job_on_t, name => 'by function') \$\$;
ALTER FUNCTION submit() OWNER TO alice;
SQL
my $definers = $server->safe_psql('SELECT submit()', user => 'bob');
is(column($definers, "owner = 'alice'::regrole"), 't', 'a job of a SECURITY DEFINER function belongs to whom the function does');
is(column($definers, "request ->> 'search_path'"), 'pg_catalog, public', 'and keeps its search_path');
is($server->safe_psql("SELECT infer.cancel_job($definers)"), 't', 'a superuser may cancel it');

# ---- they run ----

run_jobs(2);
is($second->wait, "100\ncompleted", 'wait_job returns when the job has ended, whatever its snapshot sees');
$second->query('ROLLBACK');
is($server->safe_psql('SELECT count(*) FROM t WHERE y = x + 3'), 100, 'the rows are scored');
is($server->safe_psql("SELECT infer.cancel_job($job), infer.retry_job($job)"), 'f|0', 'a job that has completed is neither cancelled nor taken up again');
is(column($job, 'state'), 'completed', 'and is left as it is');
is($server->safe_psql("SELECT infer.drop_job($job)") . column($job, 'job'), '', 'it can be dropped');
is(submit(q{'add', 't', output => 'y', name => 'score'}) > $job ? 1 : 0, 1, 'the name of a job that has ended is free');

# names that have to be quoted, keys of other types, in a job that runs
$server->safe_psql(<<'SQL');
CREATE SCHEMA "My Schema";
CREATE TYPE "My Schema"."Mood" AS ENUM ('sad', 'so so', 'it''s "fine"');
CREATE DOMAIN "My Schema"."Positive" AS bigint CHECK (VALUE > 0);
CREATE FUNCTION "My Schema".twice(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
CREATE TABLE "My Schema"."Odd.Table" ("Mood" "My Schema"."Mood", "B c" "My Schema"."Positive", "a text" text, u uuid, "X" float8, "Y""y" float8, made_by text, version int,
	PRIMARY KEY ("Mood", "a text", "B c", u)) PARTITION BY LIST ("Mood");
CREATE TABLE "My Schema"."part 1" PARTITION OF "My Schema"."Odd.Table" FOR VALUES IN ('sad', 'so so');
CREATE TABLE "My Schema"."part 2" PARTITION OF "My Schema"."Odd.Table" DEFAULT;
INSERT INTO "My Schema"."Odd.Table" SELECT m, b, E'it''s \\ "' || t, gen_random_uuid(), b FROM unnest(enum_range(NULL::"My Schema"."Mood")) AS m, generate_series(1, 100) AS b,
	unnest('{a,NULL,"",ä}'::text[]) AS t WHERE t IS NOT NULL;
SQL
$job = $server->safe_psql(<<'SQL');
SET search_path = "My Schema", public;
SELECT infer.submit_job('add', '"Odd.Table"', input => 'twice("X")', output => '"Y""y"', version_column => 'made_by', condition => '"B c" > 10 -- most', shards => 3);
SQL
is(ended($job), 'completed', 'odd names and keys, a function by the search_path: the job runs');
is($server->safe_psql('SELECT count(*), count(*) FILTER (WHERE "Y""y" = 2 * "X" + 3), min(made_by) FROM "My Schema"."Odd.Table" WHERE "Y""y" IS NOT NULL'), '810|810|add@1',
	'and writes what it should');
$job = $server->safe_psql(q{SELECT infer.submit_job('add', '"My Schema"."Odd.Table"', input => '"X"', output => '"Y""y"', version_column => 'version')});
is(ended($job), 'completed', 'a version column may be a number');
is($server->safe_psql('SELECT count(*) FROM "My Schema"."Odd.Table" WHERE "Y""y" = "X" + 3 AND version = 1'), 900, 'and gets it');
$server->safe_psql('CREATE TABLE "My Schema".scores (LIKE "My Schema"."Odd.Table"); ALTER TABLE "My Schema".scores ADD UNIQUE (u, "Mood")');
$job = $server->safe_psql(q{SELECT infer.submit_job('add', source => 'SELECT u, "Mood", "X", "B c", "a text" FROM "My Schema"."Odd.Table"', input => '"X"', key => '"Mood", u, "B c", "a text"', target => '"My Schema"."Odd.Table"', output => '"Y""y"', condition => NULL)});
is(ended($job), 'completed', 'an INSERT by such a key');
is($server->psql_sqlstate(q{SELECT infer.submit_job('add', source => 'SELECT u, "Mood", "X" FROM "My Schema"."Odd.Table"', input => '"X"', key => 'u, "Mood"', target => '"My Schema".scores', output => '"Y""y"')}),
	'23502', 'a target with other columns NOT NULL is refused');

# rows, objects, texts: whatever a verb takes
$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";
$server->safe_psql("\\set model bert_e5\n\\i $InferServer::top/test/fixtures/text.psql\n", options => [ '-o', '/dev/null' ]);
$server->safe_psql(<<'SQL');
\getenv srcdir PG_ABS_SRCDIR
\set content `base64 -w0 :srcdir/fixtures/values/echo_pair.onnx`
SELECT infer.create_model('pair', data => decode(:'content', 'base64'));
CREATE TABLE pairs (id int PRIMARY KEY, word varchar(10), numbers real[], o jsonb, fixed char(8), answer jsonb, e real[]);
INSERT INTO pairs SELECT i, 'w' || i, array[i, i + 1], jsonb_build_object('word', 'w' || i, 'numbers', array[i, i + 1]), 'f' || i FROM generate_series(1, 20) i;
SQL
for my $input ('', "input => 'pairs', ", "input => 'o', ", "input => '*', ", "input => 'numbers, word', ")
{
	$job = submit("'pair', 'pairs', ${input}output => 'answer'");
	is(ended($job), 'completed', "inputs: $input");
	is($server->safe_psql("SELECT count(*) FROM pairs WHERE answer = infer('pair', numbers, word)"), 20, 'reach the model');
	$server->safe_psql('UPDATE pairs SET answer = NULL');
}
$job = submit(q{'pair', source => 'SELECT id, numbers, max(word) AS word FROM pairs GROUP BY id', target => 'pairs', output => 'answer'});
is(ended($job) . $server->safe_psql("SELECT count(*) FROM pairs WHERE answer = infer('pair', numbers, word)"), 'completed20', 'a row of a query that is read once');
$job = submit(q{'bert_e5', 'pairs', input => 'fixed', output => 'e', options => '{"prompt": "query", "dimensions": 3}'});
is(ended($job) . $server->safe_psql(q{SELECT count(*) FROM pairs WHERE e = infer.embed('bert_e5', fixed::text, '{"prompt": "query", "dimensions": 3}')}), 'completed20',
	'a text that has to be cast, with options');

# dates and times are those of the session that submitted the job
$server->safe_psql("CREATE TABLE times (id int PRIMARY KEY, at timestamptz, y float8); INSERT INTO times VALUES (1, '2026-03-02 01:00+09'), (2, '2026-02-03 01:00+09')");
$job = $server->safe_psql(<<'SQL');
SET timezone = 'Asia/Tokyo';
SET datestyle = 'German, DMY';
SELECT infer.submit_job('add', 'times', input => 'extract(day from at)::float8', output => 'y', condition => 'at >= ''02/03/2026''');
SQL
is(ended($job) . ' ' . $server->safe_psql("SELECT string_agg(concat(id, ':', y), ' ' ORDER BY id) FROM times"), 'completed 1:5 2:', 'dates and times mean what they meant in the session');

# ---- between submission and run ----

run_jobs(0);
$server->safe_psql('CREATE TABLE moved (id int PRIMARY KEY, x float8, y float8); CREATE TABLE remade (LIKE moved INCLUDING ALL); CREATE TABLE altered (LIKE moved INCLUDING ALL)');
$server->safe_psql("INSERT INTO $_ SELECT i, i FROM generate_series(1, 10) i") for qw(moved remade altered);
my %jobs = map { $_ => submit("'add', '$_', output => 'y'") } qw(moved remade altered);
$jobs{model} = submit(q{'add@1', 't', output => 'y'});
$server->safe_psql(<<SQL);
ALTER TABLE moved RENAME TO elsewhere;
DROP TABLE remade;
CREATE TABLE remade (id int PRIMARY KEY, x float8, y float8);
ALTER TABLE altered RENAME x TO z;
SELECT infer.create_model('add', data => ${\ sql_bytes(add_model(4)) }, options => '{"features": ["x"]}');
SELECT infer.activate_model('add', 2);
SQL
$jobs{other} = submit(q{'add', 't', output => 'y'});
run_jobs(2);
is(ended($jobs{moved}), 'completed', 'a table that was renamed is the same table');
is($server->safe_psql('SELECT count(*) FROM elsewhere WHERE y = x + 3'), 10, 'and is scored by the version that was active when the job was submitted');
is(ended($jobs{remade}), 'failed', 'one that was dropped and made again is not');
is(column($jobs{remade}, "concat_ws('|', sqlstate, message)"), '42P01|relation public.remade does not exist any more', 'and the job says so');
is(ended($jobs{altered}), 'failed', 'a column that is gone');
like(column($jobs{altered}, "concat_ws('|', sqlstate, message)"), qr/^42703\|table "altered" lacks a feature of model "add": "x"/, 'is named');
is(ended($jobs{$_}), 'completed', "the job of the $_ version") for qw(model other);
is(column($jobs{other}, 'model'), 'add@2', 'a later job has the later version');

run_jobs(0);
$jobs{renamed} = submit(q{'add', 't', output => 'y'});
$server->safe_psql("SELECT infer.rename_model('add', 'plus'); UPDATE t SET y = NULL");
run_jobs(2);
is(ended($jobs{renamed}), 'completed', 'a model that was renamed is the same model');
is($server->safe_psql('SELECT count(*) FROM t WHERE y = x + 4'), 100, 'and computes');
$server->safe_psql("SELECT infer.rename_model('plus', 'add')");

# what was mended goes on
is($server->safe_psql("SELECT infer.retry_job($jobs{altered}) IS NULL"), 't', 'a job that failed before it counted can be taken up');
is(ended($jobs{altered}), 'failed', 'and fails again if nothing was mended');
$server->safe_psql('ALTER TABLE altered RENAME z TO x');
$server->safe_psql("SELECT infer.retry_job($jobs{altered})");
is(ended($jobs{altered}), 'completed', 'or completes if it was');
is($server->safe_psql('SELECT count(*) FROM altered WHERE y = x + 3'), 10, 'with the rows scored');

# items that failed are computed again, and nothing else
$server->safe_psql(<<'SQL');
CREATE TABLE some_bad (id int PRIMARY KEY, x float8, y float8);
INSERT INTO some_bad SELECT i, CASE WHEN i % 10 = 0 THEN 1e300 ELSE i END FROM generate_series(1, 50) i;
CREATE TABLE writes (id int);
CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO writes VALUES (NEW.id); RETURN NEW; END $$;
CREATE TRIGGER counts BEFORE UPDATE OF y ON some_bad FOR EACH ROW EXECUTE FUNCTION count_write();
SQL
$job = submit(q{'add', 'some_bad', output => 'y'});
is(ended($job), 'completed', 'rows that cannot be computed do not end a job');
is($server->safe_psql("SELECT infer.retry_job($job)"), 5, 'they are tried again');
is(ended($job), 'completed', 'in vain,');
$server->safe_psql('UPDATE some_bad SET x = id WHERE x > 1000');
is($server->safe_psql("SELECT infer.retry_job($job)"), 5, 'and again');
is(ended($job), 'completed', 'when they have been mended:');
is($server->safe_psql('SELECT count(*), count(DISTINCT id) FROM writes'), '50|50', 'each row was written once');
is($server->safe_psql('SELECT count(*) FROM some_bad WHERE y = x + 4'), 50, 'with its result');
is($server->safe_psql("SELECT infer.retry_job($job)"), 0, 'nothing is left to try');

# the same for a query that was read once
$server->safe_psql('UPDATE some_bad SET x = 1e300 WHERE id = 7; CREATE TABLE got (id int PRIMARY KEY, y float8)');
$job = submit(q{'add', source => 'SELECT id, max(x) AS x FROM some_bad GROUP BY id', target => 'got', output => 'y'});
is(ended($job), 'completed', 'a query that is read once');
is($server->safe_psql('SELECT count(*) FROM got') . ' ' . $server->safe_psql("SELECT infer.retry_job($job)") . ' ' . ended($job), '49 1 completed',
	'its rows stay as long as one may be tried again');
is($server->safe_psql("SELECT count(*) FROM infer.job_errors WHERE job = $job AND state = 'failed'"), 1, 'which fails as it did');

# ---- dimensions of vectors ----

SKIP:
{
	skip 'this PostgreSQL has no pgvector', 4
	  unless $server->safe_psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'");
	$server->safe_psql('CREATE EXTENSION vector; CREATE TABLE vectors (id int PRIMARY KEY, x real[], three vector(3), five vector(5), half halfvec(4), any_width vector); INSERT INTO vectors VALUES (1, \'{1,2,3,4,5}\')');
	my (undef, undef, $error) = $server->psql(q{SELECT infer.submit_job('wide', 'vectors', input => 'x', output => 'three')});
	like($error, qr/42804: column "three" takes 3 numbers, but model "wide" gives 5\n/, 'a vector column of another width is refused, with both numbers');
	is($server->psql_sqlstate(q{SELECT infer.submit_job('wide', 'vectors', input => 'x', output => 'half')}), '42804', 'so is a halfvec');
	ended(submit("'wide', 'vectors', input => 'x', output => '$_'")) for qw(five any_width);
	is($server->safe_psql('SELECT five, any_width FROM vectors'), '[4,5,6,7,8]|[4,5,6,7,8]', 'others get their numbers');
	is($server->safe_psql('SELECT three IS NULL FROM vectors'), 't', 'and nothing else was written');
}

# ---- NOT NULL that nobody has checked ----

SKIP:
{
	skip 'before 18 NOT NULL is checked at once', 2 if $major < 18;
	$server->safe_psql('CREATE TABLE unchecked (id int UNIQUE, x float8, y float8); INSERT INTO unchecked VALUES (NULL, 1), (2, 2); ALTER TABLE unchecked ADD CONSTRAINT known NOT NULL id NOT VALID');
	is($server->psql_sqlstate(q{SELECT infer.submit_job('add', 'unchecked', key => 'id', output => 'y')}), '42830', 'a key whose NOT NULL is not valid yet is none');
	$server->safe_psql('DELETE FROM unchecked WHERE id IS NULL; ALTER TABLE unchecked VALIDATE CONSTRAINT known');
	is(ended(submit(q{'add', 'unchecked', key => 'id', output => 'y'})), 'completed', 'when it has been validated it is one');
}

# ---- standbys ----

my $standby = $server->start_standby();
$standby->poll_query_until("SELECT count(*) FROM infer.job WHERE job = $job", 1);
is($standby->psql_sqlstate("SELECT $job_on_t)"), '25006', 'nothing is submitted to a standby');
is($standby->psql_sqlstate("SELECT infer.$_($job)"), '25006', "$_ is for the primary") for qw(cancel_job retry_job drop_job);
is($standby->safe_psql("SELECT infer.wait_job($job)"), 'completed', 'wait_job tells there what has come');

done_testing();
