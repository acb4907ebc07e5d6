-- What each verb returns of each kind of model, and where a call may stand.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set values :srcdir/fixtures/values.psql
\i :values
\o
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- infer(): the bare value of one output, an object of several, a label with probabilities
SELECT infer('regression', 1, 2, 3), infer('shares', 1, 2, 1), infer('several', 1, 2), infer('echo_matrix', 1, 2, 3, 4);
SELECT infer('classifier_words', 5, 6, 5) -> 'label', infer('classifier_numbers', 1, 5, 1) -> 'label', infer('classifier_renamed', 1, 5, 1) -> 'label';
SELECT key, round(value::numeric, 5) FROM jsonb_each_text(infer('classifier_words', 0, 1, 2) -> 'probabilities');
SELECT key, round(value::numeric, 5) FROM jsonb_each_text(infer('classifier_numbers', 0, 1, 2) -> 'probabilities');
SELECT infer('shares_declared', 1, 2, 1), infer('root_declared', 0.0625);
-- declared classes over numbers that are no probabilities
SELECT infer('shares_declared', -1, 4, -1);
-- a label without scores
SELECT infer('classifier_label', 1, 5, 1), infer.classify('classifier_label', 1, 0, 5);
SELECT pg_temp.fails($$SELECT infer.probabilities('classifier_label', 1, 5, 1)$$);
SELECT pg_temp.fails($$SELECT infer.outputs('classifier_label', 1, 5, 1)$$);

-- infer.predict(): exactly one number
SELECT infer.predict('regression', 1, 2, 3), infer.predict('regression', ARRAY[1, 2, 3]), infer.predict('regression', '{"c": 3, "b": 2, "a": 1}'::jsonb), infer.predict('echo_bigint', 5), infer.predict('echo_bool', true);
-- the float32 that the model returned, exactly
SELECT infer.predict('echo_float', 0.1), infer.predict('echo_float', 0.1) = 0.1::real, infer.predict('echo_double', 0.1);
SELECT pg_temp.fails($$SELECT infer.predict('shares', 1, 2, 3)$$);
SELECT pg_temp.fails($$SELECT infer.predict('several', 1, 2)$$);
SELECT pg_temp.fails($$SELECT infer.predict('classifier_words', 1, 2, 3)$$);
SELECT pg_temp.fails($$SELECT infer.predict('echo_string', 'w')$$);

-- infer.outputs(): several numbers
SELECT infer.outputs('shares', 1, 2, 1), infer.outputs('echo_matrix', 1, 2, 3, 4), infer.outputs('regression', 1, 2, 3), infer.outputs('shares_declared', 1, 2, 1);
SELECT array_agg(round(p::numeric, 5)) FROM unnest(infer.outputs('classifier_words', 0, 1, 2)) p;
SELECT pg_temp.fails($$SELECT infer.outputs('several', 1, 2)$$);
SELECT pg_temp.fails($$SELECT infer.outputs('echo_words', 'a', 'b')$$);

-- infer.classify(): the label
SELECT infer.classify('classifier_words', 0, 9, 1), infer.classify('classifier_numbers', 0, 9, 1), infer.classify('classifier_renamed', 0, 9, 1), infer.classify('shares_declared', 1, 2, 1);
-- of two declared classes one number is the second one's probability
SELECT infer.classify('root_declared', 0.0625), infer.classify('root_declared', 0.25), infer.classify('root_declared', 0.5625);
SELECT pg_temp.fails($$SELECT infer.classify('root_declared', 4)$$);
SELECT pg_temp.fails($$SELECT infer.classify('shares', 1, 2, 1)$$);
SELECT pg_temp.fails($$SELECT infer.classify('regression', 1, 2, 1)$$);

