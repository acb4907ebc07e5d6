-- Models that read texts: what each verb returns, what its options say, what it refuses.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set values :srcdir/fixtures/values.psql
\i :values
\set text :srcdir/fixtures/text.psql
\set options '{"precision": "f32"}'
\set model bert_e5
\i :text
\set model bert_classify
\i :text
\set model bert_cross
\i :text
\set model bert_entities
\i :text
\set model bert_default_prompt
\i :text
\o
\pset format unaligned
\pset tuples_only on
CREATE FUNCTION pg_temp.rounded(v real[]) RETURNS numeric[] LANGUAGE sql IMMUTABLE AS
	'SELECT array_agg(round(x::numeric, 3) ORDER BY i) FROM unnest(v) WITH ORDINALITY u(x, i)';
\set ECHO all

-- what the catalogue knows of them
SELECT name, kind, task, facts -> 'tokens_max' AS tokens_max, facts -> 'dimensions' AS dimensions, facts -> 'prompts' AS prompts, classes FROM infer.model_versions WHERE kind = 'encoder' ORDER BY name;
-- inputs and outputs: what users give and get, and nothing of what verbs ask for beside it
SELECT name, jsonb_path_query_array(inputs, '$[*].role') AS inputs, jsonb_path_query_array(outputs, '$[*].role') AS outputs, inputs @? '$[*].hidden' OR outputs @? '$[*].hidden' AS hidden FROM infer.model_versions WHERE kind = 'encoder' ORDER BY name;
SELECT jsonb_path_query_array(signature, '$.inputs[*] ? (@.hidden == true).role') AS stored FROM infer.model_version WHERE signature @> '{"task": "reranker"}';

-- infer.embed(): real[], and what its options say of it
SELECT pg_temp.rounded(infer.embed('bert_e5', 'the query planner'));
SELECT pg_typeof(infer.embed('bert_e5', 'a')), cardinality(infer.embed('bert_e5', 'a')), array_ndims(infer.embed('bert_e5', 'a')), array_lower(infer.embed('bert_e5', 'a'), 1);
SELECT infer.embed('bert_e5', 'a') = infer.embed('bert_e5', 'a', '{}'), infer.embed('bert_e5', 'a') = infer.embed('bert_e5', 'a', NULL), infer.embed('bert_e5@1', 'a') = infer.embed(model => 'bert_e5', input => 'a');
SELECT cardinality(infer.embed('bert_e5', 'a', '{"dimensions": 3}')), round(infer.distance(infer.embed('bert_e5', 'a', '{"dimensions": 3}'), '{0,0,0}', 'l2')::numeric, 4) AS length;
SELECT round(infer.distance(infer.embed('bert_e5', 'a', '{"normalize": false}'), array_fill(0::real, ARRAY[16]), 'l2')::numeric, 3) <> 1 AS raw, round(infer.distance(infer.embed('bert_e5', 'a', '{"normalize": true}'), array_fill(0::real, ARRAY[16]), 'l2')::numeric, 4) AS length;
SELECT infer.embed('bert_e5', 'a', '{"prompt": "query"}') = infer.embed('bert_e5', 'query: a') AS query, infer.embed('bert_e5', 'a', '{"prompt": "passage"}') = infer.embed('bert_e5', 'passage: a') AS passage, infer.embed('bert_e5', 'a', '{"prompt": null}') = infer.embed('bert_e5', 'a') AS plain;
SELECT infer.embed('bert_default_prompt', 'a') = infer.embed('bert_default_prompt', 'a', '{"prompt": null}') AS without;
SELECT infer.embed('bert_e5', '') = infer.embed('bert_e5', '   ') AS empty;
SELECT infer.embed(NULL, 'a') IS NULL, infer.embed('bert_e5', NULL) IS NULL, infer.embed('bert_e5', NULL, '{"nonsense": 1}') IS NULL;

