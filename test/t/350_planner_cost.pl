# What our planner hook costs a statement that calls no model, in instructions as callgrind counts
# them: less than a hundredth of what the planner itself takes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use IPC::Run;
use Test::More;

my ($valgrind) = grep { -x } map { "$_/valgrind" } split /:/, $ENV{PATH};
plan skip_all => 'valgrind is not installed' unless $valgrind;

my $server = InferServer->start;

$server->safe_psql(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, x real, s text);
CREATE TABLE u (id int PRIMARY KEY, z real);
INSERT INTO t SELECT i, i, 's' || i FROM generate_series(1, 100) i;
INSERT INTO u SELECT i, i FROM generate_series(1, 100) i;
CREATE FUNCTION stranger(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
ANALYZE t, u;
SQL
$server->stop('fast');

# One backend without a postmaster; (of the hook with all that it calls, of the planner)
sub instructions
{
	my (@statements) = @_;
	my $folder = $server->dir;
	my $script = join '', map { "$_;\n" } @statements;
	my ($said, $table) = ('', '');

	unlink "$folder/callgrind.out";
	IPC::Run::run([ $valgrind, '--tool=callgrind', "--callgrind-out-file=$folder/callgrind.out",
			$server->program('postgres'), '--single', '-D', $server->data_dir, 'infer' ],
		'<', \$script, '>&', \$said);
	IPC::Run::run([ 'callgrind_annotate', '--inclusive=yes', '--auto=no', '--threshold=100', "$folder/callgrind.out" ],
		'>', \$table, '2>', \$said) or die "callgrind_annotate: $said";

	my ($hook) = $table =~ /^ *([\d,]+) .*:plan_with_batches\b/m or die "the hook was not called: $said";
	my ($planner) = $table =~ /^ *([\d,]+) .*:standard_planner\b/m or die "standard_planner is not in the table";
	tr/,//d for $hook, $planner;
	return ($hook, $planner);
}

sub is_cheap
{
	my ($what, @statements) = @_;
	my ($hook, $planner) = instructions(@statements);
	my $percent = 100 * ($hook - $planner) / $planner;

	cmp_ok($percent, '<', 1, sprintf '%s: %.0f instructions of the hook, %.0f of the planner, for each statement: %.2f %%',
		$what, ($hook - $planner) / @statements, $planner / @statements, $percent);
}

is_cheap('the smallest statement', ('SELECT 1') x 50);
is_cheap('statements of one table', ('SELECT id FROM t WHERE id = 5', 'UPDATE t SET x = x + 1 WHERE id = 7',
	'INSERT INTO u SELECT 1000 + id, x FROM t WHERE id < 3', 'DELETE FROM u WHERE id > 1000') x 10);
is_cheap('joins and aggregates', ('SELECT count(*) FROM t JOIN u USING (id) WHERE t.x > 3 GROUP BY s ORDER BY s',
	'WITH a AS MATERIALIZED (SELECT * FROM t) SELECT * FROM a WHERE id IN (SELECT id FROM u) LIMIT 5') x 10);
is_cheap('functions of others', ('SELECT stranger(id) FROM t WHERE id = 3') x 20);
done_testing();
