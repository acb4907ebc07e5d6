# Jobs that run: what they write is what the statement would have written, each row once, whatever fails or is
# killed on the way.  Writes are counted by triggers, the model's work by the engine.
use strict;
use warnings;
use Cwd;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.device' => 'null:crash_on=-666', 'infer.cpu_threads' => 1, log_min_messages => 'log');

$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";

# ---- helpers ----

# submit(ARGUMENTS): the job's number.
sub submit
{
	my ($arguments, %psql) = @_;

	return $server->safe_psql("SELECT infer.submit_job($arguments)", %psql);
}

# Its state once it has ended, or after the time that tests wait.
sub ended
{
	my ($job) = @_;

	return $server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')");
}

# Columns of the job's row, its shards summed up.
sub job
{
	my ($job, $columns) = @_;

	return $server->safe_psql(<<SQL);
SELECT $columns FROM (SELECT job, total, total_estimated, faults, message FROM infer.job) j JOIN
	(SELECT job, sum(done) AS done, sum(failed) AS failed, sum(gone) AS gone, sum(expired) AS expired, sum(cancelled) AS cancelled,
		sum(recomputed) AS recomputed, sum(chunks) AS chunks, max(starts) AS starts, count(*) AS shards
	FROM infer.job_shard GROUP BY job) s USING (job)
WHERE job = $job
SQL
}

# Of one shard.
sub digests
{
	my ($job) = @_;

	return $server->safe_psql("SELECT input_digest, output_digest FROM infer.job_shard WHERE job = $job");
}

sub items
{
	my ($job) = @_;

	return $server->safe_psql(<<SQL);
SELECT string_agg(concat_ws(' ', array_to_string(key, ','), state, attempts, sqlstate, retryable), '; ' ORDER BY key[1]::int)
FROM infer.job_item WHERE job = $job
SQL
}

# Runners of a job, by their application_name.
sub runners
{
	my ($job) = @_;

	return $server->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'infer job $job'");
}

# A table of rows 1 to COUNT with x = id, whose updates are counted, but for those under test.quiet.
sub make_table
{
	my ($name, $count) = @_;

	$server->safe_psql(<<SQL);
CREATE TABLE $name (id int PRIMARY KEY, x float8, y float8, writes int NOT NULL DEFAULT 0);
INSERT INTO $name SELECT i, i FROM generate_series(1, $count) i;
CREATE FUNCTION count_$name() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.writes := OLD.writes + 1; RETURN NEW; END \$\$;
CREATE TRIGGER count_writes BEFORE UPDATE ON $name FOR EACH ROW WHEN (current_setting('test.quiet', true) IS DISTINCT FROM 'on')
	EXECUTE FUNCTION count_$name();
VACUUM ANALYZE $name;
SQL
	return;
}

# Rows with the result of the model m, and the most and the fewest writes of one.
sub written
{
	my ($table) = @_;

	return $server->safe_psql("SELECT count(*) FILTER (WHERE y = x + 3), min(writes), max(writes) FROM $table");
}

$server->safe_psql("SELECT infer.create_model('m', data => " . sql_bytes(add_model(3)) . ")");

# ---- small ones ----

