# A runner whose rows come back has a session for each time: none leaves anything behind.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start;

$server->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")");
$server->safe_psql('CREATE TABLE t (id int PRIMARY KEY, x real, y double precision); INSERT INTO t SELECT i, i FROM generate_series(1, 10) i');

# The memory contexts that a process has just now, as it tells the log.
sub contexts
{
	my ($pid) = @_;
	my $from = $server->log_size;

	$server->safe_psql("SELECT pg_log_backend_memory_contexts($pid)");
	$server->wait_for_log(qr/Grand total: /, $from);
	my $said = substr($server->log, $from);
	my $count = () = $said =~ /level: \d+[;,] (?!\d+ more)/g;

	$count += $_ for $said =~ /(\d+) more child contexts/g;
	return $count;
}

my $locker = $server->background_psql;
$locker->query('BEGIN; SELECT FROM t WHERE id = 5 FOR UPDATE');
my $job = $server->safe_psql("SELECT infer.submit_job('add', 't', 'x', 'y')");
my $recomputed = "SELECT recomputed FROM infer.jobs WHERE job = $job";

$server->poll_query_until($recomputed, '1');
my $pid = $server->safe_psql("SELECT pids[1] FROM infer.jobs WHERE job = $job");
$server->poll_query_until($recomputed, '2');
my $few = contexts($pid);
$server->poll_query_until($recomputed, '4');
is($server->safe_psql("SELECT pids[1] FROM infer.jobs WHERE job = $job"), $pid, 'a runner comes back for a locked row again and again');
cmp_ok(contexts($pid), '<=', $few + 4, '... without plans of the sessions before');

$locker->query('COMMIT');
$server->poll_query_until("SELECT state, done FROM infer.jobs WHERE job = $job", 'completed|10');
pass('it writes the row when it is free');
$locker->quit;
$server->stop;
done_testing;
