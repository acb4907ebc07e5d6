# Statements of jobs that run longer than DROP DATABASE and its like wait.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start;
my @other = (database => 'other');

$server->safe_psql('CREATE DATABASE other');
$server->safe_psql("CREATE EXTENSION infer; SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")", @other);
$server->safe_psql(<<'SQL', @other);
CREATE TABLE t (id int PRIMARY KEY, x float8, y float8, writes int NOT NULL DEFAULT 0);
INSERT INTO t SELECT g, g FROM generate_series(1, 60) g;
CREATE TABLE slow ();
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM pg_class WHERE relname = 'slow') THEN
		PERFORM pg_sleep(1);
	END IF;
	NEW.writes := NEW.writes + 1;
	RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION slow();
CREATE FUNCTION slowly(x float8) RETURNS float8 LANGUAGE sql AS 'SELECT pg_sleep(1); SELECT x';
SQL

sub sleeps
{
	my ($what) = @_;

	ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'infer job' AND wait_event = 'PgSleep'", 1), $what);
}

# A write.
my $job = $server->safe_psql("SELECT infer.submit_job('add', 't', input => 'x', output => 'y')", @other);
sleeps('a job writes, for a minute');
is($server->psql_sqlstate('DROP DATABASE nothing_like_it'), '3D000', 'other databases are not its business');
is($server->psql_sqlstate('ALTER DATABASE other RENAME TO another'), '', 'its database can be renamed meanwhile');
@other = (database => 'another');
$server->safe_psql('DROP TABLE slow', @other);
is($server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')", @other), 'completed', 'the job goes on');
is($server->safe_psql('SELECT count(*), min(writes), max(writes) FROM t WHERE y = x + 1', @other), '60|1|1', 'and has written each row once');
is($server->safe_psql("SELECT faults FROM infer.job WHERE job = $job", @other), '0', 'which was no fault');

$server->safe_psql('CREATE ROLE stranger LOGIN CREATEDB; CREATE DATABASE mine OWNER stranger');

# A query that is put by.
$server->safe_psql('CREATE TABLE scores (id int PRIMARY KEY, y float8)', @other);
$job = $server->safe_psql("SELECT infer.submit_job('add', source => 'SELECT id, slowly(x) AS x FROM t', key => 'id', target => 'scores', output => 'y')", @other);
sleeps('a job runs its query, for a minute');
my $pid = $server->safe_psql("SELECT pids[1] FROM infer.jobs WHERE job = $job", @other);
my $begun = "SELECT xact_start FROM pg_stat_activity WHERE pid = $pid";
my $then = $server->safe_psql($begun);
is($server->psql_sqlstate('DROP DATABASE another', user => 'stranger', database => 'mine'), '42501', 'a role that may not drop its database');
$server->safe_psql('ALTER DATABASE another CONNECTION LIMIT 50');
sleep 2;
is($server->safe_psql($begun), $then, 'does not stop it, nor does a change of options');
is($server->psql_sqlstate('CREATE DATABASE copy TEMPLATE another'), '', 'its database can be copied meanwhile');
sleeps('it begins again');

# Others than the owner may copy a template.
$server->safe_psql('CREATE ROLE guest LOGIN; ALTER DATABASE another IS_TEMPLATE true');
$then = $server->safe_psql("SELECT xact_start FROM pg_stat_activity WHERE backend_type = 'infer job' AND wait_event = 'PgSleep'");
is($server->psql_sqlstate('CREATE DATABASE copy_of_guest TEMPLATE another', user => 'guest', database => 'mine'), '42501', 'a role that creates no databases');
sleep 2;
is($server->safe_psql("SELECT xact_start FROM pg_stat_activity WHERE backend_type = 'infer job' AND wait_event = 'PgSleep'"), $then,
	'does not stop it where the database is a template');
is($server->psql_sqlstate('CREATE DATABASE copy_of_stranger TEMPLATE another', user => 'stranger', database => 'mine'), '',
	'a template can be copied by whoever creates databases');
$server->safe_psql('ALTER DATABASE another IS_TEMPLATE false');
sleeps('and again it begins again');
isnt($server->safe_psql("SELECT pids[1] FROM infer.jobs WHERE job = $job", @other), $pid, 'in another process');
is($server->safe_psql("SELECT state FROM infer.jobs WHERE job = $job", @other), 'in_progress', 'and is no worse for it');
is($server->psql_sqlstate('DROP DATABASE another'), '', 'it can be dropped');

$server->stop;
done_testing;