-- what they refuse
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"dimension": 3}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '[]')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '"query"')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"dimensions": 0}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"dimensions": 17}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"dimensions": 1.5}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"dimensions": "3"}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"prompt": "answer"}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"prompt": ""}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"prompt": true}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"truncate": 1}')$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"normalize": null}')$$);
SELECT pg_temp.fails($$SELECT infer.rerank('bert_cross', 'a', 'b', '{"prompt": "query"}')$$);
SELECT pg_temp.fails($$SELECT infer.entities('bert_entities', 'a', '{"border": "token"}')$$);
SELECT pg_temp.fails($$SELECT infer.chunk('bert_e5', 'a', 9, options => '{"border": "word"}')$$);
SELECT pg_temp.fails($$SELECT infer.chunk('bert_e5', 'a', 0)$$);
SELECT pg_temp.fails($$SELECT infer.chunk('bert_e5', 'a', 2)$$);
SELECT pg_temp.fails($$SELECT infer.chunk('bert_e5', 'a', 9, 9)$$);
SELECT pg_temp.fails($$SELECT infer.chunk('bert_e5', 'a', 9, -1)$$);
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', repeat('a ', 100))$$);
SELECT pg_temp.fails($$SELECT infer.embed('nonesuch', 'a')$$);
-- options are the statement's: never hidden
SET infer.on_error = 'null';
SELECT pg_temp.fails($$SELECT infer.embed('bert_e5', 'a', '{"dimension": 3}')$$);
SELECT infer.embed('bert_e5', repeat('a ', 100)) IS NULL, (SELECT count(*) FROM infer.chunk('bert_e5', 'a', 2)), (SELECT count(*) FROM infer.entities('bert_entities', repeat('a ', 100)));
RESET infer.on_error;

