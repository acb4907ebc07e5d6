# The requests of a batch scan: several of one session in flight, with little memory for values, with
# engines that end, with a row that ends them, given up in the middle; and equal inputs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.payload_limit' => '1MB', max_connections => 20);
my $wide = sql_bytes(wide_add_model(3, 'n'));
$server->safe_psql(qq(SELECT infer.create_model('w$_', data => $wide, options => '{"dims": {"n": $_}}'))) for 2000, 1;
open my $fixture, '<:raw', "$InferServer::top/test/fixtures/values/echo_double.onnx" or die "echo_double.onnx: $!";
my $echo = do { local $/; sql_bytes(<$fixture>) };
$server->safe_psql("SELECT infer.create_model('echo', data => $echo)");

sub rows_of			# what EXPLAIN says of the statement's requests
{
	my ($name, $sql) = @_;
	my $plan = $server->safe_psql("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $sql");

	return $plan =~ /$name: (\d+)/ ? $1 : "no $name in: $plan";
}

# ---- memory ----

# 16 kB a row, there and back: a request takes a quarter of what all sessions have together.
my $sum = 'SELECT count(*), sum(y[1]) + sum(y[2000]) FROM (SELECT %s AS y FROM generate_series(1, 300) i) s';
my $once = sprintf $sum, "infer.outputs('w2000', array_fill(i, ARRAY[2000]))";
my $twice = sprintf $sum, "infer.outputs('w2000', infer.outputs('w2000', array_fill(i, ARRAY[2000])))";
my $settings = "SET infer.timeout = '30s'; SET enable_material = on";
ok(rows_of('Batches', "SELECT infer.outputs('w2000', array_fill(i, ARRAY[2000])) FROM generate_series(1, 300) i") > 10,
	'what would take too much memory is sent in several requests');
my @sessions = map { $server->background_psql() } 1 .. 6;
$_->query($settings) for @sessions;
$sessions[$_]->send($_ % 2 ? $once : $twice) for 0 .. 5;
is(join(' ', map { $_->wait } @sessions), join(' ', ('300|93900', '300|92100') x 3),
	'six sessions, each with several requests, do not wait for each other in a circle');
is(join('', map { $_->errors } @sessions), '', 'nor is any refused');

my $many = join ', ', map { "sum(infer.predict('w1', i + $_))" } 1 .. 40;
my $many_sums = join '|', map { my $k = $_; 300 * (3 + $k) + 45150 } 1 .. 40;
$_->send("SELECT $many FROM generate_series(1, 300) i") for @sessions[0 .. 2];
is(join("\n", map { $_->wait } @sessions[0 .. 2]), join("\n", ($many_sums) x 3),
	'forty calls in one statement, in three sessions');
$server->safe_psql(q{CREATE FUNCTION slow(x int) RETURNS int LANGUAGE plpgsql STABLE AS
	$$ BEGIN PERFORM pg_sleep(0.3); RETURN x; END $$});
is($sessions[0]->query("SET infer.timeout = '5s'; SELECT sum(infer.predict('w1', slow(i))) FROM generate_series(1, 20) i"),
	'270', 'infer.timeout does not count while the inputs are evaluated');

# ---- equal inputs ----

is(rows_of('Reused', "SELECT infer.predict('w1', i % 10) FROM generate_series(1, 200) i"), 190,
	'equal inputs of one request are computed once');
is(rows_of('Calls', "SELECT infer.predict('w1', i % 10) FROM generate_series(1, 200) i"), 200, 'each is a call');
cmp_ok(rows_of('Reused', "SELECT infer('w1', i % 10) FROM generate_series(1, 20000) i"), '>', 19000, 'and so are those of later ones');
is(rows_of('Reused', "SELECT infer.predict('w1', i) FROM generate_series(1, 5000) i"), 0, 'no two of these are equal');
# three of four are equal, so that every row is looked up; what is remembered just fits
$server->safe_psql("ALTER ROLE postgres SET work_mem = '256kB'");
cmp_ok(rows_of('Reused', "SELECT infer.predict('w1', CASE WHEN i % 4 <> 0 THEN 0 ELSE 1 + i / 4 % 1200 END) FROM generate_series(1, 19200) i"),
	'>', 17900, 'what fills its share of work_mem is remembered to the last');
