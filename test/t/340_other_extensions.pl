# Beside other extensions that hook into planner and executor, loaded before and after infer:
# statements are batched, give the same, and the others see what they always see.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my @others = qw(pg_stat_statements auto_explain pg_cron);
my %settings = (
	'auto_explain.log_min_duration' => 0,
	'auto_explain.log_analyze' => 'on',
	'auto_explain.log_nested_statements' => 'on',
	'pg_stat_statements.track' => 'all',
	'pg_stat_statements.track_planning' => 'on',
	'cron.database_name' => 'infer',
);

# Extensions that are not installed are left out, by name.
sub installed
{
	my ($server) = @_;
	my $library = `'@{[ $server->program('pg_config') ]}' --pkglibdir`;

	chomp $library;
	return grep { -f "$library/$_.so" } @others;
}

my $statements = <<'SQL';
UPDATE t SET y = infer.predict('add', x);
SELECT id, y, infer.predict('add', x + 1) FROM t WHERE infer.predict('add', x) > 95 ORDER BY id;
SELECT sum(infer.predict('add', x)) FROM t;
SELECT total();
PREPARE p(real) AS SELECT count(*) FROM t WHERE infer.predict('add', x) > $1;
EXECUTE p(50);
BEGIN;
DECLARE c CURSOR FOR SELECT id, infer.predict('add', x) FROM t ORDER BY id;
FETCH 3 FROM c;
COMMIT;
SELECT infer.predict('add', 4);
WITH n AS (INSERT INTO t SELECT 1000 + id, x FROM t WHERE infer.predict('add', x) < 6 RETURNING id, infer.predict('add', x) p) SELECT * FROM n ORDER BY id;
DELETE FROM t WHERE id > 1000 AND infer.predict('add', x) < 6;
SELECT infer.predict('add', 'x') FROM t;
SQL

# Everything that psql prints, errors included.
sub answers
{
	my ($server) = @_;

	$server->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(3)) . ')');
	$server->safe_psql(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, x real, y double precision);
INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
CREATE FUNCTION total() RETURNS double precision LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT sum(infer.predict('add', x)) AS nested FROM t);
END
$$;
ANALYZE t;
SQL
	my (undef, $out, $err) = $server->psql("\\set ON_ERROR_STOP 0\n$statements");
	$err =~ s/psql:<stdin>:\d+: //g;
	return "$out\n$err";
}

sub explain
{
	my ($server, $statement, $options) = @_;

	return $server->safe_psql("EXPLAIN ($options) $statement");
}

my $alone = InferServer->start;
my @loaded = installed($alone);
my $expected = answers($alone);

like($expected, qr/^99\|102\|103$/m, 'statements give something');
$alone->stop('immediate');

for my $order ([ @loaded, 'infer' ], [ 'infer', @loaded ], [ 'infer', reverse @loaded ])
{
	my $libraries = join ', ', @$order;
	my $server = InferServer->start(%settings, shared_preload_libraries => $libraries);

	$server->safe_psql("CREATE EXTENSION $_") for grep { $_ ne 'auto_explain' } @loaded;
	is(answers($server), $expected, "$libraries: statements give the same");
	like(explain($server, "UPDATE t SET y = infer.predict('add', x)", 'COSTS OFF'),
		qr/Custom Scan \(InferBatch\)\n +Infer: /, '... the node is there');
	like(explain($server, "SELECT infer.predict('add', x) FROM t", 'ANALYZE, COSTS OFF'),
		qr/InferBatch.*Calls: 100 .*Batches: [1-9]/s, '... and computes in batches');
	if (grep { $_ eq 'auto_explain' } @loaded)
	{
		my $log = $server->log;

		like($log, qr/Query Text: UPDATE t SET y = .*?\n\tUpdate on t .*?\n\t  ->  Custom Scan \(InferBatch\) .*?\n\t +Infer: infer\.predict.*?\n\t +Calls: 100 /s,
			'... auto_explain shows it with its counters');
		like($log, qr/Query Text: .*AS nested.*(?:\n\t.*)*?Custom Scan \(InferBatch\)/, '... in nested statements too');
	}
	if (grep { $_ eq 'pg_stat_statements' } @loaded)
	{
		is($server->safe_psql("SELECT calls, plans, rows FROM pg_stat_statements WHERE query LIKE 'UPDATE t SET y%'"), '1|1|100',
			'... pg_stat_statements counts a statement and its rows');
		is($server->safe_psql("SELECT toplevel, calls FROM pg_stat_statements WHERE query LIKE '%nested%' AND query NOT LIKE '%LANGUAGE%' AND query NOT LIKE '%pg_stat%'"), 'f|1',
			'... and one within a function');
	}
	$server->stop('immediate');
}
SKIP:
{
	my %loaded = map { $_ => 1 } @loaded;
	my @missing = grep { !$loaded{$_} } @others;

	skip "not installed: @missing", 1 if @missing;
	pass("all were loaded: @others");
}
done_testing();
