# Models that read texts, through SQL: what each verb says is what the reference library says of the
# seeded models of test/fixtures/text; in every encoding of a database; after dump and restore; to those who may
# use the model; and one bad text is an error of its own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use IPC::Run;
use JSON::PP;
use Test::More;

my $folders = "$InferServer::top/test/fixtures/text";
my $server = InferServer->start('infer.cpu_threads' => 1);
my $json = JSON::PP->new->utf8;

$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";

sub slurp
{
	my ($file) = @_;

	open my $handle, '<:raw', $file or die "$file: $!";
	local $/;
	return scalar <$handle>;
}

sub make_model
{
	my ($name, $options, %psql) = @_;

	$server->safe_psql("\\set model $name\n\\set options '$options'\n\\i $InferServer::top/test/fixtures/text.psql\n",
		options => [ '-o', '/dev/null' ], %psql);
	return;
}

# ---- the reference's answers ----

# A model that cuts texts, and its cases as a table; how many there are.
sub make_cases
{
	my ($name) = @_;
	my $reference = $json->decode(slurp("$folders/$name.json"));
	my $file = $server->write_file("$name.cases.json", $json->encode($reference));

	make_model($name, '{"truncate": true, "precision": "f32"}');
	$server->safe_psql(<<SQL);
CREATE TABLE $name AS
	SELECT n::int, c ->> 'text' AS text, c ->> 'pair' AS pair, coalesce((c ->> 'cut')::bool, false) AS cut,
		jsonb_strip_nulls(jsonb_build_object('prompt', c ->> 'prompt')) AS options, c AS said, r -> 'labels' AS labels
	FROM (SELECT pg_read_file('$file')::jsonb AS r) f, jsonb_array_elements(r -> 'cases') WITH ORDINALITY AS j(c, n);
SQL
	return scalar @{ $reference->{cases} };
}

# A query with a column "difference" for each case.
sub is_close
{
	my ($title, $count, $within, $query) = @_;
	my ($cases, $largest) = split /\|/, $server->safe_psql("SELECT count(*), max(difference) FROM ($query) q WHERE difference IS NOT NULL");

	is($cases, $count, "$title: every case has an answer");
	cmp_ok($largest, '<=', $within, "$title: it is the reference's");
	return;
}

