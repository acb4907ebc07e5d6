# Which version a name means: by transaction, snapshot and session.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start();
my ($three, $four, $five) = map { sql_bytes(add_model($_)) } 3, 4, 5;
my $predict = "SELECT infer.predict('m', 1)";
my $a = $server->background_psql();
my $b = $server->background_psql();

sub waits_for_lock
{
	my ($session) = @_;
	my $pid = $session->backend_pid;

	return $server->poll_query_until("SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
}

# ---- one transaction ----

$a->query('BEGIN');
is($a->query("SELECT infer.create_model('m', data => $three)"), '1', 'a transaction creates a model');
is($a->query($predict), '4', 'and uses it before it commits');
is($a->query("SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;
	SET LOCAL min_parallel_table_scan_size = 0;
	SELECT DISTINCT infer.predict('m', 1 + relpages * 0) FROM pg_class"), '4', 'also in parallel workers');
is($server->psql_sqlstate($predict), '42704', 'nobody else sees it');
$a->query('ROLLBACK');
$a->query($predict);
like($a->errors, qr/42704/, 'an abort leaves no model');
is($server->safe_psql('SELECT count(*) FROM infer.model_version') . $server->safe_psql('SELECT count(*) FROM infer.model_file'),
	'00', 'and no rows that anybody sees');

$a->query('BEGIN');
$a->query("SELECT infer.create_model('m', data => $three)");
$a->query('SAVEPOINT s');
$a->query("SELECT infer.create_model('m', data => $four); SELECT infer.activate_model('m', 2)");
is($a->query($predict), '5', 'a version that was activated answers');
$a->query('ROLLBACK TO s');
is($a->query($predict), '4', 'until the subtransaction is rolled back');
is($a->query("SELECT infer.create_model('m', data => $four)"), '2', 'whose version number was not used');
$a->query("SELECT infer.rename_model('m', 'n')");
is($a->query("SELECT infer.predict('n\@2', 1)"), '5', 'a model is renamed');
$a->query("SELECT infer.rename_model('n', 'm'); COMMIT");
is($b->query($predict), '4', 'others see what was committed');

# ---- other sessions' activations ----

is($a->query($predict), '4', 'a session has resolved a name');
$b->query("SELECT infer.activate_model('m', 2)");
is($a->query($predict), '5', 'and sees the next version at once');
$a->query('BEGIN; SELECT 1');
is($a->query($predict), '5', 'also within a transaction');
$b->query("SELECT infer.activate_model('m', 1)");
is($a->query($predict), '4', 'that reads what is committed');
$a->query('COMMIT');

$a->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($a->query($predict), '4', 'a repeatable read sees a version');
$b->query("SELECT infer.activate_model('m', 2)");
is($a->query($predict), '4', 'and keeps seeing it');
is($a->query("SELECT version FROM infer.model_versions WHERE name = 'm' AND active"), '1', 'as the view does');
is($b->query($predict), '5', 'while others see the next');
$a->query('COMMIT');
is($a->query($predict), '5', 'and it too afterwards');
$a->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$b->query("SELECT infer.activate_model('m', 1); SELECT infer.drop_model('m', 2)");
is($a->query($predict), '5', 'a snapshot sees even what was dropped since');
$a->query('COMMIT');
is($a->query($predict), '4', 'but no later one');
is($a->query("SELECT infer.create_model('m', data => $four)"), '3', 'a dropped version\'s number is not used again');

# ---- one long statement ----

my $slow = "SELECT string_agg(infer.predict('m', i::float8)::text, ',' ORDER BY i) FROM (SELECT i FROM generate_series(1, 3) i
	WHERE CASE WHEN i = 2 THEN pg_advisory_xact_lock(1)::text = '' ELSE true END OFFSET 0) s";
my $rows = "SELECT infer.predict('m', i::float8) FROM generate_series(1, 3) i
	WHERE CASE WHEN i = 2 THEN pg_advisory_xact_lock(1)::text = '' ELSE true END";
for my $sql ($slow, $rows)
{
	$server->safe_psql("SELECT infer.activate_model('m', 1)");
	$b->query('SELECT pg_advisory_lock(1)');
	$a->send($sql);
	waits_for_lock($a);
	$server->safe_psql("SELECT infer.activate_model('m', 3)");
	$b->query('SELECT pg_advisory_unlock(1)');
	is(join(',', split /\n/, $a->wait), '4,5,6', 'a statement keeps the version it began with');
}
is($a->query($predict), '5', 'and the next takes the new one');

# A function that sees what is committed while it runs, called by a statement that does not.
$server->safe_psql(<<'SQL');
SELECT infer.activate_model('m', 1);
CREATE FUNCTION looped() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	answers text := '';
BEGIN
	FOR i IN 1 .. 3 LOOP
		IF i = 2 THEN
			PERFORM pg_advisory_xact_lock(1);
		END IF;
		answers := answers || infer.predict('m', 1);
	END LOOP;
	RETURN answers;
END $$;
SQL
$b->query('SELECT pg_advisory_lock(1)');
$a->send("SELECT infer.predict('m', i) || ':' || looped() FROM generate_series(1, 2) i");
waits_for_lock($a);
$server->safe_psql("SELECT infer.activate_model('m', 3)");
$b->query('SELECT pg_advisory_unlock(1)');
is(join(',', split /\n/, $a->wait), '4:455,5:555', 'each snapshot has its version, in one session');

$server->safe_psql("SELECT infer.activate_model('m', 1)");
$a->query("BEGIN; DECLARE c CURSOR FOR SELECT infer.predict('m', i) FROM generate_series(1, 3) i");
is($a->query('FETCH c'), '4', 'a cursor has a version');
$server->safe_psql("SELECT infer.activate_model('m', 3)");
is($a->query($predict), '5', 'another statement the next');
is($a->query('FETCH c'), '5', 'and the cursor goes on with its own');
$a->query('COMMIT');

# ---- two that change at once ----

$a->query("BEGIN; SELECT infer.create_model('m', data => $five)");
$b->send("SELECT infer.create_model('m', data => $five)");
waits_for_lock($b);
$a->query('COMMIT');
is($b->wait, '5', 'two new versions of a model get two numbers');
is($server->safe_psql('SELECT count(*) FROM infer.model_file'), '3', 'and share their files');
$a->query("BEGIN; SELECT infer.create_model('new', data => $five)");
$b->send("SELECT infer.create_model('new', data => $five)");
waits_for_lock($b);
$a->query('COMMIT');
is($b->wait, '2', 'whoever comes second to a name makes a version');
$a->query("BEGIN; SELECT infer.activate_model('m', 4)");
$b->send("SELECT infer.activate_model('m', 5)");
waits_for_lock($b);
$a->query('COMMIT');
$b->wait;
is($server->safe_psql("SELECT string_agg(version::text, ',') FROM infer.model_versions WHERE name = 'm' AND active"),
	'5', 'one version is active, the last');
$a->query("BEGIN; SELECT infer.create_model('m', data => $three)");
$b->send("SELECT infer.drop_model('m')");
waits_for_lock($b);
$a->query('COMMIT');
$b->wait;
is($b->errors, '', 'dropping waits for whoever changes');
is($server->psql_sqlstate($predict), '42704', 'and drops it all');

# ---- a read-only transaction ----

is($server->psql_sqlstate("BEGIN READ ONLY; SELECT infer.create_model('ro', data => $three)"), '25006', 'a read-only transaction creates nothing');
is($server->safe_psql("BEGIN READ ONLY; SELECT infer.predict('new', 1)"), '6', 'but uses models');

done_testing();
