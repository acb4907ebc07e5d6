# A job of 100,000 rows that is interrupted twenty times, by everything that can end, does what it does
# undisturbed, and writes each row once.  Then many jobs at a time, one of them poisonous.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $rows = 100000;
my $faults = 20;
my $seed = $ENV{INFER_TEST_SEED} || time;
srand $seed;
note "INFER_TEST_SEED=$seed";

# Each batch takes the device a while, so that the job is under way long enough.
my $server = InferServer->start('infer.device' => 'null:delay=40,crash_on=666666', 'infer.max_job_workers' => 2);
my $three = sql_bytes(add_model(3));
my $four = sql_bytes(add_model(4));
$server->safe_psql(<<SQL);
SELECT infer.create_model('m', data => $three);
SELECT infer.create_model('poisoned', data => $four);
CREATE TABLE disturbed (id int PRIMARY KEY, x real, y float8);
INSERT INTO disturbed SELECT g, g % 60000, NULL FROM generate_series(1, $rows) g;
CREATE TABLE quiet (LIKE disturbed INCLUDING ALL);
INSERT INTO quiet TABLE disturbed;
CREATE TABLE writes (id int, xid xid8);
CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO writes VALUES (NEW.id, pg_current_xact_id());
	RETURN NULL;
END \$\$;
CREATE TRIGGER count_write AFTER UPDATE ON disturbed FOR EACH ROW EXECUTE FUNCTION count_write();
SQL

sub submit { return $server->safe_psql("SELECT infer.submit_job('m', '$_[0]', input => 'x', output => 'y')"); }

# How far it is, as whoever asks while the server may be coming up again.
sub settled
{
	my ($job) = @_;
	my ($status, $out) = $server->psql("SELECT done + failed + gone FROM infer.jobs WHERE job = $job");

	return $status == 0 && $out =~ /^\d+$/ ? $out : -1;
}

sub runner_pid
{
	my ($status, $out) = $server->psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'infer job'");

	return $status == 0 && $out =~ /^(\d+)$/ ? $1 : 0;
}

# A runner that is there by now.
sub some_runner
{
	my $pid = 0;

	InferServer::wait_until(sub { return $pid = runner_pid(); }) or die "no runner:\n" . $server->log_tail;
	return $pid;
}

my %fault = (
	'engine killed' => sub { $server->kill_engine('KILL') },
	'runner terminated' => sub { $server->psql('SELECT pg_terminate_backend(' . some_runner() . ')') },
	'runner killed' => sub { kill 'KILL', some_runner() },
	'postmaster killed' => sub {
		my $pid = $server->postmaster_pid;

		kill 'KILL', $pid;
		$server->bury_postmaster($pid);
		$server->start_again;
	},
);

# ---- twenty interruptions ----

my $job = submit('disturbed');
my @order = sort { rand() <=> 0.5 } map { ($_) x ($faults / keys %fault) } sort keys %fault;
my $before = 0;
my $met = 0;
for my $what (@order)
{
	my $moved = InferServer::wait_until(sub { my $now = settled($job); return $now > $before; });

	ok($moved, "$what: the job has got on before") or diag $server->log_tail;
	$before = settled($job);
	last if $before >= $rows;
	select undef, undef, undef, rand 0.5;
	$fault{$what}->();
	$met++;
}
is($met, $faults, "$faults interruptions met the job under way");
ok($server->poll_query_until("SELECT state FROM infer.jobs WHERE job = $job", 'completed'), 'it completes all the same')
  or diag $server->safe_psql("SELECT * FROM infer.jobs WHERE job = $job");

is($server->safe_psql('SELECT count(*), count(DISTINCT id) FROM writes'), "$rows|$rows", 'each row was written once');
is($server->safe_psql('SELECT count(*) FROM disturbed WHERE y IS DISTINCT FROM x + 3'), '0', 'with the right result');
is($server->safe_psql("SELECT done, failed, gone, expired, cancelled FROM infer.jobs WHERE job = $job"), "$rows|0|0|0|0",
	'and counted once');

