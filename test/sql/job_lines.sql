-- Files of JSON lines: what a line may be, what is told of one that cannot be run, and what is no file.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set values :srcdir/fixtures/values.psql
\i :values
\set text :srcdir/fixtures/text.psql
\set options '{"precision": "f32"}'
\set model bert_e5
\i :text
\set model bert_cross
\i :text
\o
\pset format unaligned
\pset tuples_only on
-- what is told of one line beside one that can be run; and what is kept of it
CREATE FUNCTION pg_temp.check_line(line text, model text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kept infer.job_request;
	number bigint;
BEGIN
	SET LOCAL client_min_messages = error;
	number := infer.import_requests(line || E'\n{"custom_id": "fine", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": ""}}', model);
	SELECT * INTO kept FROM infer.job_request r WHERE r.job = number AND r.line = 1;
	RAISE EXCEPTION USING errcode = 'ZZ000', message = coalesce(kept.sqlstate || ': ' || kept.message, 'fine: ' || kept.url || ' ' || kept.model);
EXCEPTION WHEN sqlstate 'ZZ000' THEN
	RETURN sqlerrm;
END
$$;
CREATE FUNCTION pg_temp.check_body(url text, body jsonb) RETURNS text LANGUAGE sql AS
	$$SELECT pg_temp.check_line(jsonb_build_object('custom_id', 'a', 'method', 'POST', 'url', url, 'body', body)::text)$$;
\set ECHO all

-- lines
SELECT pg_temp.check_line('{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line(E'\t {"custom_id": "a", "url": "/v1/embeddings", "body": {"model": "bert_e5@1", "input": "a"}} \t\r');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings", "body": {"input": "a"}}', 'bert_e5');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings", "body": {"input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings", "body": {"model": 1, "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}');
SELECT pg_temp.check_line('nonsense');
SELECT pg_temp.check_line('[{"custom_id": "a"}]');
SELECT pg_temp.check_line('"a"');
SELECT pg_temp.check_line('{"custom_id": "a\u0000", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line(repeat('[', 100000));
SELECT pg_temp.check_line(repeat('x', 16 * 1024 * 1024 + 1));
SELECT pg_temp.check_line('{"url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": 1, "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": null, "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": "", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": "a", "method": "GET", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": "a", "body": {"model": "bert_e5", "input": "a"}}');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/chat/completions", "body": {"model": "bert_e5", "messages": []}}');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings"}');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings", "body": []}');
SELECT pg_temp.check_line('{"custom_id": "a", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}, "priority": 1}');

-- bodies
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": ["a", ""], "dimensions": 3, "prompt": "query", "truncate": true, "normalize": false, "encoding_format": "base64", "user": "me"}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": "a", "prompt": null, "encoding_format": null}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5"}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": null}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": []}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": [1, 2]}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": ["a", null]}');
SELECT pg_temp.check_body('/v1/embeddings', jsonb_build_object('model', 'bert_e5', 'input', array_fill('a'::text, ARRAY[2048])));
SELECT pg_temp.check_body('/v1/embeddings', jsonb_build_object('model', 'bert_e5', 'input', array_fill('a'::text, ARRAY[2049])));
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": "a", "dimensions": 17}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": "a", "prompt": "answer"}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": "a", "encoding_format": "int8"}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5", "input": "a", "temperature": 1}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_cross", "input": "a"}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "nobody", "input": "a"}');
SELECT pg_temp.check_body('/v1/embeddings', '{"model": "bert_e5@7", "input": "a"}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": ["b", {"text": "c"}], "top_n": 1, "return_documents": true, "truncate": true}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "documents": ["b"]}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": ["a"], "documents": ["b"]}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": "b"}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": [{"title": "b"}]}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": ["b"], "top_n": 0}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": ["b"], "top_n": 1.5}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": ["b"], "return_documents": 1}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_cross", "query": "a", "documents": ["b"], "dimensions": 3}');
SELECT pg_temp.check_body('/v1/rerank', '{"model": "bert_e5", "query": "a", "documents": ["b"]}');
SELECT pg_temp.check_body('/v1/infer', '{"model": "regression", "input": {"a": 1, "b": 2, "c": 3}}');
SELECT pg_temp.check_body('/v1/infer', '{"model": "regression", "input": null}');
SELECT pg_temp.check_body('/v1/infer', '{"model": "regression", "inputs": [1]}');

-- what is no file
SELECT pg_temp.fails($$SELECT infer.import_requests('')$$);
SELECT pg_temp.fails($$SELECT infer.import_requests(E'\r\n \n\t')$$);
SELECT pg_temp.fails($$SELECT infer.import_requests(NULL)$$);
SELECT pg_temp.fails($$SELECT infer.import_requests(E'a,b\n1,2\n')$$);
SELECT pg_temp.fails($$SELECT infer.import_requests(repeat('{"custom_id": "a", "url": "/v1/embeddings", "body": {"model": "bert_e5", "input": "a"}}' || E'\n\n', 2))$$);
SELECT pg_temp.fails($$SELECT infer.import_requests(E'{"custom_id": "a"}\n[]\n{"custom_id": "a"}')$$);
SELECT pg_temp.fails($$SELECT infer.import_requests('{}', 'nobody')$$);
SELECT pg_temp.fails($$SELECT infer.import_requests('{}', job_priority => 1000000)$$);
SELECT pg_temp.fails($$SELECT infer.submit_job_file('/nowhere/requests.jsonl')$$);
SELECT pg_temp.fails($$SELECT infer.submit_job_file('/')$$);
SELECT pg_temp.fails($$SELECT infer.export_results(0)$$);
SELECT infer.export_results(NULL);
CREATE ROLE regress_lines;
SET ROLE regress_lines;
SELECT pg_temp.fails($$SELECT infer.submit_job_file('/nowhere/requests.jsonl')$$);
SELECT pg_temp.fails($$SELECT * FROM infer.job_request$$);
RESET ROLE;
DROP ROLE regress_lines;

-- bad lines are told by number
BEGIN;
SELECT infer.import_requests($$
{"custom_id": "a", "url": "/v1/embeddings", "body": {"input": "a"}}

nonsense
{"custom_id": "b", "url": "/v1/completions"}
$$, 'bert_e5') AS job \gset
SELECT line, custom_id, url, model, body, sqlstate FROM infer.job_request WHERE job = :job ORDER BY line;
SELECT model, total, state FROM infer.jobs WHERE job = :job;
SELECT pg_temp.fails('SELECT infer.export_results(' || :job || ')') ~ 'has not ended';
ROLLBACK;

-- other scripts count versions of the same models
SELECT count(infer.drop_model(name)) > 0 FROM infer.models;
