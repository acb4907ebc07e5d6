# InferServer.pm
#	  Private servers for the TAP tests, in the manner of PostgreSQL::Test::Cluster.
#
# Everything goes through script/server, so that there is one way to start a server.
#
#	use lib "$FindBin::RealBin/../perl";
#	use InferServer;
#	use Test::More;
#
#	my $server = InferServer->start('infer.batch_rows' => 64);		# settings
#	is($server->safe_psql('SELECT 1'), '1', 'the server answers');
#	my $session = $server->background_psql();
#	$session->send('SELECT pg_sleep(100)');
#	$server->kill_engine('KILL');
#
# A server lives in a temporary folder and ends with the script, whatever happens to it.
# Waits last at most $InferServer::timeout seconds and then fail; nothing here measures time.
package InferServer;

use strict;
use warnings;

use Carp;
use Cwd qw(realpath);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use IPC::Run;
use Test::More ();
use Time::HiRes qw(sleep time);

# The checkout, and what make builds in it (programs of test/ lie in $build/engine/test/).
our $top = realpath(dirname(__FILE__) . '/../..');
our $build = $ENV{INFER_BUILD} || "$top/build";
our $timeout = $ENV{INFER_TEST_TIMEOUT} || 60;

my @servers;
my $owner = $$;

# A psql that cannot connect ends before it has read what is written to it.
$SIG{PIPE} = 'IGNORE';

# ---- start and stop ----

# start(NAME => VALUE ...): a new server with these settings.
sub start
{
	my ($class, %settings) = @_;

	return $class->start_with([], %settings);
}

# start_with([options of script/server start], NAME => VALUE ...)
sub start_with
{
	my ($class, $options, %settings) = @_;
	my $parent = tempdir('infer-XXXXXX', DIR => $ENV{INFER_TEST_DIR} || '/tmp', CLEANUP => 0);
	my $self = bless { parent => $parent, dir => "$parent/server" }, $class;

	chmod 0755, $parent;
	push @servers, $self;
	my @options = @$options;
	push @options, '--pg', $ENV{INFER_TEST_PG}
	  if $ENV{INFER_TEST_PG} && !grep { $_ eq '--pg' || $_ eq '--standby' } @options;
	$self->_script('start', @options, _set(%settings));
	return $self;
}

# A streaming standby of this server.
sub start_standby
{
	my ($self, %settings) = @_;

	return ref($self)->start_with([ '--standby', $self->{dir} ], %settings);
}

# Start again after stop or a crash; the settings given come on top.
sub start_again
{
	my ($self, %settings) = @_;

	$self->_script('start', _set(%settings));
	return $self;
}

# Start again as the child of a command that runs what follows it, an unshare(1) say.
sub start_within
{
	my ($self, @command) = @_;

	local $self->{within} = [@command];
	return $self->start_again;
}

sub restart
{
	my ($self, %settings) = @_;

	$self->_script('restart', _set(%settings));
	return $self;
}

# stop('fast' | 'immediate' | 'smart')
sub stop
{
	my ($self, $mode) = @_;

	$self->_run_script('stop', $mode || 'fast');
	return $self;
}

# Change settings that need no restart.
sub reload
{
	my ($self, %settings) = @_;

	$self->safe_psql(join '', map { "ALTER SYSTEM SET $_ = '$settings{$_}';\n" } sort keys %settings)
	  if %settings;
	$self->safe_psql('SELECT pg_reload_conf()');
	return $self;
}

sub dir { return $_[0]->{dir} }
sub data_dir { return "$_[0]->{dir}/data" }
sub bin_dir { return $_[0]->{bindir} }
sub host { return $_[0]->{host} }

# Environment for programs that speak libpq.
sub environment
{
	my ($self) = @_;

	return (PGHOST => $self->{host}, PGPORT => 5432, PGUSER => 'postgres', PGDATABASE => 'infer');
}

# A program of this server, say $server->program('pg_dump').
sub program
{
	my ($self, $name) = @_;

	return "$self->{bindir}/$name";
}

sub _set
{
	my %settings = @_;

	return map { ('--set', "$_=$settings{$_}") } sort keys %settings;
}