make_table('t', 1000);
my $job = submit("'m', 't', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a job that fills a column ends');
is(written('t'), '1000|1|1', 'each row has its result, and was written once');
is(job($job, 'done, failed, gone, total, total_estimated, faults, message IS NULL'), '1000|0|0|1000|f|0|t', 'all are counted');

$server->safe_psql('CREATE TABLE nothing (id int PRIMARY KEY, x float8, y float8)');
$job = submit("'m', 'nothing', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a job of no rows completes');
is(job($job, 'done, total, shards'), '0|0|1', 'with no items');

$server->safe_psql('CREATE TABLE holes (id int PRIMARY KEY, x float8, y float8); INSERT INTO holes VALUES (1, 1, 0), (2, NULL, 0), (3, 3, 0)');
$job = submit("'m', 'holes', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a job with NULL among its inputs');
is($server->safe_psql("SELECT string_agg(coalesce(y::text, 'NULL'), ',' ORDER BY id) FROM holes"), '4,NULL,6', "writes NULL, as the verb's answer is");
is(job($job, 'done, failed'), '3|0', 'and counts it as done');

# Another table by its key; and a query that is no plain scan.
$server->safe_psql('CREATE TABLE scores (id int PRIMARY KEY, score float8); INSERT INTO scores VALUES (7, -1)');
$job = submit("'m', source => 'SELECT id, x FROM t WHERE id <= 100', key => 'id', target => 'scores', output => 'score'");
is(ended($job), 'completed', 'a job from a query into another table');
is($server->safe_psql('SELECT count(*), count(*) FILTER (WHERE score = id + 3) FROM scores'), '100|100', 'inserts, and updates what is there');
$job = submit("'m', source => 'SELECT x::int % 10 AS id, sum(x) AS x FROM t GROUP BY 1', key => 'id', target => 'scores', output => 'score'");
is(ended($job), 'completed', 'a job from a query that is read once');
is($server->safe_psql('SELECT count(*) FROM scores JOIN (SELECT x::int % 10 AS id, sum(x) AS s FROM t GROUP BY 1) q USING (id) WHERE score = s + 3'),
	'10', 'each group has its result');
ok($server->poll_query_until('SELECT count(*) = 0 FROM infer.job_input'), 'and the rows of the query are removed');

# ---- texts, and a whole row as the model's input ----

$server->safe_psql("\\set model bert_classify\n\\i $InferServer::top/test/fixtures/text.psql\n", options => [ '-o', '/dev/null' ]);
$server->safe_psql(<<'SQL');
CREATE TABLE reviews (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), body text, label text, said text);
INSERT INTO reviews (body) SELECT 'the ' || i || ' cat sat on the mat' || repeat(' and more', i % 3) FROM generate_series(1, 300) i;
SQL
$job = submit("'bert_classify', 'reviews', input => 'body', output => 'label'");
is(ended($job), 'completed', 'texts are classified');
$server->safe_psql("UPDATE reviews SET said = infer.classify('bert_classify', body)");
is($server->safe_psql('SELECT count(*), count(*) FILTER (WHERE label = said) FROM reviews'), '300|300', 'as the statement does it');
is($server->safe_psql("SELECT tokens > 300, compute_time > 0, rows_per_second > 0 FROM infer.job_shard WHERE job = $job"), 't|t|t',
	'tokens and times are counted');

# Trees over words and numbers of which some are NULL: a label into the table itself, a probability into another one.
my $here = getcwd;
chdir "$InferServer::top/examples/progression" or die "progression: $!";
$server->safe_psql('\i load.sql');
chdir $here;
$server->safe_psql('ALTER TABLE cohort ADD label text; CREATE TABLE risks (id int PRIMARY KEY, risk real)');
$job = submit("'progression', 'cohort', input => 'sex, weight, pressure, age, s1, s2, s3, s4, s5, s6', output => 'label'");
is(ended($job), 'completed', 'rows are classified by trees');
is($server->safe_psql("SELECT count(*) > 400, count(*) FILTER (WHERE label IS DISTINCT FROM infer.classify('progression', cohort)) FROM cohort"), 't|0',
	'as the statement does it');
$job = submit("'progression', source => 'SELECT * FROM cohort', key => 'id', target => 'risks', output => 'risk', class => 'yes'");
is(ended($job), 'completed', 'whole rows of a query, too');
is($server->safe_psql("SELECT count(*) > 400, count(*) FILTER (WHERE risk <> infer.probability('progression', 'yes', cohort)::real) FROM risks JOIN cohort USING (id)"),
	't|0', 'as the statement does it');

# ---- rows that fail ----

make_table('poison', 300);
$server->safe_psql("SET test.quiet = 'on'; UPDATE poison SET x = -666 WHERE id = 77");
$job = submit("'m', 'poison', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a row that kills the engine does not stop the job');
is($server->safe_psql('SELECT count(*) FILTER (WHERE y = x + 3), count(*) FILTER (WHERE writes > 1) FROM poison'), '299|0', 'the others are written, once');
is(items($job), '77 failed 2 IF004 f', 'it alone has failed, for good');
is(job($job, 'done, failed, total'), '299|1|300', 'and is counted');

# A constraint of the target, and a trigger that raises.
make_table('checked', 200);
$server->safe_psql('ALTER TABLE checked ADD CHECK (y <> 53)');
$job = submit("'m', 'checked', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a row that may not be written does not stop the job');
is(items($job), '50 failed 1 23514 f', "it has the constraint's error");
is($server->safe_psql('SELECT count(*), max(writes) FROM checked WHERE y = x + 3'), '199|1', 'the others are written, once');

# An expression that has no value for some rows: two beside one another, the first and the last one.
make_table('ratios', 1000);
$server->safe_psql("SET test.quiet = 'on'; UPDATE ratios SET x = 0 WHERE id IN (1, 500, 501, 1000)");
my $ratios = submit("'m', 'ratios', input => '100 / x AS x', output => 'y'");
is(ended($ratios), 'completed', 'rows that cannot be read do not stop a job');
is(items($ratios), join('; ', map { "$_ failed 1 22012 f" } 1, 500, 501, 1000), 'they have the error of their expression');
is($server->safe_psql('SELECT count(*), max(writes) FROM ratios WHERE x <> 0 AND abs(y - 3 - 100 / x) < 0.001'), '996|1',
	'the others are written, once');
$server->safe_psql("SET test.quiet = 'on'; UPDATE ratios SET x = 5 WHERE id = 500");
is($server->safe_psql("SELECT infer.retry_job($ratios)"), '4', 'they are tried again');
is(ended($ratios), 'completed', 'and come to an end');
is(items($ratios), join('; ', map { "$_ failed 1 22012 f" } 1, 501, 1000), 'where those that still fail are found among them');

# What failed is done by retry_job alone, once what was wrong is not any more.
$server->safe_psql('ALTER TABLE checked DROP CONSTRAINT checked_y_check');
is($server->safe_psql("SELECT infer.retry_job($job)"), '1', 'retry_job takes what failed');
is(ended($job), 'completed', 'and it completes');
is($server->safe_psql('SELECT count(*), max(writes) FROM checked WHERE y = x + 3'), '200|1', 'nothing else was written again');
is(job($job, 'done, failed, total'), '200|0|200', 'all are done now');
is($server->safe_psql("SELECT count(*) FROM infer.job_item WHERE job = $job"), '0', 'no item is left');

make_table('mixed', 500);
$server->safe_psql('ALTER TABLE mixed ADD CHECK (y < 253)');
$job = submit("'m', 'mixed', input => 'x', output => 'y', max_failures => 10");
is(ended($job), 'failed', 'more failures than max_failures');
like($server->safe_psql("SELECT sqlstate || ' ' || message FROM infer.job WHERE job = $job"), qr/^53400 .*max_failures/, 'say so');
is($server->safe_psql('SELECT count(*) >= 200 FROM mixed WHERE y = x + 3'), 't', 'what it had done stays');
is($server->safe_psql("SELECT failed > 10, remaining > 0, done + failed + remaining = total FROM infer.jobs WHERE job = $job"), 't|t|t',
	'and what it did not come to is told');
$job = submit("'m', 'mixed', input => 'x', output => 'y', max_failures => 0.6");
is(ended($job), 'completed', 'a share that is not exceeded');
is(job($job, 'done, failed'), '249|251', 'with its failures');

# ---- the same digest, whatever happens ----

make_table('once', 20000);
my $plain = submit("'m', 'once', input => 'x', output => 'y'");
is(ended($plain), 'completed', 'a job of some chunks');
$server->safe_psql("SET test.quiet = 'on'; UPDATE once SET y = NULL, writes = 0");
$job = submit("'m', 'once', input => 'x', output => 'y', shards => 3");
is(ended($job), 'completed', 'the same in shards');
is(job($job, 'shards, done, total'), '3|20000|20000', 'of which there are three');
is(written('once'), '20000|1|1', 'each row was written once');
isnt(digests($plain), '\x00000000000000000000000000000000|\x00000000000000000000000000000000', 'there is a digest');
is($server->safe_psql(<<SQL), 't', 'that of the shards sums up to it');
SELECT ('\\x' || string_agg(lpad(to_hex(mod), 2, '0'), '' ORDER BY byte))::bytea = (SELECT input_digest FROM infer.job_shard WHERE job = $plain)
FROM (
	WITH RECURSIVE sums AS (
		SELECT b AS byte, (SELECT sum(get_byte(input_digest, b)) FROM infer.job_shard WHERE job = $job) AS sum FROM generate_series(0, 15) b),
	carried AS (
		SELECT byte, sum AS total FROM sums WHERE byte = 0
		UNION ALL
		SELECT s.byte, s.sum + c.total::int / 256 FROM carried c JOIN sums s ON s.byte = c.byte + 1)
	SELECT byte, (total::int % 256) AS mod FROM carried) q
SQL

# ---- others' locks and changes ----

make_table('shared', 50);
my $session = $server->background_psql;
$session->query('BEGIN; SELECT id FROM shared WHERE id = 20 FOR UPDATE');
$job = submit("'m', 'shared', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT coalesce(sum(done), 0) = 49 FROM infer.job_shard WHERE job = $job"), 'a locked row is passed over');
$session->query('UPDATE shared SET x = 1000 WHERE id = 20; COMMIT');
is(ended($job), 'completed', 'and comes back');
is($server->safe_psql('SELECT y FROM shared WHERE id = 20'), '1003', 'with the result of what it is now');
is(job($job, 'done, recomputed > 0'), '50|t', 'which is counted');
$session->quit;

# A job that only waits for a row leaves its slot to another one.
$server->reload('infer.max_job_workers' => 1);
$server->safe_psql('UPDATE shared SET x = 7 WHERE id = 20');
$session = $server->background_psql;
$session->query('BEGIN; SELECT id FROM shared WHERE id = 20 FOR UPDATE');
$job = submit("'m', 'shared', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT coalesce(sum(done), 0) = 49 FROM infer.job_shard WHERE job = $job"), 'a row is locked again');
my $other = submit("'m', 't', input => 'x', output => 'y'");
is(ended($other), 'completed', 'another job has the only slot meanwhile');
is($server->safe_psql("SELECT state, (SELECT count(*) FROM infer.job_item i WHERE i.job = j.job AND state = 'pending') FROM infer.jobs j WHERE job = $job"),
	'in_progress|1', 'while one item is pending');
$session->query('COMMIT');
is(ended($job), 'completed', 'and the first one ends afterwards');
is($server->safe_psql('SELECT y FROM shared WHERE id = 20'), '10', 'with its last row');
$session->quit;
$server->reload('infer.max_job_workers' => 2);

# ---- cancel, expiry ----

make_table('long', 3000);
$server->safe_psql(<<'SQL');
CREATE FUNCTION tarry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$;
CREATE TRIGGER tarry BEFORE UPDATE ON long FOR EACH ROW EXECUTE FUNCTION tarry();
SQL
$job = submit("'m', 'long', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT coalesce(sum(done), 0) > 0 FROM infer.job_shard WHERE job = $job"), 'a slow job has begun');
is($server->safe_psql("SELECT infer.cancel_job($job)"), 't', 'it is cancelled');
is(ended($job), 'cancelled', 'and ends so');
is(job($job, 'done + cancelled = 3000, done > 0, cancelled > 0, total'), 't|t|t|3000', 'what was left is counted');
is($server->safe_psql("SELECT infer.cancel_job($job)"), 'f', 'it cannot be cancelled again');
is($server->safe_psql("SELECT count(*) = (SELECT sum(done) FROM infer.job_shard WHERE job = $job) FROM long WHERE y = x + 3"), 't',
	'what was written is what is counted');
$server->safe_psql('DROP TRIGGER tarry ON long');
is($server->safe_psql("SELECT infer.retry_job($job) > 0"), 't', 'retry_job takes it up where it stands');
is(ended($job), 'completed', 'and it completes');
is(written('long'), '3000|1|1', 'each row was written once');
is(job($job, 'done, cancelled, total'), '3000|0|3000', 'and is counted once');

# Rows behind the first few are not written before the window ends.  Where the machine does not come to the first few
# either, a longer window shows it.
make_table('late', 2000);
$server->safe_psql(<<'SQL');
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON late FOR EACH ROW WHEN (OLD.id > 500) EXECUTE FUNCTION hold();
SQL
my $state;
for my $window (2, 10, 50)
{
	$job = submit("'m', 'late', input => 'x', output => 'y', completion_window => '$window seconds'");
	$state = ended($job);
	last if $state ne 'expired' || (job($job, 'done') || 0) > 0;
}
is($state, 'expired', 'a job that takes longer than its window expires');
is(job($job, 'done + expired = 2000, done > 0, expired > 0'), 't|t|t', 'with what was left');

# An engine that does not answer: whoever cancels is heard.
$server->safe_psql("SET test.quiet = 'on'; UPDATE t SET y = NULL, writes = 0");
my $engine = $server->engine_pid;
kill 'STOP', $engine;
$job = submit("'m', 't', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'infer job $job' AND state = 'idle' AND wait_event IS NOT NULL"),
	'a job waits for an engine that hangs');
