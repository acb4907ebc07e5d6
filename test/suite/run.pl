# run.pl: PostgreSQL's own tests with InferBatch in nearly every plan.
#
#	perl -Itest/perl test/suite/run.pl [--all] [--compare] [--runs off,on,small] [--set NAME=VALUE ...]
#		[--unordered] [regress/join ...]
#
# Without --all a part of them.  --compare runs nothing: it looks again at what came last time.
# --set is for the servers of all runs: force_parallel_mode=regress, say.
# --unordered compares the set of lines of each test: rows of parallel workers come as they come.
#
# Nouns
#	suite			PostgreSQL's regress or isolation tests, of the source package
#	run				a suite on a server of its own, with settings: "off" is without the node, in
#					the others infer.debug_batch_all sends every function that is not volatile
#					through it
#	difference		lines that a test of a run prints and "off" does not, or the other way; what
#					EXPLAIN shows is left out
#	explanation		a line of explained.txt: why a difference is none of ours to mend
#
# "again" is "off" once more: what differs there would differ by itself.  No run is compared with the expected files: those are of another minor version, another locale
# and another order of tests than ours.  A difference without an explanation fails, and, in a
# run of everything, an explanation without its difference.
#
# What script/test has prepared, as the user of the servers finds it:
#	INFER_SUITE_SOURCE	PostgreSQL's src/test, with regress.so in regress/
#	INFER_SUITE_OUT		a folder for what comes out
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use Getopt::Long;
use InferServer;
use IPC::Run;
use Test::More;

my $source = $ENV{INFER_SUITE_SOURCE} or die "INFER_SUITE_SOURCE is not set: use script/test suite";
my $out = $ENV{INFER_SUITE_OUT} or die "INFER_SUITE_OUT is not set: use script/test suite";
my ($all, $compare, $unordered, $runs, %set) = (0, 0, 0, 'off,on,small');

GetOptions('all' => \$all, 'compare' => \$compare, 'unordered' => \$unordered, 'runs=s' => \$runs, 'set=s' => \%set) or exit 2;
my @runs = split /,/, $runs;
my %only = map { $_ => 1 } @ARGV;

my @common = (max_prepared_transactions => 5, autovacuum => 'off', max_worker_processes => 16,
	client_min_messages => 'notice', log_statement => 'none', 'infer.batching' => 'on');
my %settings = (
	off => [],
	again => [],
	on => [ 'infer.debug_batch_all' => 'on' ],
	small => [ 'infer.debug_batch_all' => 'on', 'infer.statement_batch_rows' => 3 ],
);

# What the node is most likely to get wrong, and what these tests need.
my %part = (
	regress => [ qw(test_setup create_index create_misc select select_distinct select_having select_into case join
		  aggregates groupingsets window subselect union arrays rowtypes rangefuncs limit returning with
		  updatable_views rowsecurity plpgsql portals merge update inherit partition_join tsrf triggers
		  prepare plancache insert_conflict domain generated) ],
	isolation => [ qw(eval-plan-qual eval-plan-qual-trigger merge-update merge-match-recheck merge-join insert-conflict-do-update-2
		  lock-update-traversal nowait skip-locked partition-key-update-1 update-conflict-out) ],
);

# ---- running ----

sub schedule
{
	my ($suite) = @_;

	return "$source/$suite/" . ($suite eq 'regress' ? 'parallel_schedule' : 'isolation_schedule');
}

sub names
{
	my ($suite) = @_;
	my (@names, $file);

	return @{ $part{$suite} } unless $all || %only;
	open $file, '<', schedule($suite) or die schedule($suite) . ": $!";
	while (my $line = <$file>)
	{
		push @names, split ' ', $1 if $line =~ /^(?:test|ignore): *(.*)/;
	}
	return @names unless %only;
	@names = grep { $only{"$suite/$_"} } @names;
	unshift @names, 'test_setup' if $suite eq 'regress' && @names;
	return @names;
}

# One after another: which test leaves what behind must not depend on luck.
sub command
{
	my ($suite, $server, $folder, @names) = @_;
	my $program = $suite eq 'regress' ? 'regress/pg_regress' : 'isolation/pg_isolation_regress';

	return [ "$ENV{INFER_SUITE_PROGRAMS}/$program", "--inputdir=$source/$suite", "--outputdir=$folder", "--dlpath=$source/regress",
		'--bindir=' . $server->bin_dir, '--host=' . $server->host, '--port=5432', '--user=postgres', '--max-connections=1',
		'--dbname=regression', @names ];
}

sub begin
{
	my ($suite, $run, @names) = @_;
	my $server = InferServer->start(@common, %set, @{ $settings{$run} or die "no run \"$run\"" });
	my $folder = "$out/$suite-$run";
	my $text = '';

	mkdir $folder or die "$folder: $!";
	local $ENV{TMPDIR} = '/tmp';
	my $harness = IPC::Run::start(command($suite, $server, $folder, @names), '<', '/dev/null', '>&', \$text);
	return { suite => $suite, run => $run, server => $server, folder => $folder, harness => $harness, text => \$text };
}