sub _run_script
{
	my ($self, $command, @arguments) = @_;
	my ($out, $err) = ('', '');

	local $ENV{PGHOST};
	IPC::Run::run([ @{ $self->{within} || [] }, "$top/script/server", $command, $self->{dir}, @arguments ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	my $status = $?;
	Test::More::note($err) if $err ne '';
	croak "script/server $command failed:\n$err" if $status;
	return $out;
}

sub _script
{
	my ($self, $command, @arguments) = @_;
	my $out = $self->_run_script($command, @arguments);

	croak "script/server said: $out" unless $out =~ /^export PGHOST=(\S+) /;
	$self->{host} = $1;
	$self->{bindir} = $1 if _slurp("$self->{dir}/server.conf") =~ /^bindir=(.*)$/m;
	return;
}

# ---- SQL ----

# psql(SQL, [user =>, database =>, options => [], variables => {}]) → (status, out, err)
sub psql
{
	my ($self, $sql, %options) = @_;
	my ($out, $err) = ('', '');
	my %environment = $self->environment;

	$environment{PGUSER} = $options{user} if $options{user};
	$environment{PGDATABASE} = $options{database} if $options{database};
	local @ENV{ keys %environment } = values %environment;
	my @variables = map { ('-v', "$_=$options{variables}{$_}") } sort keys %{ $options{variables} || {} };
	IPC::Run::run([ $self->program('psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
			@variables, @{ $options{options} || [] }, '-f', '-' ],
		'<', \$sql, '>', \$out, '2>', \$err);
	my $status = $? >> 8;
	chomp $out;
	chomp $err;
	return wantarray ? ($status, $out, $err) : $status;
}

# The answer of SQL that must succeed.
sub safe_psql
{
	my ($self, $sql, %options) = @_;
	my ($status, $out, $err) = $self->psql($sql, %options);

	croak "psql failed with status $status: $err\nwhile running: $sql" if $status;
	return $out;
}

# The SQLSTATE that SQL fails with; empty if it succeeds.
sub psql_sqlstate
{
	my ($self, $sql, %options) = @_;
	my ($status, undef, $err) = $self->psql($sql, %options);

	return '' unless $status;
	return $err =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}):/ ? $1 : "status $status: $err";
}

# Ask until the answer is EXPECTED ("t"); false if it never is.
sub poll_query_until
{
	my ($self, $sql, $expected, %options) = @_;
	my ($out, $err);

	$expected = 't' unless defined $expected;
	return 1 if wait_until(sub {
		(undef, $out, $err) = $self->psql($sql, %options);
		return defined $out && $out eq $expected;
	});
	Test::More::diag("waited in vain for \"$expected\" from: $sql\nlast answer: $out\nlast error: $err");
	return 0;
}

# wait_until(sub { condition }): call it until it is true; false after the timeout.
sub wait_until
{
	my ($condition) = @_;
	my $end = time + $timeout;

	while (1)
	{
		return 1 if $condition->();
		return 0 if time > $end;
		sleep 0.02;
	}
}

# pgbench(SCRIPT, ARGUMENTS ...) → (status, out, err)
sub pgbench
{
	my ($self, $script, @arguments) = @_;
	my ($out, $err) = ('', '');
	my %environment = $self->environment;
	my $file = $self->write_file("pgbench-" . ++$self->{files} . ".sql", $script);

	local @ENV{ keys %environment } = values %environment;
	IPC::Run::run([ $self->program('pgbench'), '-n', '-f', $file, @arguments ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

# The same, in the background: ->finish gives (status, out, err).
sub background_pgbench
{
	my ($self, $script, @arguments) = @_;
	my ($out, $err) = ('', '');
	my %environment = $self->environment;
	my $file = $self->write_file("pgbench-" . ++$self->{files} . ".sql", $script);

	local @ENV{ keys %environment } = values %environment;
	my $harness = IPC::Run::start([ $self->program('pgbench'), '-n', '-f', $file, @arguments ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	return bless { harness => $harness, out => \$out, err => \$err }, 'InferServer::Program';
}

# A file that this server's user can read.
sub write_file
{
	my ($self, $name, $text) = @_;
	my $file = "$self->{parent}/$name";

	open my $handle, '>:raw', $file or croak "$file: $!";
	print $handle $text or croak "$file: $!";
	close $handle or croak "$file: $!";
	chmod 0644, $file;
	return $file;
}

# An interactive psql session.
sub background_psql
{
	my ($self, %options) = @_;

	return InferServer::Session->open($self, %options);
}

# ---- processes ----

sub postmaster_pid
{
	my ($self) = @_;

	return (split /\n/, _slurp($self->data_dir . '/postmaster.pid') || '')[0];
}

# Wait until a killed postmaster is gone.  It may stay as a zombie where nobody reaps it (process 1 of a
# container that does not); PostgreSQL would take that for a running server.
sub bury_postmaster
{
	my ($self, $pid) = @_;

	wait_until(sub { !$self->process_is_alive($pid) }) or croak "the postmaster $pid does not end";
	unlink $self->data_dir . '/postmaster.pid', $self->host . '/.s.PGSQL.5432.lock' if -e "/proc/$pid";
	return;
}

sub postmaster_start_time
{
	my ($self) = @_;

	return $self->safe_psql('SELECT pg_postmaster_start_time()');
}

# All engines that belong to this server: their working directory is its data directory, or
# their ancestor its postmaster.
sub engine_pids
{
	my ($self) = @_;
	my $data = realpath($self->data_dir) || '';
	my $postmaster = $self->postmaster_pid || 0;
	my @pids;

	for my $comm (glob '/proc/[0-9]*/comm')
	{
		next unless (_slurp($comm) || '') =~ /^infer-engine/;
		my ($pid) = $comm =~ m{/proc/(\d+)/};
		my ($state) = _stat($pid);
		next if !defined $state || $state eq 'Z';
		my $cwd = readlink("/proc/$pid/cwd") || '';
		push @pids, $pid if $cwd =~ /^\Q$data\E(\/|$)/ || _descends($pid, $postmaster);
	}
	return sort { $a <=> $b } @pids;
}

# The engine that runs, after waiting for it; dies if there is none or more than one for long.
sub engine_pid
{
	my ($self) = @_;
	my @pids;

	wait_until(sub { @pids = $self->engine_pids; return @pids == 1; })
	  or croak "expected one engine, found " . scalar(@pids) . ":\n" . $self->log_tail;
	return $pids[0];
}

# The supervisor is the engine's parent.
sub supervisor_pid
{
	my ($self) = @_;

	return (_stat($self->engine_pid))[1];
}

# kill_engine('KILL'): send it and return the process id it went to.
sub kill_engine
{
	my ($self, $signal) = @_;
	my $pid = $self->engine_pid;

	kill $signal || 'KILL', $pid or croak "kill $pid: $!";
	return $pid;
}

# Wait until another engine than OLD runs; its process id.
sub wait_for_new_engine
{
	my ($self, $old) = @_;
	my @pids;

	wait_until(sub { @pids = $self->engine_pids; return @pids == 1 && $pids[0] != $old; })
	  or croak "no new engine after $old:\n" . $self->log_tail;
	return $pids[0];
}

sub process_is_alive
{
	my ($self, $pid) = @_;
	my ($state) = _stat($pid);

	return defined $state && $state ne 'Z';
}

# Open descriptors, resident memory (kB), and private memory (kB) of a process.
sub process_descriptors { my ($self, $pid) = @_; return scalar(() = glob "/proc/$pid/fd/*"); }
sub process_rss { my ($self, $pid) = @_; return (_slurp("/proc/$pid/status") || '') =~ /^VmRSS:\s+(\d+)/m ? $1 : 0; }

sub _stat
{
	my ($pid) = @_;
	my $stat = _slurp("/proc/$pid/stat");

	return unless defined $stat && $stat =~ /^\d+ \(.*\) (\S) (\d+)/s;
	return ($1, $2);
}

sub _descends
{
	my ($pid, $ancestor) = @_;

	while ($pid && $pid > 1)
	{
		return 1 if $pid == $ancestor;
		(undef, $pid) = _stat($pid);
	}
	return 0;
}

# ---- log ----

sub log
{
	my ($self) = @_;
	my $log = _slurp("$self->{dir}/log");

	return defined $log ? $log : '';
}

sub log_size { return -s "$_[0]->{dir}/log" || 0; }

sub log_tail
{
	my ($self) = @_;
	my @lines = split /\n/, $self->log;

	splice @lines, 0, -30 if @lines > 30;
	return join "\n", @lines;
}

# Wait until the log, from OFFSET on, matches.
sub wait_for_log
{
	my ($self, $pattern, $offset) = @_;

	return 1 if wait_until(sub { return substr($self->log, $offset || 0) =~ $pattern; });
	Test::More::diag("the log never said $pattern:\n" . $self->log_tail);
	return 0;
}

sub _slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or return;
	local $/;
	my $text = <$handle>;
	close $handle;
	return $text;
}

# ---- the end ----

END
{
	if ($$ == $owner)
	{
		my $status = $?;
		for my $server (reverse @servers)
		{
			# An engine that outlived its server would be a failure of a test, never a left-over.
			my @engines = $server->engine_pids;
			eval { $server->stop('immediate') };
			kill 'KILL', grep { $server->process_is_alive($_) } @engines;
			if ($status && !$ENV{INFER_TEST_QUIET})
			{
				Test::More::diag("log of $server->{dir}:\n" . $server->log_tail);
			}
			if ($ENV{INFER_TEST_KEEP})
			{
				Test::More::diag("kept: $server->{parent}");
			}
			else
			{
				system 'rm', '-rf', $server->{parent};
			}
		}
		$? = $status;
	}
}

# A program in the background.
package InferServer::Program;

sub finish
{
	my ($self) = @_;

	$self->{harness}->finish;
	return ($self->{harness}->full_result(0) >> 8, ${ $self->{out} }, ${ $self->{err} });
}

sub kill
{
	my ($self, $signal) = @_;

	$self->{harness}->signal($signal || 'KILL');
	return;
}

# A psql session that stays open.  query() sends SQL and returns what it printed; send() only
# sends, and wait() collects later; what went to standard error lies in ->errors.
package InferServer::Session;

use Carp;

sub open
{
	my ($class, $server, %options) = @_;
	my $self = bless { server => $server, in => '', out => '', err => '', marks => 0 }, $class;
	my %environment = $server->environment;

	$environment{PGUSER} = $options{user} if $options{user};
	$environment{PGDATABASE} = $options{database} if $options{database};
	local @ENV{ keys %environment } = values %environment;
	$self->{harness} = IPC::Run::start(
		[ $server->program('psql'), '-XqAt', '-v', 'VERBOSITY=verbose',
			'-v', 'ON_ERROR_STOP=' . ($options{on_error_stop} ? 1 : 0), '-f', '-' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

sub backend_pid { return $_[0]->{pid}; }

# The process of psql itself: kill it to be a client that vanishes.
sub client_pid { return $_[0]->{harness}{KIDS}[0]{PID}; }

sub send
{
	my ($self, $sql) = @_;

	$self->{mark} = 'mark-' . ++$self->{marks};
	$self->{out} = '';
	$self->{err} = '';
	$sql =~ s/;?\s*$/;/ unless $sql =~ /^\s*\\/;
	$self->{in} .= "$sql\n\\echo $self->{mark}\n\\warn $self->{mark}\n";
	$self->pump;
	return $self;
}

# Move what can be moved; true while psql lives.
sub pump
{
	my ($self) = @_;

	return eval { $self->{harness}->pump_nb; 1 } || 0;
}

sub is_done
{
	my ($self) = @_;

	$self->pump;
	return $self->{out} =~ /^\Q$self->{mark}\E$/m && $self->{err} =~ /\Q$self->{mark}\E\n/;
}

# What the last send() printed, once it has ended.
sub wait
{
	my ($self) = @_;

	my $done = InferServer::wait_until(sub { return $self->is_done || !$self->pump; });
	croak "a session did not answer in time: $self->{err}" unless $done;
	my $out = $self->{out};
	$out =~ s/^\Q$self->{mark}\E\n.*//ms;
	$self->{err} =~ s/\Q$self->{mark}\E\n.*//s;
	chomp $out;
	return $out;
}

sub query
{
	my ($self, $sql) = @_;

	return $self->send($sql)->wait;
}

sub errors { my ($self) = @_; my $err = $self->{err}; chomp $err; return $err; }

sub sqlstate { my ($self) = @_; return $self->{err} =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}):/ ? $1 : ''; }

sub quit
{
	my ($self) = @_;

	eval { $self->{in} .= "\\q\n"; $self->{harness}->finish; 1 } or eval { $self->{harness}->kill_kill };
	return;
}

1;
