# The engine as a child process: what it inherits, its settings, its log, its restart.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

# Longer than the 107 bytes of a socket's path: the engine's is relative.
my $long = InferServer::tempdir('infer-long-XXXXXX', DIR => '/tmp', CLEANUP => 1) . '/' . 'long' x 30;
mkdir $long or die "$long: $!";
$ENV{INFER_TEST_DIR} = $long;

my $server = InferServer->start('infer.batch_rows' => 64, log_min_messages => 'debug1');
my $three = sql_bytes(add_model(3));
my $engine = $server->engine_pid;

sub proc
{
	my ($pid, $file) = @_;
	open my $handle, '<', "/proc/$pid/$file" or return '';
	local $/;
	return scalar <$handle>;
}

sub call { return $server->safe_psql("SELECT infer.predict('m', 1)"); }
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
is(call(), '4', 'a model answers');

# ---- what it inherits ----

my %open;
for my $link (glob "/proc/$engine/fd/*")
{
	my ($fd) = $link =~ /(\d+)$/;
	my $target = readlink $link;
	$open{$fd} = $target if defined $target;
}
my @files = grep { m{^/} && !m{/pg_infer/pgsql_tmp/} && !m{^/dev/} && !m{^/memfd:infer} } values %open;
is_deeply(\@files, [], 'no file of the server is open in the engine');
my @foreign = grep { !m{^(/|pipe:|socket:|anon_inode:)} } values %open;
is_deeply(\@foreign, [], 'nor anything of another kind');
is($open{0}, '/dev/null', 'standard input is empty');
like($open{1}, qr/^pipe:/, 'standard output is the log pipe');
is($open{1}, $open{2}, 'and standard error too');
is((grep { $_ =~ /^pipe:/ && $_ ne $open{1} } values %open), 1, 'one other pipe: the control pipe');

# Every socket is the engine's own: none of the server's or the sessions' clients.
my $supervisor = $server->supervisor_pid;
my %server_sockets = map { $_ => 1 } grep { defined && /^socket:/ }
  map { readlink } glob('/proc/' . $server->postmaster_pid . '/fd/*'), glob("/proc/$supervisor/fd/*");
is((grep { $server_sockets{$_} } values %open), 0, 'no socket is shared with the server');

my $status = proc($engine, 'status');
like($status, qr/^SigBlk:\s+0+$/m, 'no signal is blocked');
my ($ignored) = $status =~ /^SigIgn:\s+([0-9a-f]+)$/m;
is(hex($ignored) & (1 << 14 | 1 << 1 | 1 << 2 | 1 << 16 | 1 << 10), 0, 'TERM, INT, QUIT, CHLD and SEGV are not ignored');
like(proc($engine, 'limits'), qr/^Max core file size\s+[01]\s/m, 'no core is dumped');
is(readlink("/proc/$engine/cwd"), readlink('/proc/' . $server->postmaster_pid . '/cwd'), 'it works in the data directory');