$server->safe_psql("SELECT infer.cancel_job($job)");
is(ended($job), 'cancelled', 'and is cancelled');
is(job($job, 'done, cancelled, total'), '0|1000|1000', 'with all of its rows');
kill 'CONT', $engine;

# Many at once, of several shards.
make_table('sharded', 6000);
$server->safe_psql('CREATE TRIGGER tarry BEFORE UPDATE ON sharded FOR EACH ROW EXECUTE FUNCTION tarry()');
$job = submit("'m', 'sharded', input => 'x', output => 'y', shards => 4");
ok($server->poll_query_until("SELECT count(*) >= 2 FROM infer.job_shard WHERE job = $job AND done > 0"), 'two shards have begun');
$server->safe_psql("SELECT infer.cancel_job($job)");
is(ended($job), 'cancelled', 'a job of several shards is cancelled');
is(job($job, 'shards, done + cancelled = 6000'), '4|t', 'with what was left of all of them');
is($server->safe_psql("SELECT count(*) = (SELECT sum(done) FROM infer.job_shard WHERE job = $job), max(writes) FROM sharded WHERE y = x + 3"), 't|1',
	'what was written is what is counted');
$server->safe_psql('DROP TRIGGER tarry ON sharded');
$server->safe_psql("SELECT infer.retry_job($job)");
is(ended($job), 'completed', 'it is taken up again');
is(written('sharded'), '6000|1|1', 'and each row was written once');
is(job($job, 'done, cancelled, total'), '6000|0|6000', 'and is counted once');

