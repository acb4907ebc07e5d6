# script/server: the one way in which demo, tests and benchmarks start a server.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Temp qw(tempdir);
use InferServer;
use IPC::Run;
use Test::More;

my $script = "$InferServer::top/script/server";
my $parent = tempdir('infer-XXXXXX', DIR => '/tmp', CLEANUP => 1);
chmod 0755, $parent;
my @pg = $ENV{INFER_TEST_PG} ? ('--pg', $ENV{INFER_TEST_PG}) : ();
delete @ENV{ grep { /^PG/ } keys %ENV };

# run(ARGUMENTS) → (status, standard output, standard error)
sub run
{
	my ($out, $err) = ('', '');

	IPC::Run::run([ $script, @_ ], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

sub query
{
	my ($dir, $sql) = @_;
	my (undef, $out) = run('psql', $dir, '-qAt', '-c', $sql);

	chomp $out;
	return $out;
}

# Standard output is for eval, and nothing but.
my $dir = "$parent/one";
my ($status, $out, $err) = run('start', $dir, @pg, '--set', 'max_connections=33', '--set=infer.spin_time=7');
is($status, 0, 'starts') or diag $err;
is($out, "export PGHOST=$dir PGPORT=5432 PGUSER=postgres PGDATABASE=infer\n", 'prints the connection and nothing else');
is((run('env', $dir))[1], $out, 'prints it again');
is(query($dir, q{SELECT extname FROM pg_extension WHERE extname = 'infer'}), 'infer', 'the extension is there');
is(query($dir, 'SHOW max_connections'), '33', 'a setting');
is(query($dir, 'SHOW infer.spin_time'), '7', 'a setting of the extension');
is(query($dir, 'SHOW listen_addresses'), '', 'no network');
is(query($dir, 'SELECT infer.predict($$nothing$$, 1)'), '', 'psql reports its own errors');

# The server is the caller's, and outlives nothing.
my $postmaster = (split /\n/, do { local (@ARGV, $/) = "$dir/data/postmaster.pid"; <> })[0];
is((stat "/proc/$postmaster")[4], $>, 'runs as the user who called') if $>;
isnt((run('start', $dir))[0], 0, 'a running server is not started twice');
($status, $out) = run('restart', $dir, '--set', 'max_connections=44');
is($status, 0, 'restarts');
is(query($dir, 'SHOW max_connections'), '44', 'with a new setting');
is(query($dir, 'SHOW infer.spin_time'), '7', 'and the old ones');
is((run('stop', $dir))[0], 0, 'stops');
is((run('stop', $dir))[0], 0, 'stops what is stopped');
is((run('start', $dir))[0], 0, 'starts again');
is(query($dir, 'SHOW max_connections'), '44', 'as it was');
is((run('stop', $dir, 'immediate'))[0], 0, 'stops at once');
ok(!InferServer->process_is_alive($postmaster), 'and is gone');

# A socket's path has at most 107 bytes.
my $deep = "$parent/" . join('/', ('deep' x 10) x 3);
($status, $out, $err) = run('start', $deep, @pg, '--bare');
is($status, 0, 'starts in a deep folder') or diag $err;
is(query($deep, 'SELECT 1'), '1', 'and answers');
is((run('stop', $deep))[0], 0, 'and stops');

# What is not a server's folder stays as it is.
my $mine = "$parent/mine";
mkdir $mine;
open my $file, '>', "$mine/precious" or die;
close $file;
($status, $out, $err) = run('start', $mine, @pg);
isnt($status, 0, 'a folder that holds something else is refused');
like($err, qr/is not empty and holds no server/, 'with the reason');
is($out, '', 'and nothing to eval');
is((run('psql', "$parent/none"))[0], 1, 'no server, no psql');
is((run('start', "$parent/bad", @pg, '--bare', '--set', 'nonsense'))[0], 1, 'a setting without a value is refused');

done_testing;
