# What is to be seen of jobs that run, and of those that wait: infer.jobs, pg_stat_activity, infer.activity, the log.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start('infer.device' => 'null:delay=20', 'infer.batch_rows' => 16, 'infer.max_job_workers' => 1);
my $three = sql_bytes(add_model(3));

$server->safe_psql("CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; GRANT CREATE ON SCHEMA public TO app; GRANT USAGE ON FOREIGN DATA WRAPPER infer TO app");
$server->safe_psql("SELECT infer.create_model('add', data => $three)", user => 'app');

sub table
{
	my ($name, $rows) = @_;

	$server->safe_psql("CREATE TABLE $name (id int PRIMARY KEY, x real, y double precision); INSERT INTO $name SELECT i, i FROM generate_series(1, $rows) i; ANALYZE $name",
		user => 'app');
	return;
}

sub submit
{
	my ($arguments) = @_;

	return $server->safe_psql("SELECT infer.submit_job('add', $arguments)", user => 'app');
}

sub column
{
	my ($job, $columns, %options) = @_;

	return $server->safe_psql("SELECT $columns FROM infer.jobs WHERE job = $job", %options);
}

sub until_is
{
	my ($job, $condition, $name) = @_;

	return ok($server->poll_query_until("SELECT $condition FROM infer.jobs WHERE job = $job"), $name)
	  || diag($server->safe_psql("SELECT * FROM infer.jobs WHERE job = $job", options => ['-x']));
}

# ---- one that runs, one that waits for the only slot ----

table('first', 150000);		# minutes of work, so that it is under way as long as it is looked at
table('second', 100);
my $log = $server->log_size;
my $first = submit("'first', 'x', 'y'");
until_is($first, 'done > 0', 'a job is under way');
until_is($first, q{chunk ~ '^(computing|writing) chunk \d+ of \d+ rows$'}, 'its chunk is shown');
is(column($first, 'state, total, total_estimated, waiting_for, shards'), 'in_progress|150000|f||1', '... its rows are counted, it waits for nothing');
until_is($first, q(rows_per_second > 0 AND eta BETWEEN '0 s' AND '1 day'), '... its rate, and how long it will take');
is($server->safe_psql("SELECT backend_type, usename, application_name, datname FROM pg_stat_activity JOIN infer.jobs ON pid = ANY (pids) WHERE job = $first"),
	"infer job|app|infer job $first|infer", '... its process');
ok($server->poll_query_until("SELECT a.class, a.role, a.model FROM infer.activity a JOIN infer.jobs j ON a.pid = ANY (j.pids) LIMIT 1", 'job|app|add'),
	'... and its calls in the engine');
my $second = submit("'second', 'x', 'y'");
until_is($second, q(waiting_for = 'a worker slot (infer.max_job_workers = 1)'), 'another one waits for a slot, and says so');
is(column($second, 'state, total, chunk, pids, shards'), 'validating||||0', '... nothing is known of it yet');
is($server->safe_psql('SELECT count(*) FROM infer.read_job_workers()', user => 'other'), '0', 'a stranger sees no processes of theirs');
is($server->safe_psql("SELECT (infer.job_manifest($first) #>> '{counts,done}')::int > 0, infer.job_manifest($first) #>> '{times,finished}'"), 't|',
	'a job that runs has a manifest, too');

# ---- paused ----

$server->reload('infer.max_job_workers' => 0);
until_is($first, q(waiting_for = 'infer.max_job_workers, which is 0' AND pids IS NULL AND chunk IS NULL), 'a job whose slot is gone leaves after its chunk');
my $done = column($first, 'done');
$server->reload('infer.max_job_workers' => 2);
until_is($second, "state = 'completed'", 'with slots again the second one runs');
until_is($first, "done > $done", '... and the first one goes on');
is($server->safe_psql("SELECT infer.cancel_job($first)", user => 'app'), 't', 'it is cancelled');
until_is($first, "state = 'cancelled'", '... and ends');
is(column($first, 'done + cancelled = total, waiting_for, eta, pids'), 't|||', '... what was left is counted');

# ---- rows that come back ----

table('locked', 50);
my $lock = $server->background_psql;
$lock->query('BEGIN; SELECT FROM locked WHERE id IN (7, 9) FOR UPDATE');
my $locked = submit("'locked', 'x', 'y'");
until_is($locked, q{waiting_for ~ '^rows that come back \(2, the first at '}, 'a job that waits for locked rows says so');
is(column($locked, 'done, pending, failed'), '48|2|0', '... how many they are');
is($server->safe_psql("SELECT key, state FROM infer.job_errors WHERE job = $locked ORDER BY key"), "{7}|pending\n{9}|pending", '... and which');
$lock->query('COMMIT');
until_is($locked, q(state = 'completed' AND done = 50 AND pending = 0 AND recomputed >= 2), 'then they are done');

# ---- shards ----

table('sharded', 4000);
my $sharded = submit("'sharded', 'x', 'y', shards => 2");
until_is($sharded, q{chunk ~ '^shard 1: \w+ chunk \d+( of \d+ rows)?; shard 2: \w+ chunk \d+( of \d+ rows)?$' AND cardinality(pids) = 2}, 'each shard has a chunk and a process');
until_is($sharded, q(state = 'completed' AND done = 4000), '... and both end');
is($server->safe_psql("SELECT count(*) FROM jsonb_array_elements(infer.job_manifest($sharded) -> 'shards') s WHERE s ->> 'state' = 'completed' AND (s #>> '{counts,done}')::int > 0"), '2',
	'the manifest has both');

# ---- rows that fail ----

