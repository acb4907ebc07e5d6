-- infer.submit_job(): what a request is worked out to, and what is refused.  No job is committed here.
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
\o
\pset format unaligned
\pset tuples_only on
-- What a statement that submits a job is worked out to; the job is rolled back.
CREATE FUNCTION pg_temp.plan(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	number bigint;
	answer text;
	detail text;
	hint text;
	context text;
BEGIN
	EXECUTE statement INTO number;
	SELECT concat_ws(E'\n', 'read:  ' || CASE WHEN facts #>> '{query,read}' LIKE 'SELECT source.%' THEN replace(facts #>> '{query,read}', E'\n', ' ') ELSE 'once' END, 'call:  ' || (facts #>> '{query,call}'), 'write: ' || (facts #>> '{query,write}'))
		INTO answer FROM infer.job WHERE job = number;
	RAISE EXCEPTION USING ERRCODE = 'P0099', MESSAGE = answer;
EXCEPTION
	WHEN SQLSTATE 'P0099' THEN
		RETURN sqlerrm;
	WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
		RETURN sqlstate || ': ' || sqlerrm ||
			CASE WHEN detail <> '' THEN E'\n  detail: ' || detail ELSE '' END ||
			CASE WHEN hint <> '' THEN E'\n  hint: ' || hint ELSE '' END ||
			coalesce(E'\n  context: ' || substring(context FROM '^(?:argument|verb)[^\n]*'), '');
END
$$;
CREATE TABLE reviews (id bigint PRIMARY KEY, title varchar(80), body text, stars int, label text, score real, embedding real[], answer jsonb, made_by text, made_by_version int);
CREATE TABLE notes (id bigint PRIMARY KEY, body text, label text);
CREATE TABLE flowers (id int PRIMARY KEY, b real, a int, "Sepal.Length" numeric, c float8, out jsonb, n float8);
CREATE TABLE scores (id bigint PRIMARY KEY, score double precision);
\set ECHO all

-- a table, by its primary key: the verb is that of the column that is written
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify@1', 'reviews', input => 'title', output => 'score', class => 'price', condition => 'score IS NULL')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'title || E''\n'' || body', output => 'embedding', options => '{"truncate": true}')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'stars', verb => 'token_count')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_cross', 'reviews', input => 'title, body', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_entities', 'reviews', input => 'body', output => 'answer')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'answer', verb => 'probabilities')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'flowers', input => 'a, b, c + 1', output => 'n')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_wide', 'flowers', input => 'a, b, c', output => 'out')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('classifier_words', 'flowers', input => 'array[a, b]', output => 'n', class => 'red')$$);

-- without input: features by name, or the one text
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'flowers', output => 'n')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'flowers', input => '*', output => 'n')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_named', 'flowers', output => 'out')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_cross', 'reviews', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'reviews', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_wide', 'flowers', output => 'out')$$);
-- a whole row, and a row that holds an input in one column
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'flowers', input => 'flowers', output => 'n')$$);
CREATE TABLE wide (id int PRIMARY KEY, x real[], y real[], out jsonb);
SELECT name, jsonb_path_query_array(inputs, '$[*].name') FROM infer.model_versions WHERE name IN ('echo_pair', 'echo_wide') ORDER BY name;
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_pair', 'wide', output => 'out')$$);
ALTER TABLE wide ADD numbers real[], ADD word text;
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_pair', 'wide', output => 'out')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_wide', 'wide', output => 'out')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_wide', 'wide', input => 'x', output => 'out')$$);

