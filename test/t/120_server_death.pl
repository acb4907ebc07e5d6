# Server and engine end and begin together, whoever is killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('wal_level' => 'replica', 'wal_log_hints' => 'on');
my $three = sql_bytes(add_model(3));
$server->safe_psql("SELECT infer.create_model('m', data => $three)");

sub engines { my @pids = $server->engine_pids; return scalar @pids; }

sub works
{
	my ($what) = @_;
	ok($server->poll_query_until("SELECT infer.predict('m', 1)", '4'), "$what: the next call is answered");
	is(engines(), 1, "$what: there is one engine");
}

sub gone
{
	my ($what, $pid) = @_;
	ok(InferServer::wait_until(sub { !$server->process_is_alive($pid) }), "$what: the engine is gone");
}

sub restarts { my $count = () = $server->log =~ /reinitializing/g; return $count; }
works('at the start');

# ---- shutdowns ----

for my $mode (qw(fast immediate smart))
{
	my $engine = $server->engine_pid;
	$server->stop($mode);
	ok(!$server->process_is_alive($engine), "$mode shutdown: the engine is gone when the server is");
	$server->start_again;
	works("$mode shutdown");
}
unlike($server->log, qr/was terminated by signal|PANIC|crash of another/, 'shutdowns are not crashes');

# Under a call that hangs, too.
my $engine = $server->engine_pid;
kill 'STOP', $engine;
$server->stop('fast');
ok(!$server->process_is_alive($engine), 'a stopped engine does not hold up the shutdown');
$server->start_again;
works('stopped engine');

# ---- the supervisor ends ----

my $before = restarts();
$engine = $server->engine_pid;
my $supervisor = $server->supervisor_pid;
kill 'TERM', $supervisor;
gone('supervisor terminated', $engine);
works('supervisor terminated');
isnt($server->supervisor_pid, $supervisor, 'there is another supervisor');
is(restarts(), $before, 'and the server went on');

$engine = $server->engine_pid;
kill 'KILL', $server->supervisor_pid;
gone('supervisor killed', $engine);
ok($server->poll_query_until("SELECT infer.predict('m', 1)", '4'), 'supervisor killed: the next call is answered');
is(restarts(), $before + 1, 'the server restarted once, as PostgreSQL does for each of its processes');
works('supervisor killed');

$engine = $server->engine_pid;
$before = restarts();
kill 'ABRT', $server->supervisor_pid;
gone('supervisor aborted', $engine);
ok(InferServer::wait_until(sub { restarts() == $before + 1 }), 'supervisor aborted: the server restarts');
like($server->log, qr/infer supervisor.*was terminated by signal 6/, 'and is told the signal, with which there is a core');
works('supervisor aborted');

# An engine that does not end by itself when its supervisor is killed.
$engine = $server->engine_pid;
$supervisor = $server->supervisor_pid;
kill 'STOP', $engine;
kill 'KILL', $supervisor;
gone('left-over engine', $engine);
works('left-over engine');
like($server->log, qr/killing an engine left over from before, process $engine/, 'it was killed by the next supervisor');

# A folder that cannot be made.
$server->stop;
system 'rm', '-rf', $server->data_dir . '/pg_infer';
open my $file, '>', $server->data_dir . '/pg_infer' or die "pg_infer: $!";
close $file;
$server->start_again;
my (undef, undef, $error) = $server->psql("SELECT infer.predict('m', 1)");
like($error, qr/IF001: the inference engine cannot be started.*pg_infer" exists but is not a directory.*HINT/s,
	'without its folder a call fails at once and says why');
unlink $server->data_dir . '/pg_infer';
ok($server->poll_query_until("SELECT infer.predict('m', 1)", '4'), 'once it can be made the next call is answered');

# ---- a backend is killed ----

my $session = $server->background_psql();
is($session->query("SELECT infer.predict('m', 1)"), '4', 'a session has a connection');
$engine = $server->engine_pid;
$before = restarts();
kill 'KILL', $session->backend_pid;
ok(InferServer::wait_until(sub { restarts() == $before + 1 }), 'backend killed: the server restarts');
gone('backend killed', $engine);
works('backend killed');

# ---- the postmaster is killed ----

$engine = $server->engine_pid;
my $postmaster = $server->postmaster_pid;
kill 'KILL', $postmaster;
gone('postmaster killed', $engine);
$server->bury_postmaster($postmaster);
$server->start_again;
works('postmaster killed');

# At once, with an engine that is slow to go.
$engine = $server->engine_pid;
$supervisor = $server->supervisor_pid;
kill 'STOP', $engine;
$postmaster = $server->postmaster_pid;
kill 'KILL', $postmaster, $supervisor;
$server->bury_postmaster($postmaster);
$server->start_again;
works('server started at once');
ok(!$server->process_is_alive($engine), 'the old engine is gone');

# ---- a standby ----

my $standby = $server->start_standby();
ok($standby->poll_query_until("SELECT infer.predict('m', 1)", '4'), 'a standby answers');
is($standby->safe_psql('SELECT pg_is_in_recovery()'), 't', 'in recovery');
isnt($standby->engine_pid, $server->engine_pid, 'with an engine of its own');
my $old = $standby->kill_engine('KILL');
$standby->wait_for_new_engine($old);
is($standby->safe_psql("SELECT infer.predict('m', 2)"), '5', 'which is replaced like any other');
my @copied = glob $standby->data_dir . '/pg_infer/*';
is_deeply([ map { s{.*/}{}r } @copied ], ['pgsql_tmp'], 'nothing but our folder is there');

# ---- tools that read the data directory ----

# A switchover: the old primary is rewound onto the new one.
$server->safe_psql('CHECKPOINT');
is($standby->safe_psql('SELECT pg_promote()'), 't', 'the standby is promoted');
$standby->safe_psql('CREATE TABLE after_promotion (a int); CHECKPOINT');
$server->stop;
system($server->program('pg_checksums'), '--enable', '-D', $server->data_dir, '--no-sync') == 0 or diag('pg_checksums failed');
is($?, 0, 'pg_checksums passes our files by');
system($server->program('pg_checksums'), '--disable', '-D', $server->data_dir, '--no-sync');
system($server->program('pg_rewind'), '-D', $server->data_dir, '--no-sync',
	'--source-server', 'host=' . $standby->host . ' port=5432 user=postgres dbname=postgres');
is($?, 0, 'so does pg_rewind');
$standby->stop;

# ---- binary upgrade ----

my $log = $server->log_size;
my $data = $server->data_dir;
my $pg_ctl = $server->program('pg_ctl');
system("$pg_ctl -D $data -l $server->{dir}/log -w -o '-b -k $server->{host}' start >/dev/null") == 0
  or BAIL_OUT('the server does not start in binary upgrade mode');
is($server->safe_psql('SELECT 1'), '1', 'a server in binary upgrade mode answers');
is(engines(), 0, 'and runs no engine');
unlike(substr($server->log, $log), qr/infer supervisor/, 'nor a supervisor');
system("$pg_ctl -D $data -m fast -w stop >/dev/null");

done_testing();
