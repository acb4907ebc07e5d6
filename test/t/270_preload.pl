# infer.preload: models are there before anybody calls them, after each start of the engine and
# on a standby; what is wrong with the list stops neither the server nor the other models.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $three = sql_bytes(add_model(3));
my $four = sql_bytes(add_model(4));
my $nine = sql_bytes(add_model(9));
my $five = sql_bytes(add_model(5));
my $eight = sql_bytes(add_model(8));		# no other model has its bytes: engines know models by them alone

# engine_timeout: engines are stopped here and must not be replaced for it.
my $server = InferServer->start('infer.engine_timeout' => '1h');

sub loaded
{
	my ($server, %options) = @_;
	return $server->safe_psql("SELECT string_agg(model || '\@' || version, ' ' ORDER BY model, version)
		FROM infer.loaded_models WHERE state = 'loaded'", %options);
}

sub becomes_loaded
{
	my ($server, $expected, $name, %options) = @_;
	ok($server->poll_query_until("SELECT string_agg(model || '\@' || version, ' ' ORDER BY model, version)
		FROM infer.loaded_models WHERE state = 'loaded'", $expected, %options), $name);
	return;
}

sub worker { my ($server) = @_; return $server->safe_psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'infer preload'"); }
sub no_worker { my ($server) = @_; return $server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'infer preload'", '0'); }

# ---- the bad entries ----

for my $case (
	[ 'infer', 'a dot between database and model is missing' ],
	[ 'infer.a infer.b', 'a comma is missing' ],
	[ 'infer.a,', 'a name is missing' ],
	[ ',infer.a', 'a name is missing' ],
	[ 'infer.', 'a name is missing' ],
	[ 'infer.""', 'a name is missing' ],
	[ '.a', 'a name is missing' ],
	[ 'infer.a.b', 'something follows the model' ],
	[ 'infer.a@', 'a version is no number above 0' ],
	[ 'infer.a@0', 'a version is no number above 0' ],
	[ 'infer.a@x', 'a version is no number above 0' ],
	[ 'infer.a@2147483648', 'a version is no number above 0' ],
	[ 'infer.a@1x', 'something follows the model' ],
	[ 'infer."a', 'a name in double quotes does not end' ],
	[ 'infer."a"b', 'something follows the model' ],
	[ 'infer.' . 'a' x 64, 'a name is too long' ])
{
	my ($list, $problem) = @$case;
	my (undef, undef, $err) = $server->psql("ALTER SYSTEM SET infer.preload = '$list'");
	like($err, qr/22023.*DETAIL:  In entry \d, \Q$problem\E\..*HINT:  Write database\.model/s, "\"$list\" is refused");
}
is($server->psql_sqlstate("SET infer.preload = 'infer.a'"), '55P02', 'a session cannot set it');
my $size = $server->log_size;
$server->restart('infer.preload' => 'infer.one, infer');
like(substr($server->log, $size), qr/invalid value for parameter "infer\.preload".*DETAIL:  In entry 2, a dot/s,
	'a bad list of postgresql.conf is told at the server\'s start');
is($server->safe_psql('SHOW infer.preload'), '', 'and not used');

# ---- loaded before the first call ----

$server->safe_psql(qq{
	SELECT infer.create_model('one', data => $three), infer.create_model('one', data => $four);
	SELECT infer.create_model('other', data => $five);
	SELECT infer.create_model('Dot.ted "quoted", spaced', data => $four)});
$server->safe_psql(q{CREATE DATABASE "Odd. ""data@base"});
my %odd = (database => 'Odd. "data@base');
$server->safe_psql(qq{CREATE SCHEMA elsewhere; CREATE EXTENSION infer SCHEMA elsewhere;
	SELECT infer.create_model('Upper', data => $eight)}, %odd);
$server->safe_psql('CREATE DATABASE bare; CREATE DATABASE closed ALLOW_CONNECTIONS false');

my $list = join ', ', 'INFER.one@2', 'nowhere.model', 'bare.model', 'infer.missing', 'infer.one@7', 'closed.model',
  'infer."Dot.ted ""quoted"", spaced"', '"Odd. ""data@base"."Upper"';
$size = $server->log_size;
$server->restart('infer.preload' => $list);
is($server->safe_psql('SHOW infer.preload'), $list, 'the list is taken');
becomes_loaded($server, 'Dot.ted "quoted", spaced@1 one@2', 'what is listed is loaded before any call, by its odd name too');
becomes_loaded($server, 'Upper@1', 'also in a database of an odd name, with the extension in another schema', %odd);
is($server->safe_psql('SELECT sum(calls) IS NULL FROM infer.stats'), 't', 'and nobody has called');

ok($server->wait_for_log(qr/infer: preloaded 2 of 4 models of database "infer"/, $size), 'the log tells what was loaded');
like(substr($server->log, $size), qr/WARNING:  infer: could not preload model "$_->[0]" of database "$_->[1]"\n.*DETAIL:  .*$_->[2].*\n.*HINT:  /, "$_->[0] is a warning")
  for [ 'missing', 'infer', 'model "missing" does not exist' ], [ 'one\@7', 'infer', 'has no version 7' ],
  [ 'model', 'bare', 'extension "infer" is not installed in database "bare"' ];
like(substr($server->log, $size), qr/WARNING:  infer: could not preload models of database "$_->[0]"\n.*DETAIL:  .*$_->[1].*\n.*HINT:  /, "database $_->[0] is a warning")
  for [ 'nowhere', 'database "nowhere" does not exist' ], [ 'closed', 'not currently accepting connections' ];
unlike(substr($server->log, $size), qr/FATAL/, 'and none more than that');
ok(no_worker($server), 'no worker stays');
is($server->safe_psql("SELECT infer.predict('one\@2', 1)"), '5', 'a call finds it loaded');

# ---- after each start of the engine ----

$size = $server->log_size;
$server->wait_for_new_engine($server->kill_engine('KILL'));
becomes_loaded($server, 'Dot.ted "quoted", spaced@1 one@2', 'loaded again after the engine was killed');
becomes_loaded($server, 'Upper@1', 'in each database', %odd);
$server->safe_psql('SELECT infer.restart_engine()');
becomes_loaded($server, 'Dot.ted "quoted", spaced@1 one@2', 'and after infer.restart_engine');
ok(no_worker($server), 'no worker stays');
$server->stop;
system 'rm', '-rf', $server->data_dir . '/pg_infer';
$server->start_again;
becomes_loaded($server, 'Dot.ted "quoted", spaced@1 one@2', 'the worker writes the files that are not in the cache');

# ---- what it is seen as; nobody waits long for it ----

# A worker that waits for the engine: resolved names, and an engine that is stopped.
sub held_worker
{
	my ($database) = @_;
	ok(no_worker($server), 'no worker runs yet');
	my $locker = $server->background_psql(database => $database);
	$locker->query('BEGIN; LOCK TABLE infer.model_version IN ACCESS EXCLUSIVE MODE');
	my $engine = $server->wait_for_new_engine($server->kill_engine('KILL'));
	ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'infer preload' AND wait_event_type = 'Lock'", '1'),
		'a worker waits for a lock');
	kill 'STOP', $engine;
	$locker->query('ROLLBACK');
	$locker->quit;
	ok($server->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'infer preload' AND wait_event_type = 'Extension'", '1'),
		'and then for the engine');
	return $engine;
}

my $engine = held_worker('infer');
is($server->safe_psql("SELECT datname, application_name, query, state, xact_start IS NULL, backend_xmin IS NULL FROM pg_stat_activity WHERE backend_type = 'infer preload'"),
	'infer|infer preload|preloading model "one@2"|active|t|t', 'pg_stat_activity tells what it is; it holds no transaction meanwhile');
like(InferServer::_slurp('/proc/' . worker($server) . '/cmdline'), qr/infer preload infer/, 'so does its title');
is($server->safe_psql('SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = \'infer preload\''), 't', 'it can be terminated');
kill 'CONT', $engine;
becomes_loaded($server, 'Upper@1', 'which stops no other database', %odd);
ok(no_worker($server), 'and it does not come back');

$size = $server->log_size;
$server->safe_psql('CREATE DATABASE doomed');
$server->safe_psql("CREATE EXTENSION infer; SELECT infer.create_model('short', data => $nine)", database => 'doomed');
$server->restart('infer.preload' => 'doomed.short, infer.other');
becomes_loaded($server, 'other@1', 'another list after a restart');
$engine = held_worker('doomed');
$server->safe_psql('DROP DATABASE doomed');
pass('DROP DATABASE does not wait for an engine that loads');
kill 'CONT', $engine;
ok($server->wait_for_log(qr/LOG:  infer: could not preload model "short" of database "doomed"\n.*wanted by another session.*\n.*It is tried again/, $size), 'the worker has left');
ok($server->wait_for_log(qr/WARNING:  infer: could not preload models of database "doomed"\n.*does not exist/, $size), 'and found it gone later');
becomes_loaded($server, 'other@1', 'the others are loaded');

# ---- a standby ----

my $standby = $server->start_standby();
becomes_loaded($standby, 'other@1', 'a standby loads them as well');
$standby->wait_for_new_engine($standby->kill_engine('KILL'));
becomes_loaded($standby, 'other@1', 'also after a new start of its engine');
ok(no_worker($standby), 'no worker is left there');
my $locker = $server->background_psql();
$locker->query('BEGIN; LOCK TABLE infer.model_version IN ACCESS EXCLUSIVE MODE; SELECT pg_current_xact_id(), pg_switch_wal()');
ok($standby->poll_query_until("SELECT count(*) > 0 FROM pg_locks WHERE relation = 'infer.model_version'::regclass AND mode = 'AccessExclusiveLock'"),
	'a lock of the primary has reached the standby');
$standby->wait_for_new_engine($standby->kill_engine('KILL'));
ok($standby->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'infer preload' AND wait_event_type = 'Lock'", '1'), 'a worker waits there');
is($standby->safe_psql('SELECT pg_promote()'), 't', 'the standby is promoted meanwhile');
becomes_loaded($standby, 'other@1', 'and the worker does its work');
$standby->stop;
$locker->quit;

# ---- models that do not load ----

my $wide = sql_bytes(wide_add_model(3, 'n'));
$server->safe_psql(qq(SELECT infer.create_model('$_->[0]', data => $wide, options => '{"dims": {"n": $_->[1]}}')))
  for [ 'crashes', 6 ], [ 'fails', 7 ];
$size = $server->log_size;
$server->restart('infer.device' => 'null:crash_load=6,fail_load=7', 'infer.preload' => 'infer.fails, infer.crashes, infer.other');
ok($server->wait_for_log(qr/WARNING:  infer: could not preload model "fails" of .*\n.*DETAIL:  the null device failed on demand.*\n.*HINT:  Load it with/, $size),
	'a model that does not load is a warning');
ok($server->wait_for_log(qr/WARNING:  infer: could not preload model "crashes" of .*\n.*DETAIL:  the inference engine ended while it loaded the model/, $size),
	'so is one that ends the engine');
ok($server->wait_for_log(qr/WARNING:  infer: could not preload model "crashes" of .*\n.*DETAIL:  it has ended the engine before.*\n.*HINT:  .*infer\.load_model/, $size),
	'which is not tried again by the engine after that');
becomes_loaded($server, 'other@1', 'and the others are loaded');
is(scalar(my @deaths = substr($server->log, $size) =~ /terminated by signal 11/g), 2, 'after two engines');
is($server->psql_sqlstate("SELECT infer.load_model('crashes')"), 'IF001', 'infer.load_model tries it again');
$server->restart('infer.device' => 'auto');

# ---- no slot for a worker ----

$size = $server->log_size;
$server->restart('max_worker_processes' => 1, 'max_logical_replication_workers' => 0, 'infer.preload' => 'infer.other');
ok($server->wait_for_log(qr/WARNING:  infer: models of database "infer" are not preloaded yet\n.*No background worker slot is free.*\n.*HINT:  Raise max_worker_processes/, $size),
	'want of a worker slot is told');
is($server->safe_psql("SELECT infer.predict('other', 1)"), '6', 'and calls are served');

done_testing();