-- infer.probabilities() and infer.probability()
SELECT infer.probabilities('shares_declared', 1, 2, 1), infer.probabilities('root_declared', 0.0625);
SELECT infer.probability('shares_declared', 'y', 1, 2, 1), infer.probability('root_declared', 'no', 0.0625), round(infer.probability('classifier_words', 'blue', 0, 1, 2)::numeric, 5), round(infer.probability('classifier_renamed', 'thirty', 0, 1, 2)::numeric, 5), round(infer.probability('classifier_numbers', '30', 0, 1, 2)::numeric, 5);
SELECT infer.probability('shares_declared', NULL, 1, 2, 1) IS NULL, infer.probability('shares_declared', 'x', NULL::real[]) IS NULL;
SELECT pg_temp.fails($$SELECT infer.probability('classifier_words', 'Red', 1, 2, 3)$$);
SELECT pg_temp.fails($$SELECT infer.probabilities('shares', 1, 2, 3)$$);
SELECT pg_temp.fails($$SELECT infer.probabilities('shares_declared', -1, 4, -1)$$);

-- versions by name
SELECT infer.predict('regression@1', 1, 2, 3);

-- a call site outlives its statement: other models and errors in one place
CREATE FUNCTION call_site(model text, a anyelement) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RETURN infer(model, a); END $$;
SELECT call_site(m, 2) FROM (VALUES ('echo_float'), ('echo_string'), ('echo_float'), ('echo_double')) v(m);
SELECT call_site('echo_wide', ARRAY[1, 2, 3]), call_site('echo_string', 'w'::text);
DO $$
DECLARE
	m text;
BEGIN
	FOREACH m IN ARRAY '{echo_float,nobody,echo_double,echo_wide,echo_bool}'::text[] LOOP
		BEGIN
			RAISE NOTICE '% %', m, infer(m, 1);
		EXCEPTION WHEN OTHERS THEN
			RAISE NOTICE '% %', m, sqlerrm;
		END;
	END LOOP;