$server->safe_psql('ALTER ROLE postgres RESET work_mem');
is($server->safe_psql("SELECT string_agg(infer.predict('echo', x)::text, ' ') FROM (VALUES (0::float8), ('-0'), (0), ('-0')) v (x)"),
	'0 -0 0 -0', 'zero is not minus zero');
is($server->safe_psql(q{
	SELECT count(*) FROM (SELECT i % 700 AS k, infer.predict('w1', i % 700) AS y FROM generate_series(1, 20000) i) s WHERE y <> k + 3}),
	'0', 'every row has its own answer');
is($server->safe_psql(q{
	SET work_mem = '64kB';
	SELECT count(*) FROM (SELECT i % 7000 AS k, infer('w1', i % 7000) AS y FROM generate_series(1, 50000) i) s WHERE y::float8 <> k + 3}),
	'0', 'also where few are remembered');

# ---- errors ----

my $cursor = $server->background_psql();
$cursor->query(q{BEGIN; DECLARE c CURSOR FOR
	SELECT infer.predict('w1', CASE WHEN i = 8 THEN 1e300 ELSE i END) FROM generate_series(1, 1000) i});
is($cursor->query('FETCH 7 FROM c') =~ tr/\n//, 6, 'rows before a wrong one are answered');
$cursor->query('FETCH 1 FROM c');
is($cursor->sqlstate, '22003', 'the wrong one is not');
is($server->safe_psql(q{
	SELECT count(*), count(y) FROM (SELECT infer.try('w1', CASE WHEN i % 50 = 8 THEN 1e300 WHEN i % 50 = 9 THEN NULL ELSE i END) y
	  FROM generate_series(1, 1000) i) s}), '1000|960', 'with infer.try it is NULL');
is($server->psql_sqlstate(q{
	SELECT infer.try('w1', CASE WHEN i = 8 THEN 'a' END) FROM generate_series(1, 100) i}), '42804', 'what is wrong with the types is not');

# ---- engines that end ----

$server->restart('infer.device' => 'null:delay=10');
my $slow = q{SET infer.statement_batch_rows = 20;
	SELECT count(*), sum(infer.predict('w1', i)) FROM generate_series(1, 2000) i};
$_ = $server->background_psql()->send($slow) for @sessions[0 .. 2];
my $running = "SELECT count(*) > 0 FROM infer.activity WHERE class = 'statement'";
my $engine = $server->engine_pid;
ok($server->poll_query_until($running), 'statements run');
$server->kill_engine('KILL');
$engine = $server->wait_for_new_engine($engine);
ok($server->poll_query_until($running), 'and again');
$server->safe_psql('SELECT infer.restart_engine()');
$server->wait_for_new_engine($engine);
is(join(' ', map { $_->wait } @sessions[0 .. 2]), join(' ', ('2000|2007000') x 3), 'and are answered as if no engine had ended');
is(join('', map { $_->errors } @sessions[0 .. 2]), '', 'without an error');

my $session = $server->background_psql();
$session->query("SET statement_timeout = '300ms'; $slow");
is($session->sqlstate, '57014', 'a statement is cancelled');
ok($server->poll_query_until('SELECT count(*) FROM infer.activity', '0'), 'and leaves nothing behind in the engine');
is($session->query("SET statement_timeout = 0; SELECT infer.predict('w1', 1)"), '4', 'its session goes on');
$session->send($slow);
ok($server->poll_query_until($running), 'another one runs');
$server->safe_psql('SELECT pg_terminate_backend(' . $session->backend_pid . ')');
ok($server->poll_query_until('SELECT count(*) FROM infer.activity', '0'), 'nor does one whose session is terminated');

# ---- a row that ends them ----

$server->restart('infer.device' => 'null:crash_on=666,delay=2');
my $guilty = "SELECT infer.try('w1', i)::float8 AS y, i FROM generate_series(600, 700) i";
is($server->safe_psql("SELECT count(*), count(y), sum(y) FILTER (WHERE i < 666), count(*) FILTER (WHERE y = i + 3) FROM ($guilty) s"),
	'101|100|41943|100', 'beside a hundred innocent rows only the guilty one is NULL');
is($server->psql_sqlstate("SELECT infer.predict('w1', i) FROM generate_series(600, 700) i"), 'IF004', 'or an error of its own');

done_testing();
