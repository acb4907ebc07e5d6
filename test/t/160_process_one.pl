# The postmaster as process 1 of a namespace, as in a container: whatever is orphaned becomes its
# child, and one that ends with another status than 0 or 1 restarts the cluster.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use IPC::Run;
use Test::More;

my @unshare = qw(unshare --user --map-current-user --pid --fork --kill-child --mount-proc);
plan skip_all => 'this user cannot make a namespace of processes: '
  . 'kernel.unprivileged_userns_clone, or a container that forbids it'
  if $> == 0 || system("@unshare true >/dev/null 2>&1") != 0;

my $server = InferServer->start;
my $three = sql_bytes(add_model(3));
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
$server->stop;

my $log = "$server->{dir}/log";
my ($harness, $output);

# script/server cannot stop it: postmaster.pid says 1.  --kill-child takes all of it along.
END
{
	my $status = $?;
	$harness->kill_kill(grace => 0) if $harness && $harness->pumpable;
	$? = $status;
}

# All but the namespace's own view is ours: processes are found by their parents.
sub slurp { open my $handle, '<', $_[0] or return ''; local $/; my $text = <$handle>; return defined $text ? $text : ''; }
sub children
{
	my ($parent) = @_;
	return grep { slurp("/proc/$_/stat") =~ /^\d+ \(.*\) \S $parent /s } map { /(\d+)/ } glob '/proc/[0-9]*';
}
sub title { return join ' ', split /\0/, slurp("/proc/$_[0]/cmdline"); }

sub start
{
	my $errors = $server->write_file('postmaster-errors', '');
	chmod 0666, $errors;
	$harness = IPC::Run::start([ @unshare, $server->program('postgres'), '-D', $server->data_dir,
			'-k', $server->host, '-c', 'logging_collector=off' ], '<', '/dev/null', '>', \$output, '2>>', $log);
	ok($server->poll_query_until("SELECT infer.predict('m', 1)", '4'), 'a server that is process 1 answers');
	return;
}

sub find
{
	my ($unshare) = map { $_->{PID} } @{ $harness->{KIDS} };
	my ($postmaster) = children($unshare);
	my ($supervisor) = grep { title($_) =~ /infer supervisor/ } children($postmaster);
	my ($engine) = grep { title($_) =~ /infer-engine/ } children($supervisor);
	return ($postmaster, $supervisor, $engine);
}

sub restarts { my $count = () = slurp($log) =~ /reinitializing/g; return $count; }
sub gone { my ($pid) = @_; return InferServer::wait_until(sub { !$server->process_is_alive($pid) }); }
sub works { return ok($server->poll_query_until("SELECT infer.predict('m', 1)", '4'), "$_[0]: the next call is answered"); }

start();
my ($postmaster, $supervisor, $engine) = find();
like(slurp("/proc/$postmaster/status"), qr/^NSpid:\s+\d+\s+1$/m, 'the postmaster is process 1');

# ---- the engine ends while the supervisor lives ----

for my $signal (qw(KILL ABRT SEGV))
{
	my $before = restarts();
	(undef, undef, $engine) = find();
	kill $signal, $engine;
	gone($engine);
	works("engine: SIG$signal");
	is(restarts(), $before, "engine: SIG$signal is not a crash of the server");
}

# ---- the supervisor goes first ----

my $before = restarts();
(undef, $supervisor, $engine) = find();
kill 'TERM', $supervisor;
ok(gone($engine), 'supervisor terminated: the engine goes with it');
works('supervisor terminated');
is(restarts(), $before, 'and the server goes on');

(undef, $supervisor, $engine) = find();
kill 'KILL', $supervisor;
ok(gone($engine), 'supervisor killed: the engine ends');
works('supervisor killed');
is(restarts(), $before + 1, "one restart, as PostgreSQL's rules give for each of its processes, and none for the orphan");

# An orphan that is killed while its supervisor is gone: process 1 reaps it, and PostgreSQL takes any child that was
# killed for one of its own.  Whether that falls into the restart for the supervisor or makes one more is chance.
(undef, $supervisor, $engine) = find();
kill 'KILL', $supervisor, $engine;
ok(gone($engine), 'supervisor and engine killed at once');
works('both killed');
cmp_ok(restarts(), '<=', $before + 3, 'at most one restart for each of them');

# ---- shutdown ----

(undef, $supervisor, $engine) = find();
my $end = -s $log;
kill 'INT', $postmaster;
eval { $harness->finish };
ok(gone($engine), 'fast shutdown: the engine is gone');
unlike(substr(slurp($log), $end), qr/was terminated by signal|PANIC|exited with exit code [2-9]/, 'and nothing crashed');

done_testing();