# ---- the same without ----

my $undisturbed = submit('quiet');
ok($server->poll_query_until("SELECT state FROM infer.jobs WHERE job = $undisturbed", 'completed'), 'the same job undisturbed');
is($server->safe_psql('SELECT count(*) FROM quiet q JOIN disturbed d USING (id) WHERE q.y IS DISTINCT FROM d.y'), '0',
	'has the same results');
my $digests = join ',', $job, $undisturbed;
is($server->safe_psql("SELECT count(DISTINCT infer.job_manifest(job) -> 'digests') FROM infer.jobs WHERE job IN ($digests)"), '1',
	'and the same digests');
isnt($server->safe_psql("SELECT infer.job_manifest($job) -> 'digests'"), '', 'which the manifest tells');

# ---- ten jobs, two slots ----

$server->restart('infer.device' => 'null:delay=2,crash_on=666666');
$server->safe_psql(<<SQL);
CREATE TABLE few (id int PRIMARY KEY, x real, y float8);
INSERT INTO few SELECT g, g FROM generate_series(1, 500) g;
DO \$\$ BEGIN
	FOR i IN 1 .. 50 LOOP
		EXECUTE format('CREATE TABLE few%s (LIKE few INCLUDING ALL)', i);
		EXECUTE format('INSERT INTO few%s TABLE few', i);
	END LOOP;
END \$\$;
SQL
my @jobs = split /\n/, $server->safe_psql("SELECT infer.submit_job('m', format('few%s', i), input => 'x', output => 'y') FROM generate_series(1, 10) i");
my $all = join ',', @jobs;
my $most = 0;
ok(InferServer::wait_until(sub {
	my ($running, $open) = split /\|/, $server->safe_psql("SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'infer job'),
		count(*) FROM infer.jobs WHERE job IN ($all) AND finished IS NULL");
	$most = $running if $running > $most;
	return $open == 0;
}), 'ten jobs end');
is($server->safe_psql("SELECT string_agg(DISTINCT state, ',') FROM infer.jobs WHERE job IN ($all)"), 'completed', 'all of them well');
cmp_ok($most, '<=', 2, 'never more than two at a time');
is($server->safe_psql('SELECT ' . join(' + ', map { "(SELECT count(*) FROM few$_ WHERE y = x + 3)" } 1 .. 10)), '5000', 'and have done their work');

# ---- fifty jobs, one of them poisonous ----

$server->safe_psql('UPDATE few25 SET x = 666666 WHERE id IN (7, 400)');
$server->safe_psql("UPDATE few$_ SET y = NULL") for 1 .. 10;
@jobs = split /\n/, $server->safe_psql("SELECT infer.submit_job(CASE i WHEN 25 THEN 'poisoned' ELSE 'm' END, format('few%s', i),
	input => 'x', output => 'y') FROM generate_series(1, 50) i");
$all = join ',', @jobs;
ok($server->poll_query_until("SELECT count(*) FROM infer.jobs WHERE job IN ($all) AND finished IS NULL", '0'), 'fifty jobs end')
  or diag $server->safe_psql("SELECT job, state, done, failed, last_error, waiting_for FROM infer.jobs WHERE job IN ($all) AND finished IS NULL");
is($server->safe_psql("SELECT string_agg(DISTINCT state, ',') FROM infer.jobs WHERE job IN ($all)"), 'completed', 'the poisonous one, too');
is($server->safe_psql('SELECT ' . join(' + ', map { "(SELECT count(*) FROM few$_ WHERE y = x + 3)" } grep { $_ != 25 } 1 .. 50)), 49 * 500,
	'the others have done all rows');
is($server->safe_psql('SELECT count(*) FROM few25 WHERE y = x + 4'), '498', 'the poisonous one all but two');
is($server->safe_psql("SELECT string_agg(key[1] || ' ' || sqlstate || ' ' || retryable, ', ' ORDER BY key[1]::int)
	FROM infer.job_errors WHERE job = $jobs[24]"), '7 IF004 false, 400 IF004 false', 'which are known');

done_testing();
