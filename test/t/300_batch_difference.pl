# What a statement gives is the same with batching and without: rows, their order, errors and
# side effects of each query of test/batch/queries.txt, under several settings of the planner.
# Without: infer.batching is off when the statement is planned, so that its plan has no node of ours.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use IPC::Run;
use Test::More;

my $batch = "$InferServer::top/test/batch";
my $server = InferServer->start('infer.cpu_threads' => 1, max_worker_processes => 16);
my $version = $server->safe_psql("SELECT current_setting('server_version_num')::int / 10000");

# ---- the queries ----

my @queries;
open my $list, '<', "$batch/queries.txt" or die "queries.txt: $!";
while (my $line = <$list>)
{
	chomp $line;
	next if $line =~ /^(#|$)/;
	my ($from, $name, $sql) = $line =~ /^(?:\[(\d+)\] )?(.+?)\|(.*)$/ or die "malformed: $line";
	push @queries, [ $name, $sql ] unless $from && $from > $version;
}
cmp_ok(scalar @queries, '>=', 150, 'there are queries enough');

# ---- running them ----

# Everything that psql prints, by query.
sub answers
{
	my (%settings) = @_;
	my %environment = $server->environment;
	my $script = "SET extra_float_digits = 0;\n" . join '', map { "\\echo ==== $_->[0]\n$_->[1];\n\\echo\nRESET ROLE;\n" } @queries;
	my ($out, %answers, $name);

	local @ENV{ keys %environment } = values %environment;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$settings{$_}" } sort keys %settings;
	IPC::Run::run([ $server->program('psql'), '-XqAt', '-f', '-' ], '<', \$script, '>&', \$out);
	for my $line (split /\n/, $out)
	{
		if ($line =~ /^==== (.*)/) { $name = $1; $answers{$name} = []; }
		elsif (defined $name && $line ne '')
		{
			$line =~ s/^psql:<stdin>:\d+: //;
			push @{ $answers{$name} }, $line;
		}
	}
	return \%answers;
}

# ---- the settings ----

my @planners = (
	[ 'as it comes' ],
	[ 'nested loops', enable_hashjoin => 'off', enable_mergejoin => 'off' ],
	[ 'hash joins', enable_nestloop => 'off', enable_mergejoin => 'off', enable_indexscan => 'off' ],
	[ 'merge joins', enable_nestloop => 'off', enable_hashjoin => 'off' ],
	[ 'sorted aggregates', enable_hashagg => 'off', enable_bitmapscan => 'off' ],
	[ 'hashed aggregates', enable_sort => 'off', enable_incremental_sort => 'off' ],
	[ 'without materialising', enable_material => 'off', enable_memoize => 'off', enable_seqscan => 'off' ],
	[ 'partitionwise', enable_partitionwise_join => 'on', enable_partitionwise_aggregate => 'on', 'infer.statement_batch_rows' => 3 ],
	[ 'JIT', jit => 'on', jit_above_cost => 0, jit_inline_above_cost => 0, jit_optimize_above_cost => 0 ],
	[ 'parallel', parallel_setup_cost => 0, parallel_tuple_cost => 0, min_parallel_table_scan_size => 0,
		min_parallel_index_scan_size => 0, max_parallel_workers_per_gather => 2 ],
	[ 'generic plans, little memory', plan_cache_mode => 'force_generic_plan', work_mem => '64kB' ],
);
# Parallel workers give rows in no order: then the set is compared, or how many where a LIMIT takes any.
my %unordered = (parallel => 1);
my %any_rows = map { $_ => 1 } 'limit', 'limit offset', 'where limit', 'limit of volatile', 'cursor scroll where', 'cursor backward by default';

$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";
my $texts = join '', map { "\\set model $_\n\\i $InferServer::top/test/fixtures/text.psql\n" } qw(bert_e5 bert_classify bert_cross bert_entities);
$server->safe_psql("\\i $InferServer::top/test/fixtures/values.psql\n$texts\\i $batch/setup.sql\n", options => [ '-o', '/dev/null' ]);

# Nor is it told who meets an error first, and so with which row.
sub unordered
{
	my @lines = grep { $_ ne 'CONTEXT:  parallel worker' } @_;

	s/\d+/N/g for grep { /^ERROR:/ } @lines;
	return sort @lines;
}

for my $planner (@planners)
{
	my ($title, %settings) = @$planner;
	my $expected = answers(%settings, 'infer.batching' => 'off');
	my $sent = $server->safe_psql("SELECT coalesce(sum(batches), 0) FROM infer.stats WHERE class = 'statement'");
	my $got = answers(%settings, 'infer.batching' => 'on');

	cmp_ok($server->safe_psql("SELECT sum(batches) FROM infer.stats WHERE class = 'statement'"), '>', $sent, "$title: rows were sent together");
	for my $query (@queries)
	{
		my $name = $query->[0];
		my @expected = @{ $expected->{$name} || ['nothing'] };
		my @got = @{ $got->{$name} || ['nothing'] };

		if ($unordered{$title}) { @expected = unordered(@expected); @got = unordered(@got); }
		if ($unordered{$title} && $any_rows{$name}) { @expected = scalar @expected; @got = scalar @got; }
		is(join("\n", @got), join("\n", @expected), "$title: $name");
	}
}

done_testing();