$server->safe_psql('UPDATE second SET y = NULL; ALTER TABLE second ADD CHECK (y <> 53)', user => 'app');
my $failing = submit("'second', 'x', 'y'");
until_is($failing, q(state = 'completed' AND done = 99 AND failed = 1), 'a job with a row that cannot be written');
like(column($failing, 'sqlstate, last_error'), qr/^23514\|.*check constraint/, '... has its error');
is($server->safe_psql("SELECT key[1]::int, state, sqlstate, retryable FROM infer.job_errors WHERE job = $failing"), '50|failed|23514|f', '... with its key');

# ---- sums over shards, which a job keeps when it has ended ----

# Jobs that have ended, those whose sums are others than their shards', those that have not ended and have sums.
sub sums
{
	return $server->safe_psql(<<'SQL');
SELECT count(*) FILTER (WHERE finished IS NOT NULL),
	count(*) FILTER (WHERE finished IS NOT NULL AND own IS DISTINCT FROM of_shards),
	count(*) FILTER (WHERE finished IS NULL AND own IS DISTINCT FROM '(,,,,,,,)')
FROM (SELECT j.finished, (j.done, j.failed, j.gone, j.expired, j.cancelled, j.recomputed, j.tokens, j.shards)::text AS own,
		(SELECT (sum(done), sum(failed), sum(gone), sum(expired), sum(cancelled), sum(recomputed), sum(tokens), count(*))::text
			FROM infer.job_shard s WHERE s.job = j.job) AS of_shards
	FROM infer.job j) q
SQL
}

is(sums(), '5|0|0', 'each job that has ended has the sums over its shards');
$server->reload('infer.max_job_workers' => 0);
$server->safe_psql('ALTER TABLE second DROP CONSTRAINT second_y_check', user => 'app');
is($server->safe_psql("SELECT infer.retry_job($failing)", user => 'app'), '1', 'one is taken up again');
is(sums(), '4|0|0', '... and has none');
is(column($failing, 'state, done, failed, remaining'), 'validating|99|0|1', '... what is seen is what its shards tell');
$server->reload('infer.max_job_workers' => 2);
until_is($failing, q(state = 'completed' AND done = 100 AND failed = 0), '... and it ends');
is(sums(), '5|0|0', '... with sums anew');

# A dump brings an unfinished job, which is ended, and then its shards.
$server->safe_psql(<<'SQL');
INSERT INTO infer.job (job, origin, owner, owner_name, model, state, priority, request, total, total_estimated, faults, submitted)
	VALUES (100000, '1/1/1', 10, 'postgres', 'm@1', 'in_progress', 0, '{}', 30, false, 0, now());
SQL
until_is(100000, q(state = 'cancelled' AND done = 0), 'a job that a dump brought is ended');
$server->safe_psql(<<'SQL');
INSERT INTO infer.job_shard SELECT 100000, g, 'in_progress', NULL, NULL, NULL, true, 10, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, '', '', 1, now(), now()
	FROM generate_series(1, 2) g;
SQL
is(column(100000, 'state, done, remaining, shards'), 'cancelled|20|10|2', '... and shows what it had done, once that has come, too');

# ---- many that have ended ----

$server->safe_psql(<<'SQL');
INSERT INTO infer.job (job, origin, owner, owner_name, model, state, priority, request, total, total_estimated, faults, submitted, started, finished,
		done, failed, gone, expired, cancelled, recomputed, tokens, shards)
	SELECT g, '1/1/1', 10, 'postgres', 'm@1', 'completed', 0, '{"table": {"name": "public.t"}}', 10, false, 0, now(), now(), now() - g * '1 s'::interval,
		10, 0, 0, 0, 0, 0, 0, 1
	FROM generate_series(100001, 110000) g;
INSERT INTO infer.job_shard SELECT g, 1, 'completed', NULL, NULL, NULL, true, 10, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, '', '', 1, now(), now()
	FROM generate_series(100001, 110000) g;
ANALYZE infer.job; ANALYZE infer.job_shard;
SQL

# What a query reads: pages, of which each job that is looked up takes some.
sub pages
{
	my ($query) = @_;
	my ($pages) = $server->safe_psql("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, COSTS OFF) $query") =~ /Buffers: shared hit=(\d+)/;

	return $pages;
}

cmp_ok(pages('SELECT count(*) FROM infer.jobs'), '<', 5000, 'all of many are counted without their shards and items');
cmp_ok(pages('SELECT * FROM infer.jobs'), '<', 5000, 'and shown');
cmp_ok(pages("SELECT * FROM infer.jobs WHERE state = 'failed' OR failed > 0"), '<', 5000, 'so are those that have failed found');
cmp_ok(pages("SELECT * FROM infer.jobs WHERE finished IS NULL OR finished > now() - interval '1 hour' ORDER BY job"), '<', 500, 'those of late are found without the others');
cmp_ok(pages('SELECT * FROM infer.jobs ORDER BY job DESC LIMIT 5'), '<', 500, 'so are the last few');
cmp_ok(pages("SELECT * FROM infer.jobs WHERE job = $failing"), '<', 500, 'and one of them');
is($server->safe_psql('SELECT job FROM infer.jobs LIMIT 1'), 110000, 'the newest comes first');
is($server->safe_psql("SELECT count(*), sum(done) FROM infer.jobs WHERE state = 'completed' AND job > 100000"), '10000|100000', 'and all are seen');

# ---- the log ----

my $text = substr($server->log, $log);
like($text, qr/LOG:  infer: job $first of role "app" begins: model add\@1$/m, 'the log says when a job begins');
like($text, qr/LOG:  infer: job $first of role "app" has ended: cancelled$/m, '... and how it has ended');
like($text, qr/LOG:  infer: job $failing of role "app" has ended: completed\n.*DETAIL:  99 items done, 1 failed\.$/m, '... with its counts');

done_testing();