END
$$;
-- the privilege is looked at in every command
CREATE ROLE regress_infer_user;
CREATE FUNCTION call_as(who text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', who);
	RETURN infer('echo_float', 1);
EXCEPTION WHEN insufficient_privilege THEN
	RETURN sqlstate;
END
$$;
SELECT call_as(current_user), call_as('regress_infer_user'), call_as(current_user);
SELECT infer.grant_model('echo_float', 'regress_infer_user');
SELECT call_as('regress_infer_user');
SELECT infer.revoke_model('echo_float', 'regress_infer_user');
SELECT call_as('regress_infer_user');
-- a prepared statement sees a new version, a rename, a drop
PREPARE by_name(text, float8) AS SELECT infer.predict($1, $2, 2, 3);
EXECUTE by_name('regression', 1);
EXECUTE by_name('regression', 2);
EXECUTE by_name(NULL, 1);
SELECT infer.rename_model('regression', 'regression_too');
EXECUTE by_name('regression_too', 1);
EXECUTE by_name('regression', 1);
SELECT infer.rename_model('regression_too', 'regression');
DEALLOCATE by_name;

-- the planner knows what a verb costs: the cheap condition comes first
CREATE TABLE points AS SELECT i AS id, i % 2 = 0 AS even, i::real AS a, 1::real AS b, 0::real AS c FROM generate_series(1, 10) i;
EXPLAIN (COSTS OFF) SELECT id FROM points WHERE infer.predict('regression', a, b, c) > 500 AND even;
SELECT id FROM points WHERE infer.predict('regression', a, b, c) > 500 AND even ORDER BY infer.predict('regression', a, b, c) DESC;
SELECT DISTINCT provolatile, proparallel, proisstrict, procost FROM pg_proc WHERE proname IN ('infer', 'try', 'predict', 'outputs', 'classify', 'probabilities', 'probability') AND prosrc LIKE 'infer%';
-- in parallel workers too
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 1;
ALTER TABLE points SET (parallel_workers = 1);
EXPLAIN (COSTS OFF) SELECT sum(infer.predict('regression', points)) FROM points;
SELECT sum(infer.predict('regression', points)) FROM points;
SET parallel_leader_participation = off;
SELECT sum(infer.predict('regression', points)) FROM points;
RESET parallel_leader_participation;
RESET max_parallel_workers_per_gather;
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
ALTER TABLE points ADD COLUMN p float8;
UPDATE points SET p = infer.predict('regression', a, b, c);
SELECT sum(p) FROM points;
SELECT count(*), sum(infer.predict('regression', points)) FROM points;

-- compiling expressions is not what shortens a call: its cost does not switch JIT on
CREATE FUNCTION pg_temp.compiles(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', statement) LOOP
		RETURN line ~ '"JIT"';
	END LOOP;
END
$$;
CREATE TEMP TABLE numbers AS SELECT i::real AS x FROM generate_series(1, 100) i;
ANALYZE numbers;
SET jit = on;
SET jit_above_cost = 50;
SELECT pg_temp.compiles($$SELECT infer.predict('echo_float', x) FROM numbers WHERE x < 1000$$);
SET infer.batching = off;
SELECT pg_temp.compiles($$SELECT infer.predict('echo_float', x) FROM numbers WHERE x < 1000$$) = pg_jit_available();
RESET infer.batching;
SET jit_above_cost = 0;
SELECT pg_temp.compiles($$SELECT infer.predict('echo_float', x) FROM numbers WHERE x < 1000$$) = pg_jit_available();
RESET jit_above_cost;
RESET jit;

-- what the engine counted
SELECT model, version, class, rows > 0, batches > 0, mean_batch_rows >= 1, batch_fill > 0 AND batch_fill <= 1 AS batch_fill, tokens, prepare_time, errors, compute_time >= 0, queue_time >= 0, since <= now(), interrupted, long_segments >= 0, coalesce(predicted_error, 0) >= 0 FROM infer.stats WHERE model = 'regression' ORDER BY class;
SELECT queue_p50 > 0 AND queue_p50 <= queue_p95 AND queue_p95 <= queue_p99, compute_p50 > 0 AND compute_p50 <= compute_p95 AND compute_p95 <= compute_p99, busy_share BETWEEN 0 AND 1 FROM infer.stats WHERE model = 'regression';
SET infer.request_class = 'job';
SELECT infer.predict('regression', 1, 2, 3);
RESET infer.request_class;
SELECT class, calls > 0 FROM infer.stats WHERE model = 'regression' ORDER BY class;
SELECT model, version, state, bytes > 0, last_used_at >= loaded_at, length(key) FROM infer.loaded_models WHERE model = 'regression';
SELECT device, in_use, threads > 0, memory_used > 0, length(numerics_id) > 0, length(isa) > 0, busy_share BETWEEN 0 AND 1, since <= now() FROM infer.devices WHERE in_use;
SELECT busy_share = round(busy_share::numeric, 4)::float8 AS readable FROM infer.devices WHERE in_use;
-- where one call's time goes
SELECT node, operator, primitive, device, time >= 0 AS time FROM infer.profile('regression', 1, 2, 3);
SELECT count(*) FROM infer.profile('regression', VARIADIC ARRAY[1, 2, 3]);
SELECT count(*) FROM infer.profile('regression', NULL::real[]);
SELECT count(*) FROM infer.profile(NULL, 1);
SELECT count(*) FROM infer.profile('regression', 1);
SELECT count(*) FROM infer.profile('nobody', 1);
SELECT p.* FROM points, LATERAL (SELECT count(*) FROM infer.profile('regression', a, b, c)) p LIMIT 2;
-- nothing waits, and nobody sees more than that
SELECT count(*) FROM infer.activity WHERE pid = pg_backend_pid();
SET ROLE regress_infer_user;
SELECT count(*) FROM infer.stats;
SELECT count(*) FROM infer.devices WHERE in_use;
SELECT count(*) FROM infer.activity;
SELECT count(*) FROM infer.profile('regression', 1, 2, 3);
SELECT infer.reset_stats();
RESET ROLE;
SELECT infer.reset_stats();
SELECT coalesce(sum(rows), 0) FROM infer.stats;

\set ECHO none
\o /dev/null
SELECT infer.drop_model(name) FROM infer.models;
DROP TABLE points;
DROP FUNCTION call_site, call_as;
DROP ROLE regress_infer_user;