-- a verb that does not fit: the one that does
SELECT pg_temp.fails($$SELECT infer.embed('bert_classify', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.embed('regression', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.rerank('bert_e5', 'a', 'b')$$);
SELECT pg_temp.fails($$SELECT infer.entities('bert_cross', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.classify('bert_e5', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.probability('bert_cross', 'x', 'a', 'b')$$);
SELECT pg_temp.fails($$SELECT infer.predict('bert_e5', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.predict('bert_entities', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.outputs('bert_entities', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.tokenize('echo_string', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.chunk('echo_string', 'a', 9)$$);
SELECT pg_temp.fails($$SELECT infer.classify('bert_classify', 'a', 'b')$$);
SELECT pg_temp.fails($$SELECT infer('bert_cross', 'a')$$);

-- infer.embed_all()
SELECT index, pg_temp.rounded(embedding) FROM infer.embed_all('bert_e5', ARRAY['the query planner', NULL, '', 'the query planner'], '{"dimensions": 4}');
SELECT * FROM infer.embed_all('bert_e5', '{}');
SELECT * FROM infer.embed_all('bert_e5', NULL);
SELECT * FROM infer.embed_all(NULL, ARRAY['a']);
SELECT * FROM infer.embed_all('bert_e5', ARRAY[NULL, NULL]::text[]);
SELECT array_agg(index ORDER BY index), count(DISTINCT embedding) FROM infer.embed_all('bert_e5', '[5:6][1:2]={{a,b},{c,a}}'::text[]);
SELECT count(*), bool_and(embedding = infer.embed('bert_e5', 'text ' || index % 300)) FROM infer.embed_all('bert_e5', (SELECT array_agg('text ' || i % 300 ORDER BY i) FROM generate_series(1, 1000) i));
SELECT pg_temp.fails($$SELECT infer.embed_all('bert_e5', ARRAY['a', repeat('a ', 100)])$$);
SELECT g, index FROM generate_series(1, 2) g, infer.embed_all('bert_e5', ARRAY['a', 'b']);

-- labels, scores, entities
SELECT infer.classify('bert_classify', 'How do I create a user?'), infer.classify('bert_classify', 'a'::varchar), infer.classify('bert_classify', 'a'::char(9)), infer.classify('bert_classify', 'a'::name), infer.classify('bert_classify', 'a'::"char"), infer.classify('bert_classify', '"a"'::jsonb), infer.classify('bert_classify', '{"text": "a"}'::jsonb);
SELECT infer.classify('bert_classify', NULL::text) IS NULL, infer.classify('bert_classify', r) FROM (SELECT 1 AS id, 'a' AS text) r;
SELECT key, round(value::numeric, 3) FROM jsonb_each_text(infer.probabilities('bert_classify', 'How do I create a user?')) ORDER BY key;
SELECT round(infer.probability('bert_classify', 'price', 'It costs 5 euros')::numeric, 3), infer('bert_classify', 'a') -> 'label';
SELECT round(infer.rerank('bert_cross', 'a schema', 'who owns the schema')::numeric, 3), round(infer.predict('bert_cross', 'a schema', 'who owns the schema')::numeric, 3), round((infer('bert_cross', 'a schema', 'who owns the schema'))::numeric, 3);
SELECT infer.rerank('bert_cross', NULL, 'a') IS NULL, infer.rerank('bert_cross', 'a', NULL) IS NULL;
SELECT entity, text, start_offset, end_offset, round(score::numeric, 3), substring('How do I create a user?' from start_offset for end_offset - start_offset + 1) = text FROM infer.entities('bert_entities', 'How do I create a user?');
SELECT jsonb_path_query_array(infer('bert_entities', 'How do I create a user?'), '$[*].text'), infer('bert_entities', '');
SELECT count(*) FROM infer.entities('bert_entities', NULL);
SELECT jsonb_array_length(infer('bert_e5', 'a')), cardinality(infer.outputs('bert_e5', 'a')), pg_typeof(infer.outputs('bert_e5', 'a'));

-- tokens and chunks
SELECT infer.tokenize('bert_e5', 'the query planner'), infer.token_count('bert_e5', 'the query planner'), infer.tokenize('bert_e5', ''), infer.token_count('bert_e5', NULL) IS NULL;
SELECT infer.token_count('bert_default_prompt', 'a') = infer.token_count('bert_e5', 'a') AS without_prompt, infer.token_count('bert_e5', repeat('a ', 1000));
SELECT * FROM infer.chunk('bert_e5', 'The planner. It wants an index, and a schema. Who owns it?', 9);
SELECT * FROM infer.chunk('bert_e5', 'The planner. It wants an index, and a schema. Who owns it?', 14, options => '{"border": "sentence"}');
SELECT * FROM infer.chunk('bert_e5', 'a b c d e f g h', 6, 2);
SELECT count(*) FROM infer.chunk('bert_e5', E' \n ', 9);
SELECT count(*) FROM infer.chunk('bert_e5', 'a', NULL);

-- vectors
SELECT abs(infer.cosine_similarity('{1,0}', '{1,1}') - sqrt(0.5::float8)) < 1e-15, infer.cosine_similarity('{1,2}', '{2,4}'), infer.cosine_similarity('{1,2}', '{-1,-2}'), infer.cosine_similarity('{1,0}', '{0,1}');
SELECT infer.distance('{1,2,3}', '{4,6,3}', 'l2'), infer.distance('{1,2,3}', '{4,6,3}', 'l1'), infer.distance('{1,2,3}', '{4,6,3}', 'inner_product'), infer.distance('{1,2}', '{2,4}', 'cosine');
SELECT infer.cosine_similarity('{0,0}', '{1,1}'), infer.distance('{0,0}', '{1,1}', 'cosine'), infer.distance('{0,0}', '{0,0}', 'l2'), infer.distance('{0,0}', '{1,1}', 'inner_product');
SELECT infer.cosine_similarity('{1e30,1e30}', '{1e30,1e30}'), infer.cosine_similarity('{1e-30,1e-30}', '{1e-30,1e-30}'), infer.distance('{3e38,3e38}', '{-3e38,-3e38}', 'l2') > 8e38;
SELECT bool_and(abs(infer.distance(a, b, 'l2') - s) < 1e-12 * s) FROM (SELECT n, array_agg(i::real ORDER BY i) a, array_agg((i * 3 % 7)::real ORDER BY i) b, sqrt(sum((i - i * 3 % 7) ^ 2)) s FROM generate_series(1, 40) n, generate_series(1, n + 2) i GROUP BY n) v;
SELECT infer.distance(NULL, '{1}', 'l2') IS NULL, infer.distance('{1}', '{1}', NULL) IS NULL, infer.cosine_similarity('{1}', NULL) IS NULL;
SELECT infer.cosine_similarity('[3:4]={1,2}', '{1,2}');
SELECT pg_temp.fails($$SELECT infer.distance('{1,2}', '{1,2,3}', 'l2')$$);
SELECT pg_temp.fails($$SELECT infer.cosine_similarity('{}', '{}')$$);
SELECT pg_temp.fails($$SELECT infer.cosine_similarity('{1,NULL}', '{1,2}')$$);
SELECT pg_temp.fails($$SELECT infer.cosine_similarity('{{1},{2}}', '{1,2}')$$);
SELECT pg_temp.fails($$SELECT infer.cosine_similarity('{1,NaN}', '{1,2}')$$);
SELECT pg_temp.fails($$SELECT infer.distance('{1,2}', '{1,-Infinity}', 'cosine')$$);
SELECT pg_temp.fails($$SELECT infer.distance('{1,2}', '{1,2}', 'euclidean')$$);
CREATE TEMP TABLE vectors (v real[], near bool GENERATED ALWAYS AS (infer.cosine_similarity(v, '{1,0}') > 0.5) STORED);
INSERT INTO vectors VALUES ('{1,1}'), ('{0,1}') RETURNING *;

-- how they are computed: texts together, the query once
CREATE TEMP TABLE docs AS SELECT i AS id, 'the query planner ' || i AS body, infer.embed('bert_e5', 'planner ' || i) AS e FROM generate_series(1, 300) i;
ANALYZE docs;
EXPLAIN (COSTS OFF) UPDATE docs SET e = infer.embed('bert_e5', body);
EXPLAIN (COSTS OFF) SELECT id FROM docs ORDER BY infer.cosine_similarity(e, infer.embed('bert_e5', 'who owns the planner')) DESC LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM docs, infer.chunk('bert_e5', body, 9) WHERE infer.token_count('bert_e5', body) > 9;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM infer.embed_all('bert_e5', ARRAY['a', 'b']);
CREATE FUNCTION pg_temp.rows_computed() RETURNS bigint LANGUAGE sql AS $$ SELECT coalesce(sum(rows), 0)::bigint FROM infer.stats WHERE model = 'bert_e5' $$;
SELECT pg_temp.rows_computed() AS before \gset
SET infer.batching = off;
SELECT count(*) FROM (SELECT id FROM docs ORDER BY infer.cosine_similarity(e, infer.embed('bert_e5', 'once, however it is planned')) DESC LIMIT 5) s;
RESET infer.batching;
SELECT pg_temp.rows_computed() - :before AS rows_computed;
-- a call that all rows share is as urgent as one by itself
SELECT coalesce(sum(rows), 0) AS before FROM infer.stats WHERE model = 'bert_e5' AND class = 'interactive' \gset
SELECT count(*) FROM (SELECT id FROM docs ORDER BY infer.cosine_similarity(e, infer.embed('bert_e5', 'with batches, too')) DESC LIMIT 5) s;
SELECT sum(rows) - :before AS rows_computed FROM infer.stats WHERE model = 'bert_e5' AND class = 'interactive';
-- the next statement, and another parameter, are computed anew
PREPARE near(text) AS SELECT count(*) FROM docs WHERE infer.cosine_similarity(e, infer.embed('bert_e5', $1)) > 2;
SET infer.batching = off;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.rows_computed() AS before \gset
EXECUTE near('one');
EXECUTE near('two');
EXECUTE near('two');
SELECT pg_temp.rows_computed() - :before AS rows_computed;
DO $$
DECLARE
	found real[][] := '{}';
BEGIN
	FOR i IN 1..3 LOOP
		found := found || infer.embed('bert_e5', 'number ' || i % 2, '{"dimensions": 1, "normalize": false}');
	END LOOP;
	RAISE NOTICE '% %', found[1] = found[3], found[1] = found[2];
END
$$;

-- the precision that a measurement chose is the version's from then on
SELECT options ->> 'precision' = facts ->> 'precision' AS settled, options - 'precision' AS others
  FROM infer.model_versions WHERE name = 'bert_e5';

-- what to do about a pair that is too long
SELECT pg_temp.fails($$SELECT infer.rerank('bert_cross', 'q', repeat('a ', 100))$$);