-- a query: a plain scan is read by key, anything else once
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT id, a, b * 2 AS b, 1 AS c FROM flowers WHERE a > 3', key => 'id', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT id, a, b, c FROM flowers', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT f.id, a, b, c FROM flowers AS f ORDER BY c;', input => 'a + 1, b, c', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT id, max(a) AS a, 1 AS b, 2 AS c FROM flowers GROUP BY id', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT id, a, b, c FROM flowers LIMIT 10', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT id, random() AS a, b, c FROM flowers', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT a AS id, a, b, c FROM flowers', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'SELECT id + 1 AS id, a, b, c FROM flowers', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', source => 'VALUES (1, 2, 3, 4)', key => 'column1', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_wide', source => 'SELECT id, a AS anything, b, c FROM flowers', target => 'scores', output => 'score', verb => 'outputs')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM reviews WHERE id IN (SELECT id FROM notes)', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_float', source => 'SELECT id, a AS whatever FROM flowers', target => 'scores', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_float', source => 'SELECT id, a AS whatever, b FROM flowers', target => 'scores', output => 'score')$$);
CREATE VIEW good_reviews AS SELECT * FROM reviews WHERE stars > 3;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM good_reviews', target => 'notes', output => 'label')$$);
-- a table into another one, and into itself
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', target => 'notes', output => 'label')$$);
-- which version made it
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', version_column => 'made_by')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', version_column => 'made_by_version')$$);

-- keys of any type, names of any kind
CREATE SCHEMA "My Schema";
CREATE TYPE "My Schema"."Mood" AS ENUM ('sad', 'so so', 'it''s "fine"');
CREATE DOMAIN "My Schema"."Positive" AS bigint CHECK (VALUE > 0);
CREATE TABLE "My Schema"."Odd.Table" ("Mood" "My Schema"."Mood", "B c" "My Schema"."Positive", u uuid, t text, "Text" text, "La""bel" text, PRIMARY KEY ("B c", "Mood"));
CREATE UNIQUE INDEX ON "My Schema"."Odd.Table" (t);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => '"La""bel"')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => '"La""bel"', key => '"Mood", "B c"')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => '"La""bel"', key => 't')$$);
ALTER TABLE "My Schema"."Odd.Table" ALTER t SET NOT NULL;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => '"La""bel"', key => 't')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => '"La""bel"', key => 'u')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => '"La""bel"', key => '"mood", "B c"')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', '"My Schema"."Odd.Table"', input => '"Text"', output => 'La"bel')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT "Mood" AS feeling, "B c" AS "b.C", "Text" FROM "My Schema"."Odd.Table"', key => 'feeling, "b.C"', target => 'notes', output => 'label')$$);
CREATE TABLE feelings (feeling "My Schema"."Mood", "b.C" bigint, label text, UNIQUE ("b.C", feeling));
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT "Mood" AS feeling, "B c" AS "b.C", "Text" FROM "My Schema"."Odd.Table"', key => 'feeling, "b.C"', target => 'feelings', output => 'label')$$);
ALTER TABLE feelings ALTER feeling SET NOT NULL, ALTER "b.C" SET NOT NULL;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT "Mood" AS feeling, "B c" AS "b.C", "Text" FROM "My Schema"."Odd.Table"', key => 'feeling, "b.C"', target => 'feelings', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT 1.5 AS id, ''a'' AS body', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT 1 AS id, ''a'' AS body', target => 'notes', output => 'label')$$);
CREATE TABLE by_number (id float8 PRIMARY KEY, label text);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', target => 'by_number', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, id, body FROM notes', key => 'id', target => 'notes', output => 'label')$$);
CREATE TABLE without_key (id int NOT NULL, body text, label text, CONSTRAINT later UNIQUE (id) DEFERRABLE);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => 'id')$$);
CREATE UNIQUE INDEX some_of_it ON without_key (id) WHERE body <> '';
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => 'id')$$);
CREATE UNIQUE INDEX ON without_key (id) INCLUDE (body);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => 'id')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => 'id, ID')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => 'id; DROP TABLE notes')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => '')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'without_key', input => 'body', output => 'label', key => 'ctid')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT point(1, 2) AS p, ''a'' AS body', key => 'p', target => 'notes', output => 'label')$$);