# ---- what ends a job ----

make_table('altered', 100);
$server->safe_psql("CREATE TRIGGER tarry BEFORE UPDATE ON altered FOR EACH ROW EXECUTE FUNCTION tarry()");
$server->safe_psql('INSERT INTO altered SELECT i, i FROM generate_series(101, 3000) i');
$job = submit("'m', 'altered', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT coalesce(sum(done), 0) > 0 FROM infer.job_shard WHERE job = $job"), 'a job has begun');
$server->safe_psql('ALTER TABLE altered DROP COLUMN y');
is(ended($job), 'failed', 'without its column it fails');
like($server->safe_psql("SELECT sqlstate || ' ' || message FROM infer.job WHERE job = $job"), qr/^42703 .*"?y"?/, 'for that reason');

make_table('widened', 1500);
$server->safe_psql('CREATE TRIGGER tarry BEFORE UPDATE ON widened FOR EACH ROW EXECUTE FUNCTION tarry()');
$job = submit("'m', 'widened', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT coalesce(sum(done), 0) > 0 FROM infer.job_shard WHERE job = $job"), 'a job has begun');
$server->safe_psql('DROP TRIGGER tarry ON widened; ALTER TABLE widened ALTER x TYPE numeric, ADD z int DEFAULT 5');
is(ended($job), 'completed', 'a column of another type does not stop a job');
is(written('widened'), '1500|1|1', 'each row was written once');

