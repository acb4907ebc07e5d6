# Embeddings in pgvector's columns: real[] is assigned to vector and halfvec, indexes find what a
# sort finds, and the query's embedding is computed once.  Skipped where a server has no pgvector.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;

my $server = InferServer->start('infer.cpu_threads' => 1);
plan skip_all => 'this PostgreSQL has no pgvector'
  unless $server->safe_psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'");

$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";
$server->safe_psql("\\set model bert_mean\n\\i $InferServer::top/test/fixtures/text.psql\n", options => [ '-o', '/dev/null' ]);
my $width = $server->safe_psql("SELECT array_length(infer.embed('bert_mean', 'a'), 1)");
$server->safe_psql(<<SQL);
CREATE EXTENSION vector;
CREATE TABLE docs (id int PRIMARY KEY, body text, plain real[]);
INSERT INTO docs SELECT i, 'the query planner ' || repeat(chr(97 + i % 26) || ' ', 1 + i % 7) || i FROM generate_series(1, 400) i;
UPDATE docs SET plain = infer.embed('bert_mean', body);
CREATE TABLE pages (id int PRIMARY KEY, e vector($width), h halfvec($width));
SQL

sub computed { return $server->safe_psql('SELECT coalesce(sum(rows), 0) FROM infer.stats') }

# ---- assignment ----

$server->safe_psql("INSERT INTO pages SELECT id, infer.embed('bert_mean', body), infer.embed('bert_mean', body) FROM docs");
is($server->safe_psql('SELECT count(*) FROM pages JOIN docs USING (id) WHERE e::real[] = plain'), 400,
	'INSERT … SELECT puts embeddings into a vector column');
is($server->safe_psql('SELECT count(*) FROM pages WHERE h = e::halfvec'), 400, 'and into a halfvec column');
$server->safe_psql("UPDATE pages SET e = infer.embed('bert_mean', body), h = infer.embed('bert_mean', body) FROM docs WHERE docs.id = pages.id AND docs.id < 50");
is($server->safe_psql('SELECT count(*) FROM pages JOIN docs USING (id) WHERE e::real[] = plain'), 400, 'so does UPDATE');
is($server->psql_sqlstate("INSERT INTO pages SELECT 1000, infer.embed('bert_mean', 'a', '{\"dimensions\": 3}')"), '22000',
	'a column of another number of dimensions refuses them');
is($server->psql_sqlstate("SELECT e <=> infer.embed('bert_mean', 'a') FROM pages"), '42883', 'an operator needs a cast');

# ---- the same distances ----

for my $pair ([ cosine => '<=>' ], [ l2 => '<->' ], [ l1 => '<+>' ], [ inner_product => '<#>' ])
{
	my ($metric, $operator) = @$pair;

	is($server->safe_psql("SELECT count(*) FROM pages JOIN docs USING (id) WHERE abs(infer.distance(plain, infer.embed('bert_mean', 'an index'), '$metric')
		- (e $operator infer.embed('bert_mean', 'an index')::vector)) > 1e-5"), 0, "infer.distance(…, '$metric') is $operator");
}
is($server->safe_psql("SELECT infer.distance('{0,0}', '{1,1}', 'cosine') = 'NaN' AND ('[0,0]'::vector <=> '[1,1]') = 'NaN'"), 't',
	'that of a vector without a direction, too');

# ---- search ----

for my $index ([ 'hnsw', 'e', 'vector_cosine_ops', 'vector' ], [ 'ivfflat', 'e', 'vector_cosine_ops', 'vector' ], [ 'hnsw', 'h', 'halfvec_cosine_ops', 'halfvec' ])
{
	my ($method, $column, $class, $type) = @$index;
	my $search = "SELECT id FROM pages ORDER BY $column <=> infer.embed('bert_mean', 'the planner and an index')::$type LIMIT 5";
	my $lists = $method eq 'ivfflat' ? 'WITH (lists = 1)' : '';

	$server->safe_psql("CREATE INDEX tried ON pages USING $method ($column $class) $lists");
	like($server->safe_psql("SET enable_seqscan = off; EXPLAIN (COSTS OFF) $search"), qr/Index Scan using tried/, "$method over $type: the index is used");
	my $before = computed();
	my $found = $server->safe_psql("SET enable_seqscan = off; $search");
	cmp_ok(computed() - $before, '<=', 2, 'the query is embedded once, and once more for the planner at most');
	my $exact = $server->safe_psql("SET enable_indexscan = off; $search");
	my %exact = map { $_ => 1 } split /\n/, $exact;
	cmp_ok(scalar(grep { $exact{$_} } split /\n/, $found), '>=', 4, 'and finds what a sort finds');
	$server->safe_psql('DROP INDEX tried');
}

# ---- without an index: once for the statement, in whatever way it runs ----

my $ordered = "SELECT id FROM pages ORDER BY e <=> infer.embed('bert_mean', 'once')::vector LIMIT 5";
for my $how ('', 'SET infer.batching = off; ', 'SET max_parallel_workers_per_gather = 0; ')
{
	my $before = computed();

	$server->safe_psql($how . $ordered);
	cmp_ok(computed() - $before, '<=', 2, "${how}one call for 400 rows");
}
my $before = computed();
$server->safe_psql(<<'SQL');
CREATE FUNCTION nearest(words text) RETURNS SETOF int LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN QUERY SELECT id FROM pages ORDER BY e <=> infer.embed('bert_mean', words)::vector LIMIT 5; END $$;
SELECT nearest('once');
SQL
cmp_ok(computed() - $before, '<=', 2, 'one in a function');

done_testing();
