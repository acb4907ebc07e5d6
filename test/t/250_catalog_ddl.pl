# Databases, schemas, extensions and transactions in two phases around models.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start(max_prepared_transactions => 5);
my ($three, $four) = map { sql_bytes(add_model($_)) } 3, 4;
$server->safe_psql("SELECT infer.create_model('m', data => $three)");

# ---- transactions in two phases ----

$server->safe_psql("BEGIN; SELECT infer.create_model('two', data => $four); SELECT infer.predict('two', 1); PREPARE TRANSACTION 'make'");
is($server->psql_sqlstate("SELECT infer.predict('two', 1)"), '42704', 'a prepared model is not there yet');
$server->stop('immediate');
$server->start_again;
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'after a crash the others answer');
$server->safe_psql("COMMIT PREPARED 'make'");
is($server->safe_psql("SELECT infer.predict('two', 1)"), '5', 'once committed it answers');
$server->safe_psql("BEGIN; SELECT infer.drop_model('two'); PREPARE TRANSACTION 'drop'");
is($server->safe_psql("SELECT infer.predict('two', 1)"), '5', 'a prepared drop has not happened yet');
is($server->psql_sqlstate("SET lock_timeout = '100ms'; SELECT infer.create_model('three', data => $three)"), '55P03', 'writers wait for it');
$server->safe_psql("ROLLBACK PREPARED 'drop'; BEGIN; SELECT infer.drop_model('two'); PREPARE TRANSACTION 'drop'");
$server->safe_psql("COMMIT PREPARED 'drop'");
is($server->psql_sqlstate("SELECT infer.predict('two', 1)"), '42704', 'and then has');

# ---- one name, many sessions ----

my @sessions = map { $server->background_psql() } 1 .. 8;
$_->send("SELECT infer.create_model('same', data => $three)") for @sessions;
is(join(' ', sort map { $_->wait } @sessions), '1 2 3 4 5 6 7 8', 'sessions that create one name at once make its versions');
is(join('', map { $_->errors } @sessions), '', 'and none of them fails');
$_->send("SELECT infer.drop_model('same')") for @sessions;
$_->wait for @sessions;
is(join(' ', sort map { $_->sqlstate } @sessions), ' 42704' x 7, 'of those that drop it at once one does');

# A model that comes, goes and changes under eight sessions that call it.
$server->safe_psql(q{
	CREATE TABLE stop (now boolean);
	CREATE FUNCTION call_it() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE states text[] := '{}'; s text;
	BEGIN
		LOOP
			BEGIN
				s := infer.predict('moving', 1);
			EXCEPTION WHEN OTHERS THEN
				s := SQLSTATE;
			END;
			IF NOT s = ANY(states) THEN states := states || s; END IF;
			EXIT WHEN EXISTS (SELECT FROM stop);
		END LOOP;
		RETURN array_to_string(states, ' ');
	END $$});
$_->send('SELECT call_it()') for @sessions;
for (1 .. 10)
{
	$server->safe_psql("SELECT infer.create_model('moving', data => $three)");
	$server->safe_psql("SELECT infer.create_model('moving', data => $four); SELECT infer.activate_model('moving', 2)");
	$server->safe_psql("SELECT infer.rename_model('moving', 'moved')");
	$server->safe_psql("BEGIN; SELECT infer.drop_model('moved'); SELECT infer.create_model('moving', data => $four); COMMIT");
	$server->safe_psql("SELECT infer.drop_model('moving')");
}
$server->safe_psql('INSERT INTO stop VALUES (true)');
my %seen = map { $_ => 1 } map { split / /, $_->wait } @sessions;
delete @seen{qw(4 5 42704)};
is_deeply([ sort keys %seen ], [], 'a model that changes while it is called is the old one, the new one, or not there');
$_->quit for @sessions;

# ---- databases ----

my $engine = $server->engine_pid;
$server->safe_psql('ALTER DATABASE infer RENAME TO "In ""fer"', database => 'postgres');
is($server->safe_psql("SELECT infer.predict('m', 1)", database => 'In "fer'), '4', 'a renamed database has its models');
$server->safe_psql('ALTER DATABASE "In ""fer" RENAME TO infer', database => 'postgres');
ok($server->poll_query_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'infer'", 't', database => 'postgres'), 'nobody is connected');
$server->safe_psql('CREATE DATABASE copy TEMPLATE infer', database => 'postgres');
is($server->safe_psql("SELECT infer.predict('m', 1)", database => 'copy'), '4', 'a copy has them, too');
$server->safe_psql("SELECT infer.create_model('m', data => $four); SELECT infer.activate_model('m', 2)", database => 'copy');
is($server->safe_psql("SELECT infer.predict('m', 1)", database => 'copy'), '5', 'as its own');
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'the original has not changed');
$server->safe_psql('DROP DATABASE copy', database => 'postgres');
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'nor when the copy is dropped');
is($server->engine_pid, $engine, 'all in one engine');

# ---- the extension ----

$server->safe_psql('CREATE DATABASE other', database => 'postgres');
sub other { return $server->safe_psql($_[0], database => 'other'); }
sub other_fails { return $server->psql_sqlstate($_[0], database => 'other'); }
other('CREATE SCHEMA "My ""Schema"');
isnt(other_fails('CREATE EXTENSION infer SCHEMA "My ""Schema"'), '', 'a schema with a quote is refused');
other('CREATE SCHEMA "My Schema"; CREATE EXTENSION infer SCHEMA "My Schema"');
other("SELECT infer.create_model('m', data => $three)");
is(other(q{SELECT "My Schema".infer('m', 1), infer.predict('m', 1)}), '4|4', 'infer() is where the extension was created');
is(other_fails('ALTER EXTENSION infer SET SCHEMA public'), '0A000', 'and stays there');
is(other_fails('DROP SCHEMA infer CASCADE'), '2BP01', 'its own schema cannot be dropped');
is(other_fails('DROP EXTENSION infer'), '2BP01', 'nor the extension while there are models');
is(other("BEGIN; DROP EXTENSION infer CASCADE; ROLLBACK; SELECT infer.predict('m', 1)"), '4', 'unless CASCADE is said, which can be taken back');
my $session = $server->background_psql(database => 'other');
is($session->query("SELECT infer.predict('m', 1)"), '4', 'a session has called it');
other('DROP EXTENSION infer CASCADE; CREATE EXTENSION infer');
is($session->query("SELECT infer.predict('m', 1)"), '', 'with the extension made anew');
is($session->sqlstate, '42704', 'there are no models');
is($session->query("SELECT infer.create_model('m', data => $four); SELECT infer.predict('m', 1)"), "1\n5", 'until they are made again');
is(other('SELECT count(*) FROM pg_foreign_server'), '1', 'nothing was left behind');

unlike($server->log, qr/PANIC|TRAP|was terminated by signal|leak/, 'and nothing crashed or leaked');

done_testing();