for my $name (qw(bert_mean bert_e5 bert_default_prompt roberta_mean modernbert_cls graph_albert_newer))
{
	my $count = make_cases($name);

	is_close("embed $name", $count, 1e-4, <<SQL);
SELECT infer.distance(infer.embed('$name', text, options),
	(SELECT array_agg(v::real ORDER BY i) FROM jsonb_array_elements_text(said -> 'embedding') WITH ORDINALITY e(v, i)), 'l2') AS difference FROM $name
SQL
	is($server->safe_psql("SELECT count(*) FROM $name, infer.embed_all('$name', ARRAY[text, NULL, text], options) a
		WHERE a.embedding IS DISTINCT FROM CASE WHEN index <> 2 THEN infer.embed('$name', text, options) END"), 0, "embed_all $name: the same");
}
is($server->safe_psql("SELECT count(*) FROM bert_mean WHERE NOT cut AND to_jsonb(infer.tokenize('bert_mean', text)) <> said -> 'ids'"), 0,
	'tokenize gives the ids, special ones included');
is($server->safe_psql("SELECT count(*) FROM bert_mean WHERE infer.token_count('bert_mean', text) <> cardinality(infer.tokenize('bert_mean', text))"), 0,
	'token_count counts them');
cmp_ok($server->safe_psql("SELECT min(infer.token_count('bert_mean', text)) FROM bert_mean WHERE cut"), '>', 40, 'neither cuts');

for my $name (qw(bert_classify bert_multi_label graph_electra_classify))
{
	my $count = make_cases($name);

	is_close("probabilities $name", $count, 1e-4, <<SQL);
SELECT (SELECT max(abs((infer.probabilities('$name', text) ->> label)::float8 - score::float8))
	FROM jsonb_array_elements_text(labels) WITH ORDINALITY l(label, i)
		JOIN jsonb_array_elements_text(said -> 'scores') WITH ORDINALITY s(score, i) USING (i)) AS difference FROM $name
SQL
	is($server->safe_psql(<<SQL), 0, "classify $name: the label with the highest score");
SELECT count(*) FROM $name WHERE infer.classify('$name', text) <>
	(SELECT label FROM jsonb_array_elements_text(labels) WITH ORDINALITY l(label, i)
		JOIN jsonb_array_elements_text(said -> 'scores') WITH ORDINALITY s(score, i) USING (i) ORDER BY score::float8 DESC LIMIT 1)
SQL
}

is_close('predict bert_regression', make_cases('bert_regression'), 1e-4,
	"SELECT abs(infer.predict('bert_regression', text) - (said -> 'scores' ->> 0)::float8) AS difference FROM bert_regression");
is($server->safe_psql("SELECT facts ->> 'default_prompt', facts -> 'prompts' -> (facts ->> 'default_prompt') FROM infer.model_versions WHERE name = 'bert_default_prompt'"),
	'search|"How do I "', 'the default prompt is seen');

for my $name (qw(bert_cross bert_cross_identity roberta_cross graph_albert_cross))
{
	is_close("rerank $name", make_cases($name), 1e-4,
		"SELECT abs(infer.rerank('$name', text, pair) - (said -> 'scores' ->> 0)::float8) AS difference FROM $name");
}

for my $name (qw(bert_entities roberta_entities graph_albert_entities))
{
	make_cases($name);
	# of tokens that are white space the reference makes entities without a text
	$server->safe_psql(<<SQL);
UPDATE $name SET said = jsonb_set(said, '{entities}', (SELECT coalesce(jsonb_agg(s ORDER BY i), '[]')
	FROM jsonb_array_elements(said -> 'entities') WITH ORDINALITY x(s, i) WHERE btrim(s ->> 'text', E' \\t\\n\\u00a0\\u3000') <> ''))
SQL
	is($server->safe_psql(<<SQL), '', "entities $name: those that the reference finds, where it does");
SELECT n, said -> 'entities', e.found FROM $name,
	LATERAL (SELECT coalesce(jsonb_agg(jsonb_build_object('label', entity, 'start', start_offset, 'end', end_offset, 'text', e.text) ORDER BY start_offset), '[]') AS found
		FROM infer.entities('$name', $name.text) e) e
	WHERE found <> (SELECT coalesce(jsonb_agg(s - 'score' ORDER BY i), '[]') FROM jsonb_array_elements(said -> 'entities') WITH ORDINALITY x(s, i))
SQL
	is_close("scores of entities $name", $server->safe_psql("SELECT sum(jsonb_array_length(said -> 'entities')) FROM $name"), 1e-4, <<SQL);
SELECT abs(e.score - (said -> 'entities' -> (e.number - 1)::int ->> 'score')::float8) AS difference
	FROM $name, infer.entities('$name', $name.text) WITH ORDINALITY e(entity, text, start_offset, end_offset, score, number)
SQL
	is($server->safe_psql("SELECT count(*) FROM $name c, infer.entities('$name', c.text) e
		WHERE substring(c.text from start_offset for end_offset - start_offset + 1) IS DISTINCT FROM e.text"), 0, 'substring() gives their texts');
	is($server->safe_psql("SELECT count(*) FROM $name WHERE jsonb_array_length(infer('$name', text)) <>
		(SELECT count(*) FROM infer.entities('$name', text)) OR infer('$name', text) -> 0 ->> 'text' <>
		(SELECT e.text FROM infer.entities('$name', $name.text) e LIMIT 1)"), 0, 'infer() has them, too');
}

# ---- chunks ----

my $long = "(SELECT string_agg('The query planner number ' || i || ' wants an index. ', CASE WHEN i % 5 = 0 THEN E'\\n\\n' ELSE ' ' END) FROM generate_series(1, 60) i)";
$server->safe_psql("CREATE TABLE long AS SELECT $long AS body");
for my $border (qw(token sentence paragraph))
{
	is($server->safe_psql(<<SQL), 't|t|t|t', "chunk by $border: within the limit, pieces of the text, counted, all of it");
SELECT bool_and(tokens <= 30), bool_and(strpos(body, chunk) > 0), bool_and(tokens = infer.token_count('bert_mean', chunk)),
	regexp_replace(string_agg(chunk, '' ORDER BY index), '\\s+', '', 'g') = regexp_replace(max(body), '\\s+', '', 'g')
	FROM long, infer.chunk('bert_mean', body, 30, options => '{"border": "$border"}')
SQL
}
is($server->safe_psql(<<'SQL'), 't|t', 'chunks overlap');
SELECT sum(length(chunk)) > length(max(body)), bool_and(tokens <= 30) FROM long, infer.chunk('bert_mean', body, 30, 8)
SQL

# ---- the length limit, the same in every form ----

make_model('bert_cls', '{}');
my $limit = $server->safe_psql("SELECT facts -> 'tokens_max' FROM infer.model_versions WHERE name = 'bert_cls'");
$server->safe_psql("CREATE TABLE edge AS SELECT repeat('a ', $limit - 2) AS fits, repeat('a ', $limit - 1) AS longer");
is($server->safe_psql("SELECT infer.token_count('bert_cls', fits) - $limit, infer.token_count('bert_cls', longer) - $limit FROM edge"), '0|1',
	'a text at the limit, and one a token longer');
for my $form ("infer.embed('bert_cls', %s)", "(SELECT embedding FROM infer.embed_all('bert_cls', ARRAY['a', %s]) WHERE index = 2)", "infer('bert_cls', %s)")
{
	my ($fits, $longer) = map { sprintf "SELECT $form FROM edge", $_ } 'fits', 'longer';

	is($server->psql_sqlstate($fits), '', "$form: fits");
	is($server->psql_sqlstate($longer), '22023', "$form: too long");
	like(($server->psql($longer))[2], qr/\b$limit\b/, "$form: the error names the limit");
}
is($server->safe_psql("SELECT infer.embed('bert_cls', longer, '{\"truncate\": true}') = infer.embed('bert_cls', fits) FROM edge"), 't', 'cut where the call says so');
is($server->safe_psql("SELECT a.embedding = infer.embed('bert_cls', fits) FROM edge, infer.embed_all('bert_cls', ARRAY[longer], '{\"truncate\": true}') a"), 't',
	'in the array form, too');

# bert_e5 cuts unless the call says otherwise; its prompts are of some tokens
is($server->psql_sqlstate("SELECT infer.embed('bert_e5', fits, '{\"truncate\": false}') FROM edge"), '', 'a text that just fits');
is($server->psql_sqlstate("SELECT infer.embed('bert_e5', fits, '{\"truncate\": false, \"prompt\": \"query\"}') FROM edge"), '22023', 'does not with a prompt before it');

# ---- encodings ----

# In letters of each; EUC_JIS_2004 has a character that two of Unicode stand for.  What substring() makes of the places is the entity's text.
for my $case ([ 'LATIN1', "'Grüße an André in Zürich'" ], [ 'EUC_JIS_2004', "(SELECT k || ' the query planner ' || k || ' PostgreSQL ' || k || 'how do I create a user?' FROM convert_from('\\xe3818be3829a', 'UTF8') k)" ],
	[ 'SQL_ASCII', "E'Gr\\xc3\\xbc\\xc3\\x9fe an Andr\\xc3\\xa9'" ])
{
	my ($encoding, $text) = @$case;
	my $database = lc $encoding;

	$server->safe_psql("CREATE DATABASE $database TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'", database => 'postgres');
	$server->safe_psql('CREATE EXTENSION infer', database => $database);
	make_model('bert_entities', '{"truncate": true, "precision": "f32"}', database => $database);
	my $client = $encoding eq 'SQL_ASCII' ? '' : "SET client_encoding = 'UTF8';";
	my ($entities, $right) = split /\|/, $server->safe_psql("$client SELECT count(*), bool_and(substring(t from start_offset for end_offset - start_offset + 1) = e.text)
		FROM (SELECT $text AS t) v, infer.entities('bert_entities', t) e", database => $database);
	my $texts = "$client SELECT string_agg(e.text, '|' ORDER BY start_offset, end_offset) FROM (SELECT $text AS t) v, infer.entities('bert_entities', t) e";

	cmp_ok($entities, '>', 1, "$encoding: entities are found");
	is($server->safe_psql($texts, database => $database), $server->safe_psql($texts), "$encoding: those that are found in UTF-8");
	is($right, 't', "$encoding: where substring() finds them");
	is($server->safe_psql("$client SELECT count(*) > 1 AND bool_and(strpos(t, chunk) > 0) FROM (SELECT $text AS t) v, infer.chunk('bert_entities', t, 3)", database => $database),
		't', "$encoding: chunks are pieces of the text");
}
is($server->psql_sqlstate("SELECT infer.entities('bert_entities', E'\\xff')", database => 'sql_ascii'), '22021', 'what is no UTF-8 is refused');

# ---- options that a model cannot have ----

my $readable = $server->dir . '/bert_mean';
system('cp', '-r', "$folders/bert_mean", $readable) == 0 && system('chmod', '-R', 'a+rX', $readable) == 0 or die "cp $readable";
for my $options ('{"poling": "cls"}', '{"pooling": "last"}', '{"max_tokens": 100000}', '{"default_prompt": "none"}', '{"labels": ["a", "b"]}')
{
	is($server->psql_sqlstate("SELECT infer.create_model('refused', '$readable', '$options')"), '22023', "$options is refused as an argument");
}
is($server->safe_psql("SELECT infer.create_model('refused', '$readable', '{\"pooling\": \"cls\"}')"), '1', 'and leaves nothing: the first version that is right is 1');

# ---- one bad text ----

# The folder of bert_mean with a word whose vector is as large as a float can be.
sub make_overflow
{
	my ($word) = @_;
	my $tensors = slurp("$folders/bert_mean/model.safetensors");
	my $header = $json->decode(substr $tensors, 8, unpack 'Q<', $tensors);
	my ($name) = grep { /word_embeddings\.weight$/ } keys %$header;
	my $hidden = $header->{$name}{shape}[1];
	my ($id) = $server->safe_psql("SELECT infer.tokenize('bert_mean', '$word')") =~ /^\{\d+,(\d+),\d+\}$/ or die "\"$word\" is no word";
	my $at = 8 + unpack('Q<', $tensors) + $header->{$name}{data_offsets}[0] + 4 * $hidden * $id;
	my $upload = $server->safe_psql('SELECT infer.begin_upload()');

	substr $tensors, $at, 4 * $hidden, pack('f<*', map { 3e38 * ($_ % 2 ? 1 : -1) } 1 .. $hidden);
	for my $file (split /\n/, `cd '$folders/bert_mean' && find . -type f`)
	{
		my $content = $file eq './model.safetensors' ? $tensors : slurp("$folders/bert_mean/$file");

		$server->safe_psql(sprintf "SELECT infer.upload('%s', '%s', 1, '\\x%s')", $upload, $file =~ s{^\./}{}r, unpack 'H*', $content);
	}
	$server->safe_psql("SELECT infer.create_model('overflow', upload => '$upload')");
	return;
}

make_overflow('the');
$server->safe_psql("CREATE TABLE three (id int PRIMARY KEY, t text, e real[]); INSERT INTO three VALUES (1, 'a'), (2, 'the'), (3, 'b')");
is($server->psql_sqlstate("SELECT infer.embed('overflow', 'the')"), 'IF008', 'an embedding that is not finite is an error');
is($server->psql_sqlstate("SELECT infer('overflow', 'the')"), 'IF008', 'as jsonb, too');
is($server->psql_sqlstate("SELECT * FROM infer.embed_all('overflow', ARRAY['a', 'the', 'b'])"), 'IF008', 'and in the array form');
is($server->safe_psql("SELECT id FROM three WHERE infer.embed('overflow', t) IS NOT NULL LIMIT 1"), 1, 'rows before it are returned');
is($server->safe_psql("SET infer.on_error = 'null'; UPDATE three SET e = infer.embed('overflow', t); SELECT string_agg(id::text, ',' ORDER BY id) FROM three WHERE e = infer.embed('overflow', t)"),
	'1,3', 'with NULL for errors, that text alone has no embedding');
is($server->safe_psql("SET infer.on_error = 'null'; SELECT string_agg(index::text, ',') FROM infer.embed_all('overflow', ARRAY['a', 'the', 'b']) WHERE embedding IS NULL"), 2,
	'nor does that element');
is($server->safe_psql("SELECT infer.try('overflow', 'the') IS NULL, infer.try('overflow', 'a') IS NULL"), 't|f', 'infer.try gives NULL for it');

# ---- little shared memory ----

# Requests that have ended make room for those that wait; what infer() shows of a text is still there then.
$server->reload('infer.payload_limit' => '1MB');
$server->safe_psql("CREATE TABLE wide AS SELECT i, 'who ' || repeat('x', 10000 + i) || ' owns the ' || repeat('y', 3000) || ' schema' AS t FROM generate_series(1, 300) i");
my $said = join ' || ', map { "infer('bert_entities', $_)::text" } "t || ' of ' || infer.token_count('bert_entities', left(t, 10))", "infer.token_count('bert_entities', left(t, 10)) || t";
my ($together, $alone) = map { $server->safe_psql("SET infer.statement_batch_rows = 10000; SET infer.batching = $_; SELECT md5(string_agg($said, '' ORDER BY i)) FROM wide") } qw(on off);
is($together, $alone, 'entities of more texts than there is room for at a time');
$server->reload('infer.payload_limit' => '256MB');

# ---- privileges ----

$server->safe_psql('CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader');
for my $call ("infer.embed('bert_mean', 'a')", "infer.tokenize('bert_mean', 'a')", "infer.token_count('bert_mean', 'a')", "infer.rerank('bert_cross', 'a', 'b')",
	"infer.embed_all('bert_mean', ARRAY['a'])", "infer.entities('bert_entities', 'a')", "infer.chunk('bert_mean', 'a', 10)")
{
	is($server->psql_sqlstate("SELECT $call", user => 'reader'), '42501', "$call without a grant");
}
$server->safe_psql("SELECT infer.grant_model('bert_mean', 'reader')");
is($server->psql_sqlstate("SELECT infer.embed('bert_mean', 'a'), infer.chunk('bert_mean', 'a', 10)", user => 'reader'), '', 'with it they work');

# ---- dump and restore ----

my %environment = $server->environment;
my $dump = $server->write_file('texts.dump', '');
{
	local @ENV{ keys %environment } = values %environment;
	IPC::Run::run([ $server->program('pg_dump'), '-Fc', '-f', $dump, 'infer' ]) or fail('pg_dump');
	$server->safe_psql('CREATE DATABASE restored', database => 'postgres');
	IPC::Run::run([ $server->program('pg_restore'), '-d', 'restored', $dump ]) or fail('pg_restore');
}
my $sum = "SELECT md5(string_agg(infer.embed('bert_mean', text)::text, '' ORDER BY n)) FROM bert_mean";
is($server->safe_psql($sum, database => 'restored'), $server->safe_psql($sum), 'a folder comes back with the dump, and its embeddings are the same');

done_testing();
