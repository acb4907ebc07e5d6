# A cluster with jobs and kept columns goes through pg_upgrade.
#
# From 16 to 18, which come together: a later minor release of 15 may write options of columns into its dumps that
# an earlier one of 18 does not know.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use IPC::Run;
use Test::More;
use TinyModel;

plan skip_all => 'from PostgreSQL 16 only' if ($ENV{INFER_TEST_PG} || 16) != 16;

my @checksums = ('--initdb', '--data-checksums');
my $new = eval { InferServer->start_with([ '--pg', 18, '--no-extension', @checksums ]) };

plan skip_all => 'no PostgreSQL 18 here' unless $new;

my $old = InferServer->start_with([ '--pg', 16, @checksums ]);

$old->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")");
$old->safe_psql(<<'SQL');
CREATE TABLE kept (id int PRIMARY KEY, x float8, y float8, v text);
SELECT infer.keep_fresh('add', 'kept', input => 'x', output => 'y', version_column => 'v');
INSERT INTO kept SELECT g, g FROM generate_series(1, 20) g;
CREATE TABLE t (id int PRIMARY KEY, x float8, y float8);
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
SQL
ok($old->poll_query_until("SELECT count(*) FROM kept WHERE y = x + 1 AND v = 'add\@1'", 20), 'a kept column is fresh');
my $locker = $old->background_psql;
$locker->query('BEGIN; SELECT FROM t WHERE id = 5 FOR UPDATE');
my $job = $old->safe_psql("SELECT infer.submit_job('add', 't', input => 'x', output => 'y')");
ok($old->poll_query_until("SELECT done, pending FROM infer.jobs WHERE job = $job", '19|1'), 'a job is under way');
$locker->quit;

$new->safe_psql('DROP DATABASE infer', database => 'postgres');
$_->stop for $old, $new;

# As the user that the servers run as.
my ($uid, $gid) = (stat $old->data_dir)[ 4, 5 ];
my $place = $new->dir . '/upgrade';
my @as = $> == 0 ? ('setpriv', "--reuid=$uid", "--regid=$gid", '--clear-groups') : ();
my $out = '';

mkdir $place, 0700 or die "$place: $!";
chown $uid, $gid, $place;
chdir $place;
ok(IPC::Run::run([ @as, $new->program('pg_upgrade'), '-b', $old->bin_dir, '-B', $new->bin_dir, '-d', $old->data_dir, '-D', $new->data_dir,
			'-U', 'postgres', '-s', $place ], '>&', \$out), 'pg_upgrade succeeds') or diag($out);
chdir '/';

$new->start_again;
ok($new->poll_query_until("SELECT state, done, last_error FROM infer.jobs WHERE job = $job", 'cancelled|19|restored from a dump: it was unfinished there'),
	'a job that was under way has been cancelled');
$new->safe_psql('INSERT INTO kept VALUES (21, 21)');
ok($new->poll_query_until("SELECT count(*) FROM kept WHERE y = x + 1 AND v = 'add\@1'", 21), 'the column is kept fresh in the new server');
$job = $new->safe_psql("SELECT infer.submit_job('add', 't', input => 'x', output => 'y', condition => 'y IS NULL')");
is($new->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')"), 'completed', 'and jobs run there');
is($new->safe_psql('SELECT count(*) FROM t WHERE y = x + 1'), '20', 'which do what is left');

$new->stop;
done_testing;
