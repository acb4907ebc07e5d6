# The launcher of jobs: what starts them, when, in which order, and what they wait for; what it
# ends of them.  Scans are counted rather than time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $three = sql_bytes(add_model(3));

# engine_timeout: engines are stopped here, so that jobs stay where they are.
my $server = InferServer->start('infer.engine_timeout' => '1h', 'max_prepared_transactions' => 4);
my $setup = qq{
	SELECT infer.create_model('m', data => $three);
	CREATE TABLE t (id int PRIMARY KEY, x float8, y float8);
	INSERT INTO t SELECT i, i FROM generate_series(1, 10) i;
	GRANT ALL ON t TO PUBLIC;
	SELECT infer.grant_model('m', 'public');
};
$server->safe_psql($setup);

my $submit = "infer.submit_job('m', 't', input => 'x', output => 'y')";

sub submit
{
	my (%options) = @_;
	my $arguments = join '', map { ", $_ => '$options{arguments}{$_}'" } sort keys %{ $options{arguments} || {} };

	return $server->safe_psql("SELECT infer.submit_job('m', 't', input => 'x', output => 'y'$arguments)", %{ $options{psql} || {} });
}

sub launcher { my ($column) = @_; return $server->safe_psql("SELECT $column FROM infer.read_job_launcher()"); }
sub state_of { my ($job, %options) = @_; return $server->safe_psql("SELECT state FROM infer.job WHERE job = $job", %options); }

sub ends
{
	my ($job, $state, $name, %options) = @_;

	ok($server->poll_query_until("SELECT state FROM infer.job WHERE job = $job", $state, %options), $name);
	return;
}

sub all_end
{
	my ($name, %options) = @_;

	ok($server->poll_query_until('SELECT count(*) FROM infer.job WHERE finished IS NULL', '0', %options), $name);
	return;
}

# Runs CODE while the engine is stopped: jobs that start meanwhile stay in their slots.
sub with_stopped_engine
{
	my ($code) = @_;
	my $engine = $server->engine_pid;

	$server->safe_psql("SELECT infer.predict('m', 1)");	# loaded
	kill 'STOP', $engine;
	eval { $code->($engine); 1 } or do { my $error = $@; kill 'CONT', $engine; die $error };
	kill 'CONT', $engine;
	return;
}

