# Costs follow what calls took: as all sessions measured it, not as the engine predicted; and what
# calls cost does not have expressions compiled.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start();
my @models = map { "m$_" } 0 .. 2;
$server->safe_psql(join '', map { "SELECT infer.create_model('m$_', data => " . sql_bytes(add_model($_)) . ");\n" } 0 .. 2);
$server->safe_psql("CREATE TABLE t AS SELECT i::real AS x FROM generate_series(1, 2000) i; ANALYZE t");

sub cost
{
	my ($call, $settings) = @_;
	my $plan = $server->safe_psql(($settings || '') . "EXPLAIN SELECT $call FROM t");

	return $plan =~ /cost=[\d.]+\.\.([\d.]+)/ ? $1 : die "no cost: $plan";
}

sub order		# of the conditions on m1 and m2, written in that order
{
	my ($settings) = @_;
	my $plan = $server->safe_psql(($settings || '') . "EXPLAIN (COSTS OFF) SELECT FROM t WHERE infer.predict('m1', x) > 0 AND infer.predict('m2', x) > 0");

	return join ' ', ($plan =~ /Filter: (.*)/)[0] =~ /'(m\d)'/g;
}

# ---- predicted, then measured ----

my $one_by_one = 'SET infer.batching = off;';
my $predicted = cost("infer.predict('m1', x)");
is(cost("infer.predict('m2', x)"), $predicted, 'models of one kind and size are predicted to cost the same');
is(order(), 'm1 m2', 'so their conditions stay in the order of the text');

# each batch takes 50 ms more; what the engine knows of the device is not asked while planning
$server->restart('infer.device' => 'null:delay=50');
is(cost("infer.predict('m1', x)"), $predicted, 'another device is not known from the catalogue');
$server->safe_psql("SELECT infer.predict('m1', x) FROM t LIMIT 1") for 1 .. 4;
cmp_ok(cost("infer.predict('m1', x)", $one_by_one), '>', 1000 * $predicted, 'a row by itself costs what other sessions measured');
cmp_ok(cost("infer.predict('m1', x)"), '>', 100 * $predicted, 'rows together cost some part of that at least');
is(order(), 'm2 m1', 'the dearer condition comes second');
is(order($one_by_one), 'm2 m1', 'one by one as well');
my $guessed = cost("infer.predict('m1', x)");
$server->safe_psql("SELECT sum(infer.predict('m1', x)) FROM t") for 1 .. 4;
cmp_ok(cost("infer.predict('m1', x)"), '<', $guessed / 5, 'rows together cost less once they were measured');
my ($batches) = $server->safe_psql("EXPLAIN (ANALYZE, COSTS OFF) SELECT sum(infer.predict('m1', x)) FROM t") =~ /Batches: (\d+)/;
cmp_ok($batches, '<', 20, 'a time that all rows of a request share does not make requests smaller');
is(cost("infer.predict('m0', x)"), $predicted, 'another model costs what it did');
is($server->safe_psql("SELECT infer.create_model('twin', data => " . sql_bytes(add_model(1)) . ")"), 1, 'the same files again');
is(cost("infer.predict('twin', x)"), cost("infer.predict('m1', x)"), 'are the same model to the costs');

# ---- without an engine ----

$server->safe_psql("ALTER SYSTEM SET infer.engine_timeout = '10min'; SELECT pg_reload_conf()");
ok($server->poll_query_until('SHOW infer.engine_timeout', '10min'), 'nobody minds an engine that stands still');
my $engine = $server->kill_engine('STOP');
my $known = cost("infer.predict('m1', x)", "SET statement_timeout = '20s';");
cmp_ok($known, '>', $predicted, 'costs are known without the engine');
like($server->safe_psql("SET statement_timeout = '20s'; EXPLAIN SELECT infer.predict('m1', x) FROM t"), qr/InferBatch/, 'and plans are as with it');
kill 'CONT', $engine;

# ---- JIT ----

SKIP:
{
	skip 'this server has no JIT', 2 unless $server->safe_psql('SELECT pg_jit_available()') eq 't';
	my $jit = 'SET jit = on; SET jit_above_cost = 1000; SET jit_inline_above_cost = 1000; SET jit_optimize_above_cost = 1000;';
	my $query = "SELECT infer.predict('m1', x), infer.predict('no such model', x) FROM t WHERE infer.predict('m2', x) > 0";

	cmp_ok(cost("infer.predict('m1', x)"), '>', 1000, 'a statement whose calls cost much');
	unlike($server->safe_psql("$jit EXPLAIN $query"), qr/JIT/, 'is not compiled for that');
}

# ---- many models ----

$server->restart('infer.device' => 'cpu');
$server->safe_psql(q{
	CREATE FUNCTION measure() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 300 LOOP
			PERFORM infer.create_model('many' || i, data => decode(replace(
				'08083a510a0e0a01780a01631201792203416464120474696e792a0d080110014201634a04########5a140a0178120f0a0d080112090a0312014e0a02080162140a0179120f0a0d080112090a0312014e0a0208014202100d',
				'########', encode(float4send(i), 'hex')), 'hex'));
			PERFORM infer('many' || i, 1);
		END LOOP;
	END
	$$});
$server->safe_psql('SELECT measure()');
cmp_ok(cost("infer.predict('many300', x)"), '>', 0, 'more models than are remembered');
is($server->safe_psql("SELECT count(infer.predict('many300', x)) FROM t"), 2000, 'and calls go on');

done_testing();
