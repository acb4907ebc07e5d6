# Kept columns on a subscriber of their table, and jobs on a server whose connections are all in use.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use IPC::Run;
use Test::More;
use TinyModel;

my $model = "SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")";
my $table = 'CREATE TABLE kept (id int PRIMARY KEY, x float8, y float8, v text)';
my $keep = "SELECT infer.keep_fresh('add', 'kept', input => 'x', output => 'y', version_column => 'v')";

# ---- a subscriber ----

my $server = InferServer->start(wal_level => 'logical', max_connections => 12, superuser_reserved_connections => 2);
my $here = $server->host;

$server->safe_psql("$model; $table; $keep; INSERT INTO kept SELECT g, g FROM generate_series(1, 20) g; CREATE PUBLICATION p FOR TABLE kept");
ok($server->poll_query_until("SELECT count(*) FROM kept WHERE y = x + 1 AND v = 'add\@1'", 20), 'a kept column is fresh');
my $subscriber = InferServer->start;
$subscriber->safe_psql("$model; $table; $keep; CREATE SUBSCRIPTION s CONNECTION 'host=$here port=5432 user=postgres dbname=infer' PUBLICATION p");
ok($subscriber->poll_query_until("SELECT count(*) FROM kept WHERE y = x + 1 AND v = 'add\@1'", 20), 'a subscriber has the values');
$server->safe_psql('UPDATE kept SET x = 100 + id WHERE id <= 5; INSERT INTO kept VALUES (21, 21)');
ok($server->poll_query_until("SELECT count(*) FROM kept WHERE y = x + 1 AND v = 'add\@1'", 21), 'what changes is scored where it changes');
ok($subscriber->poll_query_until("SELECT count(*) FROM kept WHERE y = x + 1 AND v = 'add\@1'", 21), 'and comes to the subscriber');
is($subscriber->safe_psql('SELECT count(*) FROM infer.jobs WHERE done > 0'), '0', 'which has scored none of it itself');

# Values of its own, if the publication leaves them out.
$server->safe_psql('ALTER PUBLICATION p SET TABLE kept (id, x)');
$subscriber->safe_psql('ALTER SUBSCRIPTION s REFRESH PUBLICATION');
$subscriber->safe_psql("ALTER TABLE kept ENABLE ALWAYS TRIGGER $_")
	for split /\n/, $subscriber->safe_psql("SELECT tgname FROM pg_trigger WHERE tgrelid = 'kept'::regclass AND tgname ~ 'infer_fresh'");
$server->safe_psql('INSERT INTO kept VALUES (22, 22)');
ok($subscriber->poll_query_until("SELECT y, v FROM kept WHERE id = 22", '23|add@1'), 'a subscriber scores what comes without values, with its triggers always on');
is($subscriber->safe_psql('SELECT sum(done) FROM infer.jobs'), '1', 'itself, and that row only');
$subscriber->safe_psql('DROP SUBSCRIPTION s');
$subscriber->stop;

# ---- connections that are all in use ----

my @sessions = map { $server->background_psql } 1 .. 12;
like(($server->psql('SELECT 1'))[2], qr/too many clients/, 'nobody can connect any more');
my $job = $sessions[0]->query("SELECT infer.submit_job('add', 'kept', input => 'x', output => 'y')");
is($sessions[0]->query("SELECT infer.wait_job($job, '1 min')"), 'completed', 'a job runs all the same: its worker has a place of its own');
$_->quit for @sessions;
$server->stop;

done_testing;
