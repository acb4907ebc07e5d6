# Jobs that cannot be begun (here since somebody has their rows locked; a full disk does the same): others get
# their turn meanwhile, whatever the order of submission, in their database and in others.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start;
my $setup = "SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . q{);
	CREATE TABLE t (id int PRIMARY KEY, x float8, y float8);
	INSERT INTO t SELECT g, g FROM generate_series(1, 10) g};
$server->safe_psql('CREATE DATABASE other');
$server->safe_psql($setup);
$server->safe_psql("CREATE EXTENSION infer; $setup", database => 'other');

sub submit
{
	my ($arguments, @psql) = @_;

	return $server->safe_psql("SELECT infer.submit_job('add', 't', input => 'x', output => 'y'$arguments)", @psql);
}

sub ends
{
	my ($job, $state, $name, @psql) = @_;

	is($server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')", @psql), $state, $name);
	return;
}

sub workers_max
{
	my ($max) = @_;

	$server->reload('infer.max_job_workers' => $max);
	ok($server->poll_query_until('SELECT workers_max FROM infer.read_job_launcher()', $max), "infer.max_job_workers = $max");
	return;
}

# Jobs that are there, and whose rows are locked: as if they were about to be cancelled, by somebody who has not committed.
sub locked
{
	my ($count, @psql) = @_;
	my @jobs = map { submit('', @psql) } 1 .. $count;
	my $holder = $server->background_psql(@psql);

	$holder->query('BEGIN');
	$holder->query("SELECT infer.cancel_job($_)") for @jobs;
	return ($holder, @jobs);
}

# One, and another of its database, whose priority is the same.
workers_max(0);
my ($holder, $locked) = locked(1);
workers_max(1);
ok($server->poll_query_until("SELECT count(*) FROM infer.read_job_workers() WHERE job = $locked", 1), 'a job cannot begin');
ends(submit(''), 'completed', 'another one does not wait for that');
ok($server->poll_query_until("SELECT waiting_for ~ '^20.* \\(back-off\\)' FROM infer.jobs WHERE job = $locked"),
	'it says until when it waits itself');
is($server->safe_psql("SELECT state FROM infer.jobs WHERE job = $locked"), 'validating', 'and that it has not begun');
$holder->query('ROLLBACK');
$holder->quit;
ends($locked, 'completed', 'it runs when it can');
ok($server->poll_query_until("SELECT infer.read_job_delay($locked) IS NULL"), 'then its delay is forgotten');

# Nor does another one wait for a job whose table is locked; that it has to wait is no fault of the job's.
$server->safe_psql('CREATE TABLE u AS SELECT * FROM t; ALTER TABLE u ADD PRIMARY KEY (id)');
workers_max(0);
$locked = submit('');
$holder = $server->background_psql;
$holder->query('BEGIN');
$holder->query('LOCK TABLE t');
workers_max(1);
ok($server->poll_query_until("SELECT last_error ~ 'lock timeout' FROM infer.jobs WHERE job = $locked"), 'a job waits for the lock of its table, and says so');
is($server->safe_psql("SELECT state FROM infer.jobs WHERE job = $locked"), 'validating', 'it has not begun');
ends($server->safe_psql("SELECT infer.submit_job('add', 'u', input => 'x', output => 'y')"), 'completed', 'another one has its slot meanwhile');
ok($server->poll_query_until("SELECT faults FROM infer.job WHERE job = $locked", 0), 'which is not held against it');
$holder->query('ROLLBACK');
$holder->quit;
ends($locked, 'completed', 'it runs when it can, again');

# Several, and one of another database that was submitted later.
workers_max(0);
($holder, my @locked) = locked(3, database => 'other');
workers_max(1);
my $size = $server->log_size;
ok($server->poll_query_until('SELECT count(*) FROM infer.read_job_workers()', 1, database => 'other'), 'jobs of a database cannot begin');
ends(submit(''), 'completed', 'one of another database does not wait for them');
ok($server->poll_query_until('SELECT count(infer.read_job_delay(job)) FROM infer.job WHERE finished IS NULL', 3, database => 'other'),
	'each of them has been tried, and waits');

# Nor does one of lower priority: those that cannot begin are tried less and less often.
ends(submit(', job_priority => -1'), 'completed', 'not even one of lower priority');
$holder->query('COMMIT');
$holder->quit;
ends($_, 'cancelled', 'a job that is cancelled meanwhile ends', database => 'other') for @locked;
ok($server->poll_query_until('SELECT count(infer.read_job_delay(job)) FROM infer.job', 0, database => 'other'), 'and has no delay any more');

$server->stop;
done_testing;