sub process_group { my ($pid) = @_; return (split ' ', (proc($pid, 'stat') =~ s/.*\) //r))[2]; }
is(process_group($engine), process_group($supervisor), "it is in the supervisor's process group");

# What the supervisor itself opens is not inherited by anything else that it might start.
my @inheritable;
for my $info (glob "/proc/$supervisor/fdinfo/*")
{
	my ($fd) = $info =~ /(\d+)$/;
	next if $fd <= 2;
	my $text = proc($supervisor, "fdinfo/$fd");
	push @inheritable, $fd if $text =~ /^flags:\s+(\d+)/m && !(oct($1) & 02000000);
}
is_deeply(\@inheritable, [], 'all of the supervisor\'s descriptors are close-on-exec');

my $mode = (stat $server->data_dir . '/pg_infer/pgsql_tmp')[2] & 07777;
is($mode, 0700, 'the folder is for the server\'s user alone');
$mode = (stat $server->data_dir . '/pg_infer/pgsql_tmp/engine.sock')[2] & 07777;
is($mode & 077, 0, 'so is the socket');

# ---- how it ends ----

for my $signal (qw(TERM INT QUIT ABRT))
{
	my $offset = $server->log_size;
	my $old = $server->kill_engine($signal);
	ok($server->wait_for_log(qr/infer: the engine ended with status [01]$/m, $offset), "SIG$signal: it ends with status 0 or 1");
	# A process that has only just been started has no handlers yet.
	$server->wait_for_log(qr/infer engine: version \S+ serves on/, $offset);
	$server->wait_for_new_engine($old);
}
$engine = $server->engine_pid;

# ---- settings and log ----

sub command_line { return join ' ', split /\0/, proc($server->engine_pid, 'cmdline'); }
like(command_line(), qr/--setting batch_rows=64/, 'settings are on the command line');
my $offset = $server->log_size;
$server->reload('infer.batch_rows' => 32);
ok($server->wait_for_log(qr/infer engine: took the setting batch_rows=32/, $offset), 'a reload reaches the engine');
is($server->engine_pid, $engine, 'which goes on');
is(call(), '4', 'and answers');

is($server->psql_sqlstate('SET infer.nonsense = 1'), '42602', 'unknown settings are refused');
like($server->log, qr/infer supervisor.*infer engine: version/, "the engine's log is in the server's");

# ---- restart ----

my $session = $server->background_psql();
is($session->query("SELECT infer.predict('m', 1)"), '4', 'a session is connected');
$server->safe_psql('SELECT infer.restart_engine()');
my $second = $server->wait_for_new_engine($engine);
isnt($second, $engine, 'infer.restart_engine gives a new process');
ok(!$server->process_is_alive($engine), 'the old one has gone');
is($session->query("SELECT infer.predict('m', 1)"), '4', 'the session does not notice');
like(command_line(), qr/--setting batch_rows=32/, 'the new one is told the settings of now');
$server->safe_psql('CREATE ROLE nobody LOGIN');
is($server->psql_sqlstate('SELECT infer.restart_engine()', user => 'nobody'), '42501', 'only superusers may');
$server->safe_psql('GRANT EXECUTE ON FUNCTION infer.restart_engine() TO nobody');
is($server->psql_sqlstate('SELECT infer.restart_engine()', user => 'nobody'), '42501', 'whatever is granted');

is($server->safe_psql("SELECT string_agg(backend_type, ',') FROM pg_stat_activity WHERE backend_type LIKE 'infer%' AND datname IS NULL"),
	'infer job launcher', 'the launcher is connected to no database');
is($server->safe_psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'infer%' AND datname IS NOT NULL"), '0',
	'nor is the supervisor');
$server->safe_psql('CREATE DATABASE other');
is($server->psql_sqlstate('DROP DATABASE other'), '', 'so a database can be dropped');

# ---- a server without an engine's program ----

# In a copy of the server's programs, since those are shared by all servers of this checkout.
my $usr = $server->bin_dir =~ s{(/usr)/.*}{$1}r;
my $private = InferServer::tempdir('infer-copy-XXXXXX', DIR => '/tmp', CLEANUP => 1);
my $log = "$private/log";
SKIP:
{
	skip 'the programs lie in no folder of their own', 18 unless $usr =~ m{/usr$} && $usr ne '/usr';
	system('cp', '-r', $usr, "$private/usr") == 0 or die;
	my $bin = "$private/usr" . substr($server->bin_dir, length $usr);
	my $data = "$private/data";
	my $start = "$bin/pg_ctl -D $data -l $log -w -o \"-k $private -h '' -c shared_preload_libraries=infer\" start >/dev/null";
	my $psql = "$bin/psql -XqAt -v VERBOSITY=verbose -h $private -U postgres -d postgres";

	unlink "$bin/infer-engine" or die;
	system("$bin/initdb -D $data -A trust -N -U postgres >$private/initdb.log 2>&1") == 0 or die;
	system($start) == 0 or die;
	ok(InferServer::wait_until(sub { return slurp($log) =~ /could not run ".*infer-engine": No such file/; }),
		'a missing program is named in the log');
	system("$psql -c 'CREATE EXTENSION infer' >/dev/null 2>&1");
	my $out = `$psql -c "SELECT infer.reset_stats()" 2>&1`;
	like($out, qr/ERROR:  IF001: the inference engine cannot be started/, 'a call fails at once');
	like($out, qr/DETAIL:  The supervisor says: could not run ".*infer-engine"/, 'and says why');
	is(`$psql -c 'SELECT 1'`, "1\n", 'the server is well');
	system('cp', $server->program('infer-engine'), "$bin/infer-engine");
	`$psql -c 'SELECT infer.restart_engine()' 2>&1`;
	is(`$psql -c 'SELECT infer.reset_stats()' 2>&1`, "\n", 'once the program is there, infer.restart_engine starts it');

	# An engine of another version, as after an upgrade without a restart.
	my $binary = slurp("$bin/infer-engine");
	my ($version) = slurp("$InferServer::top/infer.control") =~ /default_version = '(.*)'/;
	(my $other = $version) =~ tr/0-9/1-90/;
	$binary =~ s/\Q$version\E/$other/g;
	replace("$bin/infer-engine", $binary);
	`$psql -c 'SELECT infer.restart_engine()' 2>&1`;
	$out = `$psql -c 'SELECT infer.reset_stats()' 2>&1`;
	like($out, qr/ERROR:  IF001: the library infer and its engine are of different versions/, 'another version is refused');
	like($out, qr/HINT:  Restart the server/, 'with what to do');

	# A program that says strange things, and much, and never becomes ready.
	replace("$bin/infer-engine", <<'END');
#!/usr/bin/perl
print "WARNING: a warning\n", "ERROR: an error\n", "no level\n", "LOG: long ", 'x' x 5000, "\n";
print "LOG: bell \a tab \t escape \e[31m bad \xff utf8 \xc3\xa9\n", "LOG: not ended";
exit 3;
END
	my $from = -s $log;
	`$psql -c 'SELECT infer.restart_engine()' 2>&1`;
	ok(InferServer::wait_until(sub { return substr(slurp($log), $from) =~ /(ended with status 3.*){3}/s; }),
		'an engine that does not become ready is started again');
	my $said = substr slurp($log), $from;
	like($said, qr/WARNING:  infer engine: a warning$/m, 'a warning is a warning');
	like($said, qr/LOG:  infer engine: an error$/m, 'an error of the engine is no error of the supervisor');
	like($said, qr/LOG:  infer engine: no level$/m, 'a line without a level is logged');
	like($said, qr/LOG:  infer engine: long x{1000,1020}$/m, 'a long line is cut');
	like($said, qr/LOG:  infer engine: bell \? tab   escape \?\[31m bad \? utf8 \?\?$/m, 'what is no text becomes question marks');
	like($said, qr/LOG:  infer engine: not ended$/m, 'the last line is not lost');
	$out = `$psql -c 'SELECT infer.reset_stats()' 2>&1`;
	like($out, qr/IF001.*\nDETAIL:  The supervisor says: it ended \d+ times before it was ready, the last time with status 3/,
		'calls are told without waiting');

	# A program that floods the log and ignores everything.
	replace("$bin/infer-engine", <<'END');
#!/usr/bin/perl
$SIG{TERM} = $SIG{INT} = $SIG{QUIT} = 'IGNORE';
syswrite STDOUT, "DEBUG: flood\n" x 1000 while 1;
END
	`$psql -c 'SELECT infer.restart_engine()' 2>&1`;
	is(`$psql -c 'SELECT 1'`, "1\n", 'a flood of log lines disturbs nobody');
	system("$bin/pg_ctl -D $data -m fast -w stop >/dev/null");
	is($?, 0, 'and the server can be stopped');
	unlike(slurp($log), qr/PANIC|was terminated by signal.*\n.*terminating any other/, 'nothing crashed');
}

# In place of a program that may be running.
sub replace
{
	my ($name, $text) = @_;

	unlink $name;
	open my $handle, '>:raw', $name or die "$name: $!";
	print $handle $text;
	close $handle;
	chmod 0755, $name;
	return;
}

sub slurp
{
	open my $handle, '<', $_[0] or return '';
	binmode $handle;
	local $/;
	return scalar <$handle>;
}

done_testing();
