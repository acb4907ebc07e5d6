# Shards of a job wait each for itself.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start('infer.max_job_workers' => 1);

$server->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")");
$server->safe_psql('CREATE TABLE t (id int PRIMARY KEY, x real, y double precision); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i');

# With one slot for two shards, the one that waits leaves it to the other.
my $locker = $server->background_psql;
$locker->query('BEGIN; SELECT FROM t WHERE id = 5 FOR UPDATE');
my $job = $server->safe_psql("SELECT infer.submit_job('add', 't', 'x', 'y', shards => 2)");
ok($server->poll_query_until('SELECT count(*) FROM t WHERE y = x + 1', 999), 'a shard whose row is locked is not in the way of the other');
ok($server->poll_query_until("SELECT count(*) FROM infer.job_shard WHERE job = $job AND state = 'completed' AND shard = 2", 1), 'which ends');
ok($server->poll_query_until("SELECT j.resume_at IS NULL AND s.resume_at > s.started FROM infer.job j JOIN infer.job_shard s USING (job) WHERE job = $job AND shard = 1", 't'),
	'the first has a time of its own to go on at');
$locker->query('COMMIT');
ok($server->poll_query_until("SELECT state, done FROM infer.jobs WHERE job = $job", 'completed|1000'), 'and does when the row is free');
is($server->safe_psql("SELECT count(*) FROM infer.job_shard WHERE job = $job AND resume_at IS NULL AND faults = 0"), 2, 'of which nothing stays');
$locker->quit;

$server->stop;
done_testing;