-- kinds of tables
CREATE TABLE parts (id int, part int, body text, label text, PRIMARY KEY (part, id)) PARTITION BY LIST (part);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'parts', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT part, id, body FROM parts', target => 'parts', output => 'label')$$);
CREATE TABLE heirs () INHERITS (notes);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM ONLY notes', target => 'notes', output => 'label')$$);
DROP TABLE heirs;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'good_reviews', input => 'body', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', target => 'good_reviews', output => 'label')$$);
CREATE MATERIALIZED VIEW some_reviews AS SELECT * FROM reviews;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'some_reviews', input => 'body', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'infer.job_id', input => 'body', output => 'label')$$);
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER there FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (id int, body text, label text) SERVER there;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'far', output => 'label')$$);
CREATE TEMPORARY TABLE mine (id bigint PRIMARY KEY, body text, label text);
CREATE TEMPORARY VIEW my_view AS SELECT * FROM mine;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'mine', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM reviews WHERE id IN (SELECT id FROM mine)', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM my_view', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'id IN (SELECT id FROM mine)')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', target => 'mine', output => 'label')$$);
CREATE TABLE ruled (id bigint PRIMARY KEY, body text, label text);
CREATE RULE nothing AS ON UPDATE TO ruled DO INSTEAD NOTHING;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'ruled', output => 'label')$$);
CREATE TABLE strict (id bigint PRIMARY KEY, label text, owner text NOT NULL);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body', target => 'strict', output => 'label')$$);
CREATE TABLE counted (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, label text);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body', target => 'counted', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 4294967294::oid::regclass, output => 'label')$$);

