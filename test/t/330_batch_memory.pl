# A statement of many rows keeps its backend small, whatever the rows: below work_mem and 64 MB.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start(work_mem => '4MB', jit => 'off', max_parallel_workers_per_gather => 0);
$server->safe_psql("SELECT infer.create_model('m', data => " . sql_bytes(add_model(3)) . ")");
my $limit = (4 + 64) * 1024;

sub echo_model
{
	open my $file, '<:raw', "$InferServer::top/test/fixtures/values/echo_string.onnx" or die "echo_string.onnx: $!";
	local $/;
	return <$file>;
}

sub peak			# kB of a session of its own, after the statement
{
	my ($sql, $expected, $name) = @_;
	my $session = $server->background_psql();
	my $answer = $session->query($sql);

	is($answer, $expected, $name);
	open my $status, '<', '/proc/' . $session->backend_pid . '/status' or die "status: $!";
	my ($peak) = map { /^VmHWM:\s+(\d+)/ } <$status>;
	note "$name: $peak kB";
	return $peak;
}

my $rows = 500_000;
my $sum = $rows * ($rows + 1) / 2 + 3 * $rows;
cmp_ok(peak("SELECT sum(infer.predict('m', i)) FROM generate_series(1, $rows) i", $sum, 'half a million different rows'), '<', $limit, 'take little memory');
cmp_ok(peak("SELECT count(infer('m', i % 200000)) FROM generate_series(1, $rows) i", $rows, 'equal ones, with results by reference'), '<', $limit, 'likewise');
cmp_ok(peak("SELECT count(*) FROM generate_series(1, $rows) i WHERE infer.predict('m', i) > 1000", $rows - 997, 'a condition'), '<', $limit, 'likewise');
cmp_ok(peak("SELECT count(infer.try('m', CASE WHEN i % 2 = 0 THEN i ELSE 1e300 END)) FROM generate_series(1, 200000) i", 100_000,
	'errors of half of the rows'), '<', $limit, 'likewise');
cmp_ok(peak("SET infer.statement_batch_rows = 10000;
	SELECT sum(infer.predict('m', i) + length(s)) FROM (SELECT i, repeat('x', 20000) AS s FROM generate_series(1, 10000) i OFFSET 0) wide",
	50_005_000 + 3 * 10_000 + 20_000 * 10_000, 'wide rows that are kept beside'), '<', $limit, 'do not gather either');

# Without equal rows a sample of them is remembered, in the sample's part of the room.
sub remembered		# bytes, at the statement's last row
{
	my ($count) = @_;
	return $server->safe_psql("SELECT max(CASE WHEN i = $count THEN (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'infer site') END)
		FROM (SELECT i, infer.predict('m', i) AS p FROM generate_series(1, $count) i OFFSET 0) s WHERE p > 0");
}
my $few = remembered(10_000);
cmp_ok($few, '>', 0, "what a statement remembers: $few bytes");
is(remembered($rows), $few, 'is no more for half a million rows');

# What the engine gives back is the backend's, too.  A small payload, as that of requests in flight counts here.
$server->restart('infer.payload_limit' => '16MB');
$server->safe_psql("SELECT infer.create_model('echo', data => " . sql_bytes(echo_model()) . ")");
cmp_ok(peak("SET infer.statement_batch_rows = 10000;
	SELECT sum(length(infer('echo', repeat('x', 10000))::text) + length(infer('echo', repeat('y', 10000) || i)::text) * 0) FROM generate_series(1, 12000) i",
	12_000 * 10_002, 'long results'), '<', $limit, 'are not all kept at the same time');

# Texts of very different lengths: a request has as many as their bytes allow.
{
	local $ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";
	$server->safe_psql("\\set model bert_e5\n\\i $InferServer::top/test/fixtures/text.psql\n", options => [ '-o', '/dev/null' ]);
}
cmp_ok(peak("SET infer.statement_batch_rows = 10000;
	SELECT count(infer.embed('bert_e5', CASE WHEN i % 50 = 0 THEN repeat('a ' || i || ' ', 100000) ELSE 'b ' || i END, '{\"truncate\": true}')) FROM generate_series(1, 1000) i",
	1000, 'texts, a few of them long'), '<', $limit, 'are sent in parts');
cmp_ok(peak("SELECT sum(cardinality(infer.tokenize('bert_e5', repeat('a ' || i || ' ', CASE WHEN i % 50 = 0 THEN 50000 ELSE 1 END)))) > 1000000 FROM generate_series(1, 500) i",
	't', 'their tokens'), '<', $limit, 'as well');

# Rows are gathered until enough of them call: those that do not take memory as well.
cmp_ok(peak("SET work_mem = '64MB';
	SELECT count(CASE WHEN i * j = 6 THEN infer.predict('m', i) END) FROM generate_series(1, 2000) i, generate_series(1, 2000) j",
	4, 'few calls among many rows'), '<', (64 + 64) * 1024, 'of that statement it has more');

done_testing();
