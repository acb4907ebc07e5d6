-- How many calls and requests statements make of 9990 different rows, with 256 rows a request; and
-- what EXPLAIN says of them.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set content `base64 -w0 :srcdir/fixtures/values/echo_float.onnx`
SELECT infer.create_model('counted', data => decode(:'content', 'base64'));
CREATE TABLE numbers (id int PRIMARY KEY, g int, x real, y float8);
INSERT INTO numbers SELECT i, 1 + i * 7919 % 9990, i / 8.0 FROM generate_series(1, 9990) i;
ANALYZE numbers;
-- of all nodes: calls, those answered by an equal one, requests
CREATE FUNCTION counts(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF, SUMMARY OFF) ' || query INTO plan;
	RETURN (SELECT format('calls %s, reused %s, batches %s', sum((node -> 'Calls')::int), sum((node -> 'Reused')::int), sum((node -> 'Batches')::int))
			FROM jsonb_path_query(plan, 'strict $.**?(@."Custom Plan Provider" == "InferBatch")') node);
END
$$;
-- what EXPLAIN says, without what differs from run to run or from version to version
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
		CONTINUE WHEN line ~ '^ *(Window|Storage|Sort Method): ';
		line := regexp_replace(line, '\(actual rows=(\d+)(\.00)? loops=1\)', '(\1 rows)');
		RETURN NEXT regexp_replace(line, 'Time: [\d.]+ ms', 'Time: … ms', 'g');
	END LOOP;
END
$$;
SELECT infer.predict('counted', 1);
-- a machine that is busy must not make requests shorter
ALTER SYSTEM SET infer.slice = 1000000;
SELECT pg_reload_conf(), pg_sleep(0.5);
\o
\pset format unaligned
\pset tuples_only on
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
\set ECHO all
SHOW infer.statement_batch_rows;

-- all rows are wanted for certain: full requests
SELECT counts($$UPDATE numbers SET y = infer.predict('counted', x)$$);
SELECT counts($$SELECT sum(infer.predict('counted', x)) FROM numbers$$);
SELECT counts($$SELECT FROM numbers ORDER BY infer.predict('counted', x)$$);
SELECT counts($$INSERT INTO numbers SELECT id + 10000, 0, x, infer.predict('counted', x) FROM numbers WHERE id <= 1000$$);
DELETE FROM numbers WHERE id > 10000;
-- the client may stop at any row: 1, 2, 4 … 128, then 39 of up to 256
SELECT counts($$SELECT infer.predict('counted', x) FROM numbers$$);
SELECT counts($$SELECT id FROM numbers WHERE infer.predict('counted', x) >= 0$$);

-- LIMIT: no row more
SELECT counts($$SELECT infer.predict('counted', x) FROM numbers LIMIT 10$$);
SELECT counts($$SELECT infer.predict('counted', x) FROM numbers ORDER BY g LIMIT 10$$);
SELECT counts($$SELECT infer.predict('counted', x) FROM numbers ORDER BY g OFFSET 5 LIMIT 10$$);
SELECT counts($$SELECT id FROM numbers WHERE infer.predict('counted', x) >= 0 LIMIT 10$$);
SELECT counts($$SELECT EXISTS (SELECT FROM numbers WHERE infer.predict('counted', x) >= 0)$$);

-- conditions: cheap ones first, and nothing where no row comes
SELECT counts($$SELECT id FROM numbers WHERE g < 0 AND infer.predict('counted', x) >= 0$$);
SELECT counts($$SELECT id FROM numbers WHERE infer.predict('counted', x) >= 0 AND g < 0$$);
SELECT counts($$SELECT sum(id) FROM numbers WHERE infer.predict('counted', x) >= 0 AND g <= 100$$);
SELECT counts($$SELECT sum(CASE WHEN id % 999 = 0 THEN infer.predict('counted', x) ELSE 0 END) FROM numbers$$);
SELECT counts($$SELECT sum(infer.predict('counted', x)) FILTER (WHERE id % 999 = 0) FROM numbers$$);

-- a call without a column: once
SELECT counts($$SELECT sum(id + infer.predict('counted', 1)) FROM numbers$$);
SELECT counts($$UPDATE numbers SET y = infer.predict('counted', 1)$$);
-- the same call twice in a statement, and several
SELECT counts($$SELECT sum(infer.predict('counted', x)), max(infer.predict('counted', x)) FROM numbers$$);
SELECT counts($$SELECT sum(infer.predict('counted', x)), max(infer.predict('counted', -x)) FROM numbers$$);
-- equal inputs
SELECT counts($$SELECT sum(infer.predict('counted', id % 10)) FROM numbers WHERE id <= 256$$);

