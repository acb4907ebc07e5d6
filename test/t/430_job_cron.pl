# Jobs that pg_cron submits: overlapping runs, a job that fails, a restart in between, and worker slots that
# pg_cron and infer take from each other.  pg_cron's schedules are of whole minutes, and of the server's start.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $three = sql_bytes(add_model(3));
my @app = (user => 'app');

# A server with pg_cron, whose connections go where the tests' do.
sub start
{
	my (%settings) = @_;
	my $server = InferServer->start(%settings, shared_preload_libraries => 'infer, pg_cron', 'cron.database_name' => 'infer', 'cron.log_run' => 'on');

	$server->restart('cron.host' => $server->host);
	$server->safe_psql(<<'SQL');
CREATE EXTENSION pg_cron;
CREATE ROLE app LOGIN;
GRANT USAGE ON FOREIGN DATA WRAPPER infer TO app;
GRANT USAGE ON SCHEMA cron TO app;
GRANT CREATE ON SCHEMA public TO app;
SQL
	$server->safe_psql("SELECT infer.create_model('add', data => $three)", @app);
	return $server;
}

sub installed
{
	my $server = InferServer->start_with([ '--bare' ]);
	my $library = `'@{[ $server->program('pg_config') ]}' --pkglibdir`;

	chomp $library;
	$server->stop('immediate');
	return -f "$library/pg_cron.so";
}

sub schedule
{
	my ($server, $name, $when, $arguments) = @_;

	return $server->safe_psql("SELECT cron.schedule('$name', '$when', \$\$SELECT infer.submit_job($arguments)\$\$)", @app);
}

plan skip_all => 'pg_cron is not installed for this server' unless installed();

# Schedules come round once a minute.
local $InferServer::timeout = 100 if $InferServer::timeout < 100;

# ---- one server, two minutes ----

my $server = start('infer.batch_rows' => 16);

$server->safe_psql(<<'SQL', @app);
CREATE TABLE reviews (id int PRIMARY KEY, x real, y double precision, writes int NOT NULL DEFAULT 0);
INSERT INTO reviews SELECT i, i FROM generate_series(1, 1000) i;
CREATE FUNCTION written() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.writes = OLD.writes + 1; RETURN NEW; END$$;
CREATE TRIGGER written BEFORE UPDATE OF y ON reviews FOR EACH ROW EXECUTE FUNCTION written();
CREATE TABLE strict (id int PRIMARY KEY, x real, y double precision CHECK (y < 50));
INSERT INTO strict SELECT i, i FROM generate_series(1, 100) i;
SQL
my $lock = $server->background_psql;
$lock->query('BEGIN; SELECT FROM reviews WHERE id = 500 FOR UPDATE');
my $score = q{'add', 'reviews', 'x', 'y', condition => 'y IS NULL', name => 'score'};
schedule($server, 'score', '* * * * *', $score);
schedule($server, 'broken', '* * * * *', q{'add', 'strict', 'x', 'y', condition => 'y IS NULL', name => 'broken', max_failures => 0});
schedule($server, 'again', '@reboot', $score);

ok($server->poll_query_until("SELECT done FROM infer.jobs WHERE name = 'score'", '999'), 'a schedule submits a job, which runs');
my $job = $server->safe_psql("SELECT job FROM infer.jobs WHERE name = 'score'");
is($server->safe_psql("SELECT owner, state FROM infer.jobs WHERE job = $job"), 'app|in_progress', '... as the role that the schedule belongs to; it waits for a locked row');
ok($server->poll_query_until("SELECT state FROM infer.jobs WHERE name = 'broken'", 'failed'), 'a job that fails is a failed job');
ok($server->poll_query_until("SELECT bool_and(status = 'succeeded') FROM cron.job_run_details"), '... and a run that has succeeded in submitting it');

# Nothing runs after the restart, and the schedule of the start submits once more under the name.
$server->restart('infer.max_job_workers' => 0);
ok($server->poll_query_until("SELECT status FROM cron.job_run_details JOIN cron.job USING (jobid) WHERE jobname = 'again' ORDER BY runid DESC LIMIT 1", 'succeeded'),
	'the server is restarted, and a run overlaps with the unfinished job');
is($server->safe_psql("SELECT job, finished IS NULL FROM infer.jobs WHERE name = 'score'"), "$job|t", '... which is still the only one');
$server->reload('infer.max_job_workers' => 2);
ok($server->poll_query_until("SELECT state, done FROM infer.jobs WHERE job = $job", 'completed|1000'), 'it goes on after the restart, to its end');
is($server->safe_psql('SELECT count(*), min(writes), max(writes) FROM reviews WHERE y = x + 3'), '1000|1|1', '... each row is written once');

# The next minute.
$server->safe_psql('INSERT INTO reviews SELECT i, i FROM generate_series(1001, 1010) i', @app);
ok($server->poll_query_until("SELECT done FROM infer.jobs WHERE name = 'score' AND job > $job ORDER BY job DESC LIMIT 1", '10'), 'the schedule goes on, with what is new');
is($server->safe_psql('SELECT count(*), max(writes) FROM reviews WHERE y = x + 3'), '1010|1', '... and only that');
ok($server->poll_query_until("SELECT count(*) >= 2 AND bool_and(state = 'failed') FROM infer.jobs WHERE name = 'broken' AND finished IS NOT NULL"),
	'so does the one whose jobs fail');
is($server->safe_psql("SELECT count(*) FROM cron.job_run_details WHERE status NOT IN ('succeeded', 'running')"), '0', 'no run has failed');
$server->stop('immediate');

# ---- few worker slots, which pg_cron takes as well ----

# Taken by the supervisor, the launcher and pg_cron itself; one is left.
$server = start('cron.use_background_workers' => 'on', max_worker_processes => 4, 'cron.max_running_jobs' => 1,
	max_logical_replication_workers => 0, max_parallel_workers => 0);
for my $i (1 .. 6)
{
	$server->safe_psql("CREATE TABLE t$i (id int PRIMARY KEY, x real, y double precision); INSERT INTO t$i SELECT i, i FROM generate_series(1, 100) i", @app);
}
schedule($server, 'cron', '@reboot', q{'add', 't1', 'x', 'y'});
$server->restart;
ok($server->poll_query_until('SELECT state, done FROM infer.jobs', 'completed|100'), 'pg_cron submits by a background worker: the job runs');

# pg_cron's worker has the only slot.
$server->safe_psql(q{SELECT cron.unschedule('cron'); SELECT cron.schedule('holds', '@reboot', 'SELECT pg_sleep(600)')}, @app);
$server->restart;
ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'", '1'), 'pg_cron has the last free slot');
$server->safe_psql("SELECT infer.submit_job('add', 't$_', 'x', 'y')", @app) for 2 .. 6;
ok($server->poll_query_until("SELECT count(*) FROM infer.jobs WHERE waiting_for ~ 'max_worker_processes'", '5'), 'jobs wait, and name the setting that would help');
$server->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'");
ok($server->poll_query_until("SELECT count(*), sum(done) FROM infer.jobs WHERE state = 'completed'", '6|600'), 'when it is free they run by themselves, all of them');

done_testing();