$server->safe_psql("SELECT infer.create_model('gone', data => " . sql_bytes(add_model(3)) . ")");
make_table('orphan', 3000);
$server->safe_psql('CREATE TRIGGER tarry BEFORE UPDATE ON orphan FOR EACH ROW EXECUTE FUNCTION tarry()');
$job = submit("'gone', 'orphan', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT coalesce(sum(done), 0) > 0 FROM infer.job_shard WHERE job = $job"), 'a job has begun');
$server->safe_psql("SELECT infer.drop_model('gone')");
is(ended($job), 'failed', 'without its model it fails');
like($server->safe_psql("SELECT sqlstate || ' ' || message FROM infer.job WHERE job = $job"), qr/^42704 .*gone/, 'for that reason');

# ---- told ----

like($server->log, qr/infer: job $job of role "postgres" has ended: failed/, 'the log says how a job ended');
$session = $server->background_psql;
$session->query('LISTEN infer_jobs');
$job = submit("'m', 't', input => 'x', output => 'y', name => 'a \"b\"'");
is(ended($job), 'completed', 'a job with a name');
ok(InferServer::wait_until(sub { $session->query('SELECT 1') =~ /infer_jobs.*\{"job": $job, "state": "completed", "name": "a \\"b\\""\}/s }),
	'LISTEN hears of its end');
$session->quit;

# ---- what is killed ----

make_table('struck', 30000);
$server->safe_psql(<<'SQL');
CREATE FUNCTION tarry_sometimes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 10 = 0 THEN PERFORM pg_sleep(0.005); END IF; RETURN NEW; END $$;
CREATE TRIGGER tarry BEFORE UPDATE ON struck FOR EACH ROW EXECUTE FUNCTION tarry_sometimes();
SQL

