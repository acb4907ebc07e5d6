# What a user sees of the engine at work: infer.activity and who may see whose calls, the
# request log and what is never in it, the busy share, infer.profile of a hostile name.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $three = sql_bytes(add_model(3));

# Each batch takes half a second: long enough to look, and nothing is timed.
my $server = InferServer->start('infer.device' => 'null:delay=500');

sub log_of
{
	open my $handle, '<', $server->dir . '/log' or die "the server's log: $!";
	local $/;
	return scalar <$handle>;
}

$server->safe_psql("SELECT infer.create_model('m', data => $three); SELECT infer.grant_model('m', 'public')");
$server->safe_psql('CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE carol LOGIN IN ROLE pg_monitor; CREATE ROLE dave LOGIN IN ROLE alice');
is($server->safe_psql('SELECT count(*) FROM infer.activity'), '0', 'an idle engine has no activity');

# ---- a call that runs, one that waits ----

my $running = $server->background_psql(user => 'alice');
my $waiting = $server->background_psql(user => 'bob');
$running->query('SET infer.batching = off');
$waiting->query("SET infer.batching = off; SET infer.request_class = 'job'");
my ($running_pid, $waiting_pid) = ($running->backend_pid, $waiting->backend_pid);
$running->send("SELECT count(infer.predict('m', i)) FROM generate_series(1, 1000) i");
ok($server->poll_query_until("SELECT count(*) FROM infer.activity WHERE pid = $running_pid AND state = 'running'", '1'),
	'a call that runs is shown');
$waiting->send("SELECT count(infer.predict('m', i)) FROM generate_series(1, 1000) i");
ok($server->poll_query_until("SELECT count(*) FROM infer.activity WHERE pid = $waiting_pid AND state = 'queued'", '1'),
	'so is one that waits');