sub finish
{
	my ($job) = @_;

	$job->{harness}->finish;
	my $log = $job->{server}->log;
	my @crashes = grep { /terminated by signal|PANIC|TRAP:/ } split /\n/, $log;

	is(join("\n", @crashes), '', "$job->{suite}, $job->{run}: no process crashed");
	open my $file, '>', "$job->{folder}/server.log" or die $!;
	print $file $log;
	open $file, '>', "$job->{folder}/program.log" or die $!;
	print $file ${ $job->{text} };
	$job->{server}->stop('immediate');
}

# As many at a time as there are cores.
sub run_all
{
	my @waiting = @_;
	my @running;
	my $cores = `nproc` || 1;

	while (@waiting || @running)
	{
		push @running, begin(@{ shift @waiting }) while @waiting && @running < $cores;
		finish(shift @running);
	}
}

# ---- comparing ----

# The lines that a test printed, without what EXPLAIN shows and where this run's files lie.
sub result
{
	my ($suite, $run, $name) = @_;
	my $folder = "$out/$suite-$run";
	my @lines;

	open my $file, '<', "$folder/results/$name.out" or return;
	while (my $line = <$file>)
	{
		$line =~ s/\Q$folder\E/(folder)/g;
		if ($line =~ /^ *(QUERY PLAN|explain_\w+) *$/)
		{
			# header, a line of dashes, rows, "(3 rows)"
			while (defined($line = <$file>)) { last if $line =~ /^\(\d+ rows?\)$/; }
			$line = "(plan)\n";
		}
		push @lines, $line;
	}
	return $unordered ? [ sort @lines ] : \@lines;
}

sub write_lines
{
	my ($path, $lines) = @_;

	open my $file, '>', $path or die "$path: $!";
	print $file @$lines;
	return $path;
}

# The hunks of a diff without context, each a list of lines.
sub differences
{
	my ($suite, $run, $name) = @_;
	my ($before, $after) = map { result($suite, $_, $name) } $runs[0], $run;
	my @hunks;

	return ["it did not run\n"] if !$before || !$after;
	my @lines = split /^/, `diff -U0 @{[ write_lines("$out/before", $before) ]} @{[ write_lines("$out/after", $after) ]}`;
	for my $line (@lines[ 2 .. $#lines ])	# after the names of the files
	{
		if ($line =~ /^@@/) { push @hunks, [$line]; }
		else { push @{ $hunks[-1] }, $line; }
	}
	return @hunks;
}

# suite/test | pattern for each line of a hunk | reason.  "?" before it: may be missing.
sub read_explanations
{
	my @explanations;

	open my $file, '<', "$FindBin::RealBin/explained.txt" or die "explained.txt: $!";
	while (my $line = <$file>)
	{
		next if $line =~ /^(#|\s*$)/;
		chomp $line;
		my ($test, $pattern, $reason) = split / *\t+\| */, $line, 3;
		defined $reason or die "malformed: $line";
		my $may = $test =~ s/^\?//;
		push @explanations, { test => $test, pattern => qr/$pattern/, reason => $reason, may => $may, used => 0 };
	}
	return @explanations;
}

my @explanations = read_explanations();

sub is_explained
{
	my ($test, $hunk) = @_;
	my @lines = grep { !/^@@/ } @$hunk;

	for my $explanation (grep { $_->{test} eq $test } @explanations)
	{
		next if grep { !/$explanation->{pattern}/ } @lines;
		$explanation->{used}++;
		return 1;
	}
	return 0;
}

sub compare
{
	my ($suite, $run, $name) = @_;
	my @hunks = differences($suite, $run, $name);
	my @unexplained = grep { !is_explained("$suite/$name", $_) } @hunks;

	is(scalar @unexplained, 0, "$suite/$name, $run: no difference" . (@hunks ? ' that is not explained' : ''))
	  or diag(join '', map { @$_ } @unexplained > 20 ? @unexplained[ 0 .. 19 ] : @unexplained);
}

# ---- all of it ----

my %names = map { $_ => [ names($_) ] } qw(regress isolation);
my @suites = grep { @{ $names{$_} } } qw(regress isolation);
my @jobs;
for my $suite (@suites) { push @jobs, [ $suite, $_, @{ $names{$suite} } ] for @runs; }
run_all(@jobs) unless $compare;

for my $suite (@suites)
{
	for my $run (@runs[ 1 .. $#runs ])
	{
		compare($suite, $run, $_) for @{ $names{$suite} };
		next if $run eq 'again' || $suite ne 'regress';
		my $seen = `cat $out/$suite-$run/results/*.out | grep -c 'Custom Scan (InferBatch)'`;
		cmp_ok($seen, '>', 10, "$suite, $run: the node is in the plans");
	}
}
if ($all && !%only)
{
	is(join("\n", map { "$_->{test}: $_->{pattern}" } grep { !$_->{used} && !$_->{may} } @explanations), '',
		'every explanation has its difference');
}
done_testing();