# Waits until the job has got on by some rows, then strikes.
sub strike
{
	my ($what, $strike) = @_;
	my $done;

	InferServer::wait_until(sub {
		my ($status, $out) = $server->psql("SELECT coalesce(sum(done), 0) FROM infer.job_shard WHERE job = $job");
		$done = $out;
		return $status == 0;
	}) or die 'the server does not come back';
	ok($server->poll_query_until("SELECT sum(done) > $done FROM infer.job_shard WHERE job = $job"), "it gets on before $what");
	$strike->();
	return;
}

$job = submit("'m', 'struck', input => 'x', output => 'y'");
strike('the engine is killed', sub { $server->wait_for_new_engine($server->kill_engine('KILL')) });
strike('its runner is terminated', sub { $server->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'infer job $job'") });
strike('its statement is cancelled', sub { $server->safe_psql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'infer job $job'") });
strike('its runner is killed', sub {
	my $pid = runners($job);
	kill 'KILL', $pid if $pid;
	InferServer::wait_until(sub { !$server->process_is_alive($pid) });
});
strike('the server is stopped', sub { $server->restart });
strike('the server is killed', sub { $server->stop('immediate'); $server->start_again });
is(ended($job), 'completed', 'the job completes all the same');
is(written('struck'), '30000|1|1', 'each row was written once');
is(job($job, 'done, failed, total'), '30000|0|30000', 'and counted once');
my $struck = digests($job);
$server->safe_psql('DROP TRIGGER tarry ON struck; UPDATE struck SET y = NULL');
$job = submit("'m', 'struck', input => 'x', output => 'y'");
is(ended($job), 'completed', 'the same job, undisturbed');
is(digests($job), $struck, 'has the same digests');

# ---- while the engine computes ----

$server->restart('infer.device' => 'null:delay=2500');
make_table('slow', 100);
$job = submit("'m', 'slow', input => 'x', output => 'y'");
ok($server->poll_query_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'infer job $job' AND state = 'idle' AND wait_event IS NOT NULL"),
	'the runner waits for the engine');
is($server->safe_psql(<<SQL), 't|t|0', 'with no snapshot, no transaction and no lock');
SELECT backend_xmin IS NULL, backend_xid IS NULL, (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid)
FROM pg_stat_activity a WHERE application_name = 'infer job $job'
SQL
$server->safe_psql("SET lock_timeout = '2s'; ALTER TABLE slow ADD COLUMN meanwhile int");
is(ended($job), 'completed', 'a table that was altered meanwhile');
is(written('slow'), '100|1|1', 'has its results');

# A device that fails for a while, and one whose failures do not end.
$server->restart('infer.device' => 'null:fail=2');
make_table('faulty', 100);
$job = submit("'m', 'faulty', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a device that failed once');
is(written('faulty'), '100|1|1', 'has its results in the end');

$server->restart('infer.device' => 'null:fail_on=13');
make_table('stuck', 100);
$job = submit("'m', 'stuck', input => 'x', output => 'y'");
is(ended($job), 'completed', 'a row at which the device fails, again and again');
is(items($job), '13 failed 5 IF007 t', 'is tried so often, and may be retried');
is(job($job, 'done, failed'), '99|1', 'and the others are done');

# ---- priority ----

# Two jobs run, and each row has the device for a while; of equal priority they would take turns.  The engine tells in which
# order it was done with their requests.  A job sends its first three chunks before it waits for one: between the ends of
# the first and the third there is always one that waits, unless the machine did not let it send them in time.
$server->restart('infer.device' => 'null:delay=20', 'infer.batch_rows' => 1, 'infer.log_requests' => 'on');
make_table('low', 5000);
make_table('high', 200);
my $between;
for (1 .. 5)
{
	my $low = submit("'m', 'low', input => 'x', output => 'y'");
	ok($server->poll_query_until("SELECT done > 0 FROM infer.jobs WHERE job = $low"), 'a job is under way');
	my $pid = runners($low);
	my $size = $server->log_size;
	my (@pids, @ends);

	is(ended(submit("'m', 'high', input => 'x', output => 'y', job_priority => 5")), 'completed', 'one of higher priority runs beside it');
	InferServer::wait_until(sub {
		@pids = substr($server->log, $size) =~ /request id=(\d+)\..* class=job /g;
		@ends = grep { $pids[$_] != $pid } 0 .. $#pids;
		return @ends >= 3;
	}) or last;
	$between = grep { $_ == $pid } @pids[ $ends[0] .. $ends[2] ];
	is($server->safe_psql("SELECT infer.cancel_job($low)"), 't', 'the other one is not done yet');
	is(ended($low), 'cancelled', 'and ends now');
	last if $between == 0;
}
is($between, 0, 'the device had the rows of the one first');

done_testing();