ok($server->poll_query_until("SELECT count(*) FROM infer.activity a JOIN pg_stat_activity s USING (pid)
	WHERE pid = $running_pid AND role = 'alice' AND database = current_database() AND model = 'm' AND version = 1
	AND class = 'interactive' AND rows = 1 AND rows_done = 0 AND queue_time >= 0 AND compute_time > 0", '1'),
	'with role, database, model, version, class, rows and times');
ok($server->poll_query_until("SELECT count(*) FROM infer.activity WHERE pid = $waiting_pid AND class = 'job' AND queue_time > 0
	AND compute_time IS NULL", '1'), 'and the other with how long it has waited');

# ---- who sees whose ----

for my $case ([ 'alice', 'alice' ], [ 'bob', 'bob' ], [ 'carol', 'alice bob' ], [ 'dave', 'alice' ])
{
	my ($user, $roles) = @$case;
	my (undef, $out) = (undef, '');

	# both are in flight at most moments: look until they were seen
	ok(InferServer::wait_until(sub {
		(undef, $out) = $server->psql("SELECT string_agg(DISTINCT role, ' ' ORDER BY role) FROM infer.activity", user => $user);
		return $out eq $roles;
	}), "$user sees the calls of $roles") or diag($out);
}
for (1 .. 10)
{
	my (undef, $out) = $server->psql("SELECT count(*) FROM infer.activity WHERE role <> 'bob'", user => 'bob');
	is($out, '0', 'bob never sees another') if $out ne '0' || $_ == 10;
}
$server->safe_psql("SELECT pg_cancel_backend($_)") for $running_pid, $waiting_pid;
$_->wait for $running, $waiting;
ok($server->poll_query_until('SELECT count(*) FROM infer.activity', '0'), 'when they are cancelled there is none again');
is($server->safe_psql('SELECT busy_share > 0 AND busy_share <= 1 FROM infer.devices WHERE in_use'), 't', 'the device was busy for a part of the time');

# ---- the request log ----

$server->restart('infer.device' => 'cpu');
unlike(log_of(), qr/infer engine: request/, 'calls are not logged by default');
is($server->psql_sqlstate('SET infer.log_requests = on'), '55P02', 'nor can a session have it so');
$server->reload('infer.log_requests' => 'on');
$server->poll_query_until('SHOW infer.log_requests', 'on');
ok(InferServer::wait_until(sub {
	$server->safe_psql("SELECT infer.predict('m', 8675309.5)");
	return log_of() =~ /infer engine: request id=/;
}), 'with infer.log_requests they are, after a reload');
my ($line) = log_of() =~ /(infer engine: request id=.*)/;
my ($database, $role, $model) = split /\|/, $server->safe_psql(
	"SELECT d.oid, r.oid, s.oid FROM pg_database d, pg_roles r, pg_foreign_server s
	WHERE d.datname = current_database() AND r.rolname = current_user AND s.srvname = 'm'");
like($line, qr/^infer engine: request id=\d+\.\d+\.\d+ database=$database role=$role model=$model version=1 key=[0-9a-f]{16} class=interactive rows=1 rows_failed=0 tokens=0 input_bytes=\d+ output_bytes=\d+ batches=1 batch_rows=1 prepare_ms=0.000 queue_ms=[\d.]+ compute_ms=[\d.]+ total_ms=[\d.]+ status="ok"$/,
	'with ids, version, sizes, times and status');
$server->psql("SELECT infer.predict('m', 'NaN'::float8)");
ok(InferServer::wait_until(sub { log_of() =~ /request id=.* rows_failed=1 / }), 'a row that fails is told');
unlike(join("\n", grep { /infer engine:/ } split /\n/, log_of()), qr/8675309|8675312|NaN/, 'never a value that went in or came out');
$server->reload('infer.log_requests' => 'off');

# ---- a profile ----

is($server->safe_psql("SELECT count(*) > 0, bool_and(time >= 0), min(device), bool_or(operator = 'Add') FROM infer.profile('m', 1)"),
	't|t|cpu|t', 'a profile has the operators of the model');
is($server->psql_sqlstate("SELECT * FROM infer.profile('m', 1)", user => 'alice'), '', 'whoever may use a model may profile it');
$server->safe_psql("SELECT infer.revoke_model('m', 'public')");
is($server->psql_sqlstate("SELECT * FROM infer.profile('m', 1)", user => 'alice'), '42501', 'others may not');

# ---- what is loaded, until it is unloaded ----

my $mine = "SELECT model, version, state, bytes > 0, loaded_at IS NOT NULL FROM infer.loaded_models";
is($server->safe_psql($mine), 'm|1|loaded|t|t', 'infer.loaded_models has what the engine holds');
is($server->safe_psql($mine, user => 'alice'), '', 'but not what one may not use');
is($server->safe_psql($mine, user => 'carol'), 'm|1|loaded|t|t', 'pg_read_all_stats sees it all the same');
is($server->safe_psql("SELECT model, class FROM infer.stats WHERE calls > 0 ORDER BY class LIMIT 1", user => 'carol'), 'm|interactive', 'its counters too');
$server->safe_psql('CREATE DATABASE elsewhere');
$server->safe_psql('CREATE EXTENSION infer', database => 'elsewhere');
is($server->safe_psql($mine, database => 'elsewhere'), '||loaded|t|t', 'so does a superuser in another database, without its name');
is($server->safe_psql($mine, database => 'elsewhere', user => 'carol'), '||loaded|t|t', 'and pg_read_all_stats');
is($server->safe_psql($mine, database => 'elsewhere', user => 'alice'), '', 'and nobody else');

$server->restart('infer.device' => 'null:delay=500');
$server->safe_psql("SELECT infer.predict('m', 1)");
my $used = $server->safe_psql('SELECT memory_used FROM infer.devices WHERE in_use');
my $calls = $server->safe_psql("SELECT sum(calls) FROM infer.stats");
$server->safe_psql("SELECT infer.grant_model('m', 'alice')");
is($server->psql_sqlstate("SELECT infer.unload_model('m')", user => 'alice'), '42501', 'who may use a model may not unload it');
is($server->psql_sqlstate("SELECT infer.unload_model('nobody')"), '42704', 'nor may anybody what is not there');
is($server->safe_psql("SELECT infer.unload_model(NULL) IS NULL"), 't', 'no name, nothing to do');
my $last = $server->background_psql(user => 'alice');
$last->send("SELECT infer.predict('m', 1)");
ok($server->poll_query_until("SELECT count(*) FROM infer.activity WHERE state = 'running'", '1'), 'a call runs');
$server->safe_psql("SELECT infer.unload_model('m')");
is($last->wait, '4', 'and is answered although the model is unloaded');
is($server->safe_psql($mine), 'm|1|evicted|f|t', 'infer.unload_model: the engine holds it no longer');
cmp_ok($server->safe_psql('SELECT memory_used FROM infer.devices WHERE in_use'), '<', $used, 'and has its memory back');
is($server->safe_psql("SELECT infer.unload_model('m'); SELECT infer.unload_model('m\@1')"), "\n", 'once more does no harm');
is($server->safe_psql("SELECT sum(calls) FROM infer.stats"), $calls + 1, 'what was counted stays');
is($server->safe_psql("SELECT infer.predict('m', 1)", user => 'alice'), '4', 'the next call loads it again');
is($server->safe_psql($mine), 'm|1|loaded|t|t', 'as before');

# ---- counting anew ----

my $since = $server->safe_psql('SELECT since FROM infer.devices WHERE in_use');
is($server->psql_sqlstate('SELECT infer.reset_stats()', user => 'alice'), '42501', 'infer.reset_stats is for superusers');
$server->safe_psql('GRANT EXECUTE ON FUNCTION infer.reset_stats() TO alice');
is($server->psql_sqlstate('SELECT infer.reset_stats()', user => 'alice'), '', 'and whom they let');
is($server->safe_psql("SELECT coalesce(sum(calls), 0), bool_and(busy_time = 0 AND d.since > '$since') FROM infer.devices d LEFT JOIN infer.stats ON true WHERE d.in_use"), '0|t',
	'it counts anew, for the devices too');

done_testing();