-- NULL asks nobody
SELECT counts($$SELECT count(infer.predict('counted', nullif(x, 0.125))) FROM numbers$$);

-- the settings
SET infer.statement_batch_rows = 100;
SELECT counts($$UPDATE numbers SET y = infer.predict('counted', x)$$);
SET infer.statement_batch_rows = 10;
SELECT counts($$UPDATE numbers SET y = infer.predict('counted', x)$$);
RESET infer.statement_batch_rows;

-- batching off: no node, also not in plans that were made before
SET infer.batching = off;
SELECT counts($$SELECT sum(infer.predict('counted', x)) FROM numbers WHERE id <= 300$$);
SET infer.batching = on;
SET plan_cache_mode = force_generic_plan;
PREPARE kept AS SELECT sum(infer.predict('counted', x)) FROM numbers WHERE id <= 300;
SELECT counts('EXECUTE kept');
SET infer.batching = off;
SELECT counts('EXECUTE kept');
SET infer.batching = on;
SELECT counts('EXECUTE kept');
RESET plan_cache_mode;
RESET infer.batching;

-- by class: rows that are sent together, and those that are alone
CREATE TEMP TABLE before AS SELECT class, calls, rows FROM infer.stats WHERE model = 'counted';
UPDATE numbers SET y = infer.predict('counted', x);
SELECT class, s.calls - coalesce(b.calls, 0), s.rows - coalesce(b.rows, 0) FROM infer.stats s LEFT JOIN before b USING (class)
WHERE model = 'counted' AND s.rows > coalesce(b.rows, 0) ORDER BY class;
DROP TABLE before;
CREATE TEMP TABLE before AS SELECT class, calls, rows FROM infer.stats WHERE model = 'counted';
SET infer.batching = off;
SELECT count(infer.predict('counted', x)) FROM numbers WHERE id <= 300;
RESET infer.batching;
SELECT class, s.calls - b.calls, s.rows - b.rows FROM infer.stats s JOIN before b USING (class)
WHERE model = 'counted' AND s.rows > b.rows ORDER BY class;

-- what EXPLAIN says
SELECT * FROM explained($$UPDATE numbers SET y = infer.predict('counted', x)$$);
SELECT * FROM explained($$SELECT id FROM numbers WHERE infer.predict('counted', x) > 5 AND g <= 100 LIMIT 10$$);
SELECT * FROM explained($$SELECT sum(CASE WHEN id < 10 THEN infer.predict('counted', x) END) FROM numbers$$);
EXPLAIN (COSTS OFF) SELECT infer.predict('counted', x) FROM numbers;
SELECT * FROM explained($$SELECT infer.predict('counted', x), lag(infer.predict('counted', x)) OVER (ORDER BY id) FROM numbers$$);
\set VERBOSITY terse
DO $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, COSTS OFF) UPDATE numbers SET y = infer.predict(''counted'', x)' INTO plan;
	plan := jsonb_path_query_first(plan, 'strict $.**?(@."Custom Plan Provider" == "InferBatch")');
	RAISE NOTICE '%', (SELECT jsonb_object_agg(key, CASE WHEN key LIKE '%Time' THEN to_jsonb(jsonb_typeof(value)) ELSE value END)
		FROM jsonb_each(plan) WHERE key IN ('Infer', 'Calls', 'Reused', 'Batches', 'Queue Time', 'Device Time', 'Device'));
	EXECUTE 'EXPLAIN (FORMAT JSON, COSTS OFF) SELECT infer.predict(''counted'', x) FROM numbers' INTO plan;
	plan := jsonb_path_query_first(plan, 'strict $.**?(@."Custom Plan Provider" == "InferBatch")');
	RAISE NOTICE '%', (SELECT jsonb_object_agg(key, value) FROM jsonb_each(plan) WHERE key IN ('Infer', 'Calls', 'Batches'));
END
$$;

DROP TABLE numbers, before;
DROP FUNCTION counts, explained;
SELECT infer.drop_model('counted');
ALTER SYSTEM RESET infer.slice;
SELECT pg_reload_conf();