sub workers { return $server->poll_query_until('SELECT workers FROM infer.read_job_launcher()', $_[0]); }
sub is_quiet { return $server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('infer job', 'infer job scanner')", '0'); }

# ---- at commit, not on a timer ----

ok(is_quiet(), 'the first scans end');
my $scans = launcher('scans');
my $session = $server->background_psql;
$session->query('BEGIN');
my $job = $session->query("SELECT $submit");
select undef, undef, undef, 0.3;
is(launcher('scans'), $scans, 'nothing is scanned before the commit, nor without a reason');
$session->query('COMMIT');
ends($job, 'completed', 'a job runs when its transaction has committed');
is($server->safe_psql('SELECT count(*), sum(y - x) FROM t'), '10|30', 'and does what it is to do');
ok(is_quiet(), 'its worker leaves');
cmp_ok(launcher('scans'), '<=', $scans + 6, 'a few scans did it');

$scans = launcher('scans');
$session->query("BEGIN; SELECT $submit; ROLLBACK");
$session->query("BEGIN; SAVEPOINT a; SELECT $submit; ROLLBACK TO a; SAVEPOINT b; SAVEPOINT c; SELECT $submit; RELEASE c; ROLLBACK TO b; COMMIT");
$session->query("DO \$\$BEGIN PERFORM $submit; RAISE 'no'; EXCEPTION WHEN raise_exception THEN NULL; END\$\$");
select undef, undef, undef, 0.3;
is(launcher('scans'), $scans, 'what is rolled back starts nothing, savepoints as well');
$job = $session->query("BEGIN; SAVEPOINT a; SAVEPOINT b; SELECT $submit; RELEASE b; RELEASE a; COMMIT");
ends($job, 'completed', 'what subtransactions have handed on is started');

# ---- prepared transactions ----

ok(is_quiet(), 'quiet');
$session->query('BEGIN');
$job = $session->query("SELECT $submit");
$session->query("PREPARE TRANSACTION 'one'");
$session->quit;
ok(is_quiet(), 'a prepared transaction is looked at');
is($server->safe_psql("SELECT count(*) FROM infer.job WHERE job = $job"), '0', 'its job is not there yet');
$server->safe_psql("COMMIT PREPARED 'one'");
ends($job, 'completed', 'COMMIT PREPARED starts it');

$server->safe_psql("BEGIN; SELECT $submit; PREPARE TRANSACTION 'two'");
$server->safe_psql("BEGIN; SELECT $submit; PREPARE TRANSACTION 'three'");
$server->restart;
ok(is_quiet(), 'quiet');
$server->safe_psql("COMMIT PREPARED 'two'");
ok($server->poll_query_until("SELECT count(*) FROM infer.job WHERE state = 'completed'", '4'), 'after a restart of the server too');
$server->safe_psql("ROLLBACK PREPARED 'three'");

# ---- two databases ----

$server->safe_psql('CREATE DATABASE other');
$server->safe_psql("CREATE EXTENSION infer; $setup", database => 'other');
my @jobs = map { submit(psql => { database => $_ }) } qw(infer other);
ends($jobs[0], 'completed', 'a job of one database');
ends($jobs[1], 'completed', 'a job of another, at the same time', database => 'other');

# ---- slots: priority, then submission, across databases ----

ok(is_quiet(), 'quiet');
$server->safe_psql('TRUNCATE infer.job, infer.job_shard, infer.job_item');
$server->reload('infer.max_job_workers' => 1);
ok($server->poll_query_until('SHOW infer.max_job_workers', '1'), 'one worker is allowed');
with_stopped_engine(sub {
	submit();
	ok(workers('1'), 'a job runs');
	submit(arguments => { job_priority => 1, name => 'low' });
	submit(arguments => { job_priority => 3, name => 'high' }, psql => { database => 'other' });
	submit(arguments => { job_priority => 2, name => 'middle' });
	submit(arguments => { job_priority => 2, name => 'middle, later' });
	ok($server->poll_query_until('SELECT waiting FROM infer.read_job_launcher()', '4'), 'four wait');
	is(launcher('workers || $$ of $$ || workers_max'), '1 of 1', 'since no more than infer.max_job_workers run');
	is($server->safe_psql('SELECT infer.read_job_wait(NULL)'), 'a worker slot (infer.max_job_workers = 1)', 'which is what they wait for');
	is($server->safe_psql('SELECT count(*), count(pid), count(phase), count(started) FROM infer.read_job_workers()'), '1|1|1|1',
		'the worker is seen');
	is($server->safe_psql('SELECT count(*) FROM infer.read_job_workers()', database => 'other'), '0', 'in their database');
});
all_end('all of them end');
all_end('in both databases', database => 'other');
$server->reload('infer.max_job_workers' => 2);
my @started = map { $server->safe_psql("SELECT extract(epoch FROM started) || ' ' || name FROM infer.job WHERE name IS NOT NULL", database => $_) } qw(infer other);
is(join(', ', map { s/^\S+ //r } sort map { split /\n/ } @started), 'high, middle, middle, later, low',
	'in the order of their priority, then of their submission');

# ---- settings ----

$server->reload('infer.max_job_workers' => 0);
ok($server->poll_query_until('SHOW infer.max_job_workers', '0'), 'no workers allowed');
$job = submit();
ok($server->poll_query_until('SELECT waiting FROM infer.read_job_launcher()', '1'), 'a job waits');
is($server->safe_psql('SELECT infer.read_job_wait(NULL)'), 'infer.max_job_workers, which is 0', 'for the setting');
is(state_of($job), 'validating', 'and does not run');
$server->reload('infer.max_job_workers' => 2);
ends($job, 'completed', 'a reload lets it go');

with_stopped_engine(sub {
	@jobs = map { submit() } 1 .. 2;
	ok(workers('2'), 'two jobs run');
	$server->reload('infer.max_job_workers' => 0);
	ok($server->poll_query_until('SHOW infer.max_job_workers', '0'), 'and are not allowed any more');
});
ok(workers('0'), 'they leave after their chunk');
$server->reload('infer.max_job_workers' => 1);
all_end('and go on when one is allowed');

# ---- max_worker_processes ----

# supervisor, two launchers, and one more
$server->reload('infer.max_job_workers' => 2);
$server->restart('max_worker_processes' => 4);
ok(is_quiet(), 'quiet');
my $size = $server->log_size;
with_stopped_engine(sub {
	@jobs = map { submit() } 1 .. 6;
	ok(workers('1'), 'one job runs');
	ok($server->wait_for_log(qr/WARNING:  infer: jobs wait for a free background worker\n.*DETAIL:.*max_worker_processes \(4\).*\n.*HINT:  Raise max_worker_processes/, $size),
		'the log says what the others wait for');
	is($server->safe_psql('SELECT infer.read_job_wait(NULL)'), 'a background worker (max_worker_processes = 4)', 'as they do themselves');
	select undef, undef, undef, 1.5;
});
all_end('each of them starts by itself');
is(scalar(() = substr($server->log, $size) =~ /jobs wait for a free background worker/g), 1, 'the log has said it once');
$server->restart('max_worker_processes' => 16);

# ---- the launcher ends ----

ok(is_quiet(), 'quiet');
my $pid = launcher('pid');
with_stopped_engine(sub {
	@jobs = map { submit() } 1 .. 3;
	ok(workers('2'), 'two jobs run');
	my $runners = $server->safe_psql('SELECT string_agg(pid::text, $$ $$ ORDER BY pid) FROM infer.read_job_workers()');
	$server->safe_psql("SELECT pg_terminate_backend($pid)");
	ok($server->poll_query_until("SELECT pid <> $pid FROM infer.read_job_launcher()"), 'a launcher that was terminated comes back');
	is($server->safe_psql('SELECT string_agg(pid::text, $$ $$ ORDER BY pid) FROM infer.read_job_workers()'), $runners, 'workers go on meanwhile');
	ok($server->poll_query_until('SELECT waiting FROM infer.read_job_launcher()', '1'), 'and it finds what waits');
});
all_end('all jobs end');

# ---- a database that cannot be connected to ----

$session = $server->background_psql(database => 'other');
$session->query('SELECT 1');
my $holder = $server->background_psql;
$holder->query('BEGIN; ALTER DATABASE other RENAME TO renamed');
$job = $session->query("SELECT $submit");
my $here = submit();
ends($here, 'completed', 'a database that somebody holds does not hold up others');
$holder->query('ROLLBACK');
ends($job, 'completed', 'and its jobs run when it is free', database => 'other');
$holder->quit;
$session->quit;

$server->reload('infer.max_job_workers' => 0);
ok($server->poll_query_until('SHOW infer.max_job_workers', '0'), 'no workers allowed');
$job = submit(psql => { database => 'other' });
ok(is_quiet(), 'quiet');
$server->safe_psql('ALTER DATABASE other ALLOW_CONNECTIONS false');
$server->restart;
$server->reload('infer.max_job_workers' => 2);
ok(is_quiet(), 'a database that is closed is not looked at');
$server->safe_psql('ALTER DATABASE other ALLOW_CONNECTIONS true');
ends($job, 'completed', 'and is, as soon as it is opened', database => 'other');

# ---- DROP DATABASE ----

is($server->psql_sqlstate('DROP DATABASE other'), '', 'a database without running jobs is dropped');
$server->safe_psql('CREATE DATABASE other');
$server->safe_psql("CREATE EXTENSION infer; $setup", database => 'other');
$size = $server->log_size;
with_stopped_engine(sub {
	$job = submit(psql => { database => 'other' });
	ok(workers('1'), 'a job runs');
	is($server->psql_sqlstate('CREATE DATABASE copied TEMPLATE other'), '', 'CREATE DATABASE may have the database as a template meanwhile');
	ok($server->poll_query_until('SELECT count(pid) FROM infer.read_job_workers()', '1', database => 'other'), 'and then the job goes on');
	is($server->psql_sqlstate('DROP DATABASE other'), '', 'DROP DATABASE may drop it');
	ends($job, 'cancelled', 'the copy has the job as history', database => 'copied');
	submit(psql => { database => 'copied' });
	ok(workers('1'), 'a job runs');
	is($server->psql_sqlstate('DROP DATABASE copied WITH (FORCE)'), '', 'and all the more by force');
});
ok(workers('0'), 'its worker is gone');
$job = submit();
ends($job, 'completed', 'other databases\' jobs run');
ok(is_quiet(), 'quiet');
$scans = launcher('scans');
select undef, undef, undef, 1.5;
is(launcher('scans'), $scans, 'nobody looks for it any more');
unlike(substr($server->log, $size), qr/FATAL.*does not exist/, 'the log says nothing of it');

# ---- the server ends ----

for my $mode ('fast', 'immediate')
{
	my $engine = $server->engine_pid;
	kill 'STOP', $engine;
	@jobs = map { submit() } 1 .. 3;
	ok(workers('2'), 'two jobs run');
	kill 'CONT', $engine if $mode eq 'fast';
	$server->stop($mode);
	$server->start_again;
	all_end("unfinished jobs go on after a restart ($mode)");
	is($server->safe_psql("SELECT count(*) FROM infer.job WHERE state = 'completed' AND job IN (" . join(', ', @jobs) . ')'), '3', 'to their end');
}

# ---- a standby that is promoted ----

my $standby = $server->start_standby('infer.engine_timeout' => '1h');
is($standby->safe_psql('SELECT pid IS NULL, infer.read_job_wait(NULL) FROM infer.read_job_launcher()'), 't|the launcher of jobs',
	'a standby has no launcher');
with_stopped_engine(sub {
	@jobs = map { submit() } 1 .. 3;
	ok(workers('2'), 'two jobs run');
	ok($standby->poll_query_until("SELECT count(*) FROM infer.job WHERE state = 'in_progress'", '2'), 'which the standby knows');
	$standby->safe_psql('SELECT pg_promote()');
	ok($standby->poll_query_until('SELECT count(*) FROM infer.job WHERE finished IS NULL', '0'), 'once promoted it takes them up');
});
is($standby->safe_psql("SELECT count(*) FROM infer.job WHERE state = 'completed' AND job IN (" . join(', ', @jobs) . ')'), '3', 'and completes them');
$standby->stop;
all_end('here they run as well');

# ---- a worker that ends ----

with_stopped_engine(sub {
	$job = submit();
	ok($server->poll_query_until("SELECT chunk FROM infer.read_job_workers() WHERE job = $job", '1'), 'a job runs');
	$pid = $server->safe_psql("SELECT pid FROM infer.read_job_workers() WHERE job = $job");
	$server->safe_psql("SELECT pg_terminate_backend($pid)");
	ok($server->poll_query_until("SELECT pid <> $pid FROM infer.read_job_workers() WHERE job = $job"), 'another worker takes up a job whose worker was terminated');
});
ends($job, 'completed', 'and completes it');
is($server->safe_psql("SELECT faults, message FROM infer.job WHERE job = $job"), '0|', 'which forgets it');

# A trigger that ends whoever fires it.
$server->safe_psql(q{CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN NEW; END$$;
	CREATE TRIGGER dies BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dies()});
$server->reload('infer.max_job_workers' => 0);
ok($server->poll_query_until('SHOW infer.max_job_workers', '0'), 'no workers allowed');
$job = submit();
# as if it had happened before
$server->safe_psql("UPDATE infer.job SET faults = 8 WHERE job = $job");
$server->reload('infer.max_job_workers' => 2);
ok($server->poll_query_until("SELECT j.faults >= 9 AND s.resume_at > now() FROM infer.job AS j JOIN infer.job_shard AS s USING (job) WHERE job = $job"),
	'a job that ends its worker each time waits longer each time');
like($server->safe_psql("SELECT last_error, waiting_for FROM infer.jobs WHERE job = $job"),
	qr/terminating background worker.*\|20\d\d-.* \(back-off\)$/, 'and says why and how long');
$server->safe_psql("UPDATE infer.job SET faults = 10 WHERE job = $job; UPDATE infer.job_shard SET resume_at = NULL WHERE job = $job");
$server->reload('infer.max_job_workers' => 1);
my $next = submit();
ends($job, 'failed', 'in the end it has failed');
is($server->safe_psql("SELECT sqlstate, message ~ '^it ended its background worker or the server 11 times in a row: terminating' FROM infer.job WHERE job = $job"), '55000|t', 'saying so');
$server->safe_psql("DROP TRIGGER dies ON t");
ends($next, 'completed', 'others are not held up');
$server->reload('infer.max_job_workers' => 2);

# ---- what the scanner ends ----

$server->safe_psql('CREATE ROLE gone LOGIN; CREATE ROLE locked_out LOGIN; CREATE ROLE shut_out LOGIN');
$server->reload('infer.max_job_workers' => 0);
ok($server->poll_query_until('SHOW infer.max_job_workers', '0'), 'no workers allowed');
my %job = map { ($_ => submit(psql => { user => $_ })) } qw(gone locked_out shut_out);
$job{cancelled} = submit();
$job{expired} = submit(arguments => { completion_window => '1 millisecond' });
$server->safe_psql('DROP ROLE gone; ALTER ROLE locked_out NOLOGIN; GRANT CONNECT ON DATABASE infer TO locked_out; REVOKE CONNECT ON DATABASE infer FROM public');
$server->safe_psql("SELECT infer.cancel_job($job{cancelled})");
ends($job{cancelled}, 'cancelled', 'a job that is cancelled before it has run');
ends($job{expired}, 'expired', 'one whose completion_window has passed before it has run');
ends($job{gone}, 'failed', 'one whose role has been dropped');
is($server->safe_psql("SELECT sqlstate, message FROM infer.job WHERE job = $job{gone}"), '42704|role "gone" does not exist any more', 'which says so');
$server->reload('infer.max_job_workers' => 2);
if ($server->safe_psql('SHOW server_version_num') < 170000)
{
	ends($job{locked_out}, 'failed', 'one whose role may not log in any more');
	is($server->safe_psql("SELECT sqlstate, message FROM infer.job WHERE job = $job{locked_out}"),
		'28000|role "locked_out" is not permitted to log in any more', 'which says so');
}
else
{
	ends($job{locked_out}, 'completed', 'one whose role may not log in any more runs all the same');
}
ends($job{shut_out}, 'failed', 'one whose role may not connect any more');
is($server->safe_psql("SELECT sqlstate, message FROM infer.job WHERE job = $job{shut_out}"),
	'42501|role "shut_out" may not connect to the database any more', 'which says so');
$server->safe_psql('GRANT CONNECT ON DATABASE infer TO public');

# A completion_window that passes while the job waits.
$server->reload('infer.max_job_workers' => 0);
ok($server->poll_query_until('SHOW infer.max_job_workers', '0'), 'no workers allowed');
$job = submit(arguments => { completion_window => '5 seconds' });
is(state_of($job), 'validating', 'a job waits');
ends($job, 'expired', 'and expires at its time');
$server->reload('infer.max_job_workers' => 2);

# ---- dumps ----

with_stopped_engine(sub {
	$job = submit();
	ok(workers('1'), 'a job runs');
	$server->safe_psql('CREATE DATABASE restored');
	my %environment = $server->environment;
	local @ENV{ keys %environment } = values %environment;
	my $dump = "$server->{parent}/dump";
	is(system($server->program('pg_dump'), '-Fc', '-f', $dump), 0, 'a dump of a running job');
	is(system($server->program('pg_restore'), '-d', 'restored', $dump), 0, 'restored');
	ends($job, 'cancelled', 'it does not run there', database => 'restored');
	is($server->safe_psql("SELECT message FROM infer.job WHERE job = $job", database => 'restored'), 'restored from a dump: it was unfinished there', 'and says why');
	is($server->safe_psql("SELECT state, (SELECT count(*) FROM infer.read_job_workers()) FROM infer.job WHERE job = $job"), 'in_progress|1', 'at home it goes on');
});
ends($job, 'completed', 'to its end');
$server->safe_psql('CREATE DATABASE copied TEMPLATE restored');
$server->safe_psql('DROP DATABASE copied');
$server->safe_psql('DROP DATABASE restored');

# ---- retention ----

cmp_ok($server->safe_psql('SELECT count(*) FROM infer.job'), '>', 5, 'jobs that have ended are kept');
$server->reload('infer.job_retention' => '1s');
ok($server->poll_query_until('SELECT count(*) FROM infer.job', '0'), 'until infer.job_retention');
is($server->safe_psql('SELECT count(*) FROM infer.job_shard'), '0', 'with all that belongs to them');
$job = submit();
# more than one scan removes
$server->safe_psql('INSERT INTO infer.job_item SELECT ' . $job . ", 1, i, '{a}', 'failed', 1, NULL, NULL, false, NULL, now() FROM generate_series(1, 25000) i");
ok($server->poll_query_until("SELECT last_value >= $job AND NOT EXISTS (SELECT FROM infer.job) FROM infer.job_id"), 'and those that end later, at their time');
is($server->safe_psql('SELECT count(*) FROM infer.job_item'), '0', 'with many items');
$server->reload('infer.job_retention' => '30d');

# ---- the extension goes ----

with_stopped_engine(sub {
	submit();
	ok(workers('1'), 'a job runs');
	$server->safe_psql('DROP EXTENSION infer CASCADE');
});
ok(is_quiet(), 'without the extension there is nothing to run');
$server->safe_psql('CREATE DATABASE elsewhere');
$server->safe_psql('CREATE EXTENSION infer', database => 'elsewhere');
ok(is_quiet(), 'quiet');
$scans = $server->safe_psql('SELECT scans FROM infer.read_job_launcher()', database => 'elsewhere');
select undef, undef, undef, 1.2;
is($server->safe_psql('SELECT scans FROM infer.read_job_launcher()', database => 'elsewhere'), $scans, 'nor to look at');

done_testing();