-- texts that users write are what they are said to be, and nothing of them leaks
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body -- a comment', output => 'label', condition => 'true -- another')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM notes -- and no more', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body /* not closed', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body FROM reviews', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body LIMIT 1', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'DISTINCT body', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body; SELECT 1', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body)', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => '', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'notes.*, 1', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'max(body)', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'lag(body) OVER ()', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'regexp_split_to_table(body, '' '')', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'body || random()', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'bodi', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => '$1', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => 'DEFAULT', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => '(SELECT title FROM reviews AS source WHERE source.id = notes.id)', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('echo_wide', 'flowers', input => 'ROW(a, b, c)', output => 'out')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'label IS NULL ORDER BY id')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'label IS NULL) OR (true')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'true, false')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'true AS yes')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => '*')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'notes.*')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'id')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'random() < 0.5')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => 'max(id) > 3')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM notes; SELECT 1', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'UPDATE notes SET label = NULL RETURNING id, body', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body INTO elsewhere FROM notes', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'WITH gone AS (DELETE FROM notes RETURNING id, body) SELECT id, body FROM gone', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM notes FOR UPDATE', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM (SELECT * FROM notes FOR SHARE) AS n', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM notes WHERE id = $1', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'TABLE nowhere', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => '', target => 'notes', output => 'label')$$);

SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', input => $q$'\'' || body$q$, output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', condition => $q$body <> E'\n'$q$)$$);
RESET standard_conforming_strings;
RESET escape_string_warning;

-- what does not go together
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', source => 'SELECT 1', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT id, body FROM notes', condition => 'true', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT body FROM notes', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', source => 'SELECT body FROM notes', key => 'id', target => 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job(NULL, 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('nobody', 'notes', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify@7', 'notes', output => 'label')$$);

-- outputs: which column, which verb, which type
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'labels')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label, body')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'id')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'xmin')$$);
CREATE TABLE made (id bigint PRIMARY KEY, body text, twice bigint GENERATED ALWAYS AS (id * 2) STORED, counted int GENERATED ALWAYS AS IDENTITY, at timestamptz, yes bool, small smallint, money numeric(6, 2), letters char(3), kind "My Schema"."Mood", j json, floats float8[], ints int[], texts text[]);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'made', output => 'twice', input => 'body', verb => 'token_count')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'made', output => 'counted', input => 'body', verb => 'token_count')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'at')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'at', verb => 'classify')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'yes')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'kind')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'texts')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'small')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'money', class => 'price')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'letters')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'j')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'made', input => 'body', output => 'floats')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'made', input => 'body', output => 'floats')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'made', input => 'body', output => 'ints')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'made', input => 'body', output => 'ints', verb => 'tokenize')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'flowers', output => 'id')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'reviews', input => '1, 2, 3', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', verb => 'guess')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', verb => 'try')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_entities', 'reviews', input => 'body', output => 'answer', verb => 'entities')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'answer', verb => 'chunk')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'score', verb => 'predict')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'score', class => 'nonsense')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', class => 'price')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'score', verb => 'probability')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', version_column => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', version_column => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', version_column => 'id')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', version_column => 'nothing')$$);

-- inputs and options: what the verb itself refuses
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'title, body', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'embedding', output => 'label')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'id', output => 'embedding')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'title, body', output => 'embedding')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_cross', 'reviews', input => 'body', output => 'score')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'flowers', input => 'a, b', output => 'n')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('regression', 'made', input => 'at, 1, 2', output => 'money')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'embedding', options => '{"dimension": 4}')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'embedding', options => '{"prompt": "answer"}')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'embedding', options => '[]')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', options => '{"truncate": true}')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', options => NULL)$$);

-- numbers
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', shards => 0)$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', shards => 65)$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', job_priority => 1001)$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', max_failures => 'NaN')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', completion_window => '0')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', completion_window => '-1 day')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', name => '')$$);
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'notes', output => 'label', name => repeat('x', 256))$$);

-- what is kept of it, and the job's row
ALTER SEQUENCE infer.job_id RESTART 1000;
BEGIN;
SET LOCAL search_path = "My Schema", public;
SET LOCAL timezone = 'Asia/Tokyo';
SET LOCAL datestyle = 'SQL, DMY';
SELECT infer.submit_job('bert_classify', 'notes', input => 'body', output => 'label', condition => 'label IS NULL', name => 'nightly', job_priority => 10, completion_window => '1 month 2 days 6 hours', max_failures => 0.01, shards => 3) AS job \gset
SELECT request #- '{table,oid}' FROM infer.job WHERE job = :job;
SELECT name, owner_name, model, state, sqlstate, message, priority, total, total_estimated, faults, started, finished, expires - submitted, resume_at FROM infer.job WHERE job = :job;
-- the same name once more is the same job
SELECT infer.submit_job('bert_e5', 'reviews', input => 'body', output => 'embedding', name => 'nightly') - :job;
SELECT infer.submit_job('bert_classify', 'notes', output => 'label', name => 'Nightly') > :job;
-- waiting for what nobody else can see yet
SAVEPOINT before;
SELECT infer.wait_job(:job);
ROLLBACK TO before;
SELECT infer.wait_job(:job, timeout => '0');
-- only jobs that have ended are dropped or retried
SELECT infer.drop_job(:job);
ROLLBACK TO before;
SELECT infer.retry_job(:job);
ROLLBACK TO before;
SELECT infer.cancel_job(:job), infer.cancel_job(:job);
SELECT state FROM infer.job WHERE job = :job;
UPDATE infer.job SET state = 'cancelled', finished = now() WHERE job = :job;
SELECT infer.cancel_job(:job), infer.wait_job(:job);
-- of a job that has no shards yet nobody knows how much there is to do
SELECT infer.retry_job(:job) IS NULL;
SELECT state, finished, expires > now() + '1 month' FROM infer.job WHERE job = :job;
ROLLBACK TO before;
-- what failed comes back, and what was left; what is done does not
UPDATE infer.job SET state = 'expired', total = 100, faults = 3, sqlstate = '53400', message = 'late', finished = now(), resume_at = now() WHERE job = :job;
INSERT INTO infer.job_shard SELECT :job, 1, 'completed', NULL, '{50}', '{50}', true, 47, 3, 0, 0, 0, 2, 0, 9, 1, 0, 0, 0, 0, 0, '\x00000000000000000000000000000000', '\x00000000000000000000000000000000', 1, now(), now();
INSERT INTO infer.job_shard SELECT :job, 2, 'in_progress', '{50}', NULL, '{60}', false, 8, 1, 1, 40, 0, 2, 0, 9, 1, 0, 0, 0, 0, 0, '\x00000000000000000000000000000000', '\x00000000000000000000000000000000', 1, now(), now();
INSERT INTO infer.job_item SELECT :job, 1, i, ARRAY[i::text], 'failed', 5, '22023', 'bad', true, NULL, now() FROM generate_series(1, 3) AS i;
INSERT INTO infer.job_item SELECT :job, 2, 1, '{51}', 'failed', 1, '22023', 'bad', false, NULL, now();
INSERT INTO infer.job_item SELECT :job, 2, 2, '{52}', 'expired', 1, '22023', 'bad', false, NULL, now();
UPDATE infer.job_shard SET faults = 3, resume_at = now() + '1 hour' WHERE job = :job;
SAVEPOINT expired;
SELECT infer.retry_job(:job);
SELECT state, faults, sqlstate, message, finished, resume_at FROM infer.job WHERE job = :job;
SELECT shard, state, checkpoint, read_to_end, done, failed, gone, expired, cancelled, faults, resume_at FROM infer.job_shard WHERE job = :job ORDER BY shard;
SELECT shard, item, key, state, attempts, sqlstate, message, retryable, due <= clock_timestamp() FROM infer.job_item WHERE job = :job ORDER BY shard, item;
ROLLBACK TO expired;
-- a completed one has nothing but its failed items
UPDATE infer.job SET state = 'completed' WHERE job = :job;
DELETE FROM infer.job_shard WHERE job = :job AND shard = 2;
DELETE FROM infer.job_item WHERE job = :job AND shard = 2;
SAVEPOINT completed;
SELECT infer.retry_job(:job);
SELECT state, failed FROM infer.job_shard WHERE job = :job;
ROLLBACK TO completed;
DELETE FROM infer.job_item WHERE job = :job;
SELECT infer.retry_job(:job);
SELECT state, message, finished IS NOT NULL FROM infer.job WHERE job = :job;
-- another of its name runs
UPDATE infer.job SET state = 'failed', name = 'Nightly' WHERE job = :job;
SAVEPOINT failed;
SELECT infer.retry_job(:job);
ROLLBACK TO failed;
-- one that a dump brought is history
UPDATE infer.job SET origin = 'elsewhere', name = NULL WHERE job = :job;
SAVEPOINT elsewhere;
SELECT infer.retry_job(:job);
ROLLBACK TO elsewhere;
INSERT INTO infer.job_input VALUES (:job, 1, '{1}', '{a}');
SELECT infer.drop_job(:job);
SELECT count(*) FROM infer.job WHERE job = :job;
SELECT count(*) FROM infer.job_shard WHERE job = :job;
SELECT count(*) FROM infer.job_input WHERE job = :job;
SELECT infer.drop_job(:job);
ROLLBACK;
SELECT infer.cancel_job(0);
SELECT infer.retry_job(0);
SELECT infer.wait_job(0);
SELECT infer.drop_job(0);
SELECT infer.wait_job(NULL) IS NULL, infer.cancel_job(NULL) IS NULL;
BEGIN READ ONLY;
SELECT infer.submit_job('bert_classify', 'notes', output => 'label');
ROLLBACK;

-- privileges: of the model, the source, the target, on the columns that are written
CREATE ROLE jobs_writer LOGIN;
CREATE ROLE jobs_other LOGIN;
SET ROLE jobs_writer;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label')$$);
RESET ROLE;
SELECT infer.grant_model('bert_classify', 'jobs_writer');
SET ROLE jobs_writer;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label')$$);
RESET ROLE;
GRANT SELECT ON reviews TO jobs_writer;
SET ROLE jobs_writer;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label')$$);
RESET ROLE;
GRANT UPDATE (score) ON reviews TO jobs_writer;
SET ROLE jobs_writer;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label')$$);
RESET ROLE;
GRANT UPDATE (label) ON reviews TO jobs_writer;
GRANT SELECT ON infer.job TO jobs_writer;
-- some columns do not suffice: rows are known by their place as well
SELECT infer.grant_model('bert_classify', 'jobs_other');
GRANT SELECT (id, body), UPDATE (label) ON reviews TO jobs_other;
SET ROLE jobs_other;
SELECT pg_temp.plan($$SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label')$$);
RESET ROLE;
BEGIN;
SET ROLE jobs_writer;
SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label', name => 'nightly') AS job \gset
SELECT owner = 'jobs_writer'::regrole, owner_name FROM infer.job WHERE job = :job;
-- nobody else's, whose names are their own
SET ROLE jobs_other;
SAVEPOINT other;
SELECT infer.cancel_job(:job);
ROLLBACK TO other;
SELECT infer.wait_job(:job, '0');
ROLLBACK TO other;
RESET ROLE;
SELECT infer.submit_job('bert_classify', 'notes', output => 'label', name => 'nightly') > :job;
SELECT infer.cancel_job(:job);
ROLLBACK;
BEGIN;
SET ROLE jobs_writer;
SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', target => 'notes', output => 'label');
ROLLBACK;
GRANT INSERT ON notes TO jobs_writer;
BEGIN;
SET ROLE jobs_writer;
SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', target => 'notes', output => 'label');
ROLLBACK;
GRANT SELECT, UPDATE ON notes TO jobs_writer;
BEGIN;
SET ROLE jobs_writer;
SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', target => 'notes', output => 'label') > 0;
ROLLBACK;
-- whoever may not connect has no jobs
SELECT current_database() AS here \gset
REVOKE CONNECT ON DATABASE :"here" FROM PUBLIC;
BEGIN;
SET ROLE jobs_writer;
\set VERBOSITY sqlstate
SELECT infer.submit_job('bert_classify', 'reviews', input => 'body', output => 'label');
\set VERBOSITY default
ROLLBACK;
GRANT CONNECT ON DATABASE :"here" TO PUBLIC;
-- users have no way around the functions
BEGIN;
SET ROLE jobs_other;
SELECT job FROM infer.job;
ROLLBACK;
BEGIN;
SET ROLE jobs_other;
UPDATE infer.job SET state = 'completed';
ROLLBACK;

-- objects of somebody else's making are not found: everything is resolved as it was written
CREATE SCHEMA trap;
CREATE FUNCTION trap.trapped(anyelement, anyelement) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE OPERATOR trap.= (LEFTARG = anyelement, RIGHTARG = anyelement, FUNCTION = trap.trapped);
CREATE TABLE trap.job (job int);
BEGIN;
SET LOCAL search_path = trap, pg_catalog, public;
SELECT infer.submit_job('bert_classify', 'public.notes', output => 'label', condition => 'label IS NULL', name => 'trapped') > 0;
ROLLBACK;

DROP SCHEMA trap CASCADE;
DROP OWNED BY jobs_writer, jobs_other;
DROP ROLE jobs_writer, jobs_other;
DROP SCHEMA "My Schema" CASCADE;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;
DROP MATERIALIZED VIEW some_reviews;
DROP VIEW good_reviews;
DROP TABLE reviews, notes, flowers, scores, wide, feelings, without_key, parts, ruled, strict, counted, made, by_number;

-- other scripts count versions of the same models
SELECT count(infer.drop_model(name)) > 0 FROM infer.models;
