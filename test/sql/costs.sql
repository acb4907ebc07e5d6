-- What calls cost, and what the planner makes of it.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set content `base64 -w0 :srcdir/fixtures/onnx/heavy.onnx`
SELECT infer.create_model('cost_network', data => decode(:'content', 'base64'));
\set content `base64 -w0 :srcdir/../examples/progression/model.onnx`
SELECT infer.create_model('cost_trees', data => decode(:'content', 'base64'));
\set content `base64 -w0 :srcdir/fixtures/values/echo_float.onnx`
SELECT infer.create_model('cost_small', data => decode(:'content', 'base64'));
CREATE TABLE priced (id int PRIMARY KEY, g int, x real[], f real[]);
INSERT INTO priced SELECT i, 10000 - i, array_fill(i / 1000.0, ARRAY[16]), array_fill(i / 1000.0, ARRAY[10])
	FROM generate_series(1, 1000) i;
CREATE INDEX ON priced (g);
ANALYZE priced;
CREATE FUNCTION cost_of(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END
$$;
\o
SET jit = off;
SET max_parallel_workers_per_gather = 0;
\set ECHO all

-- a cheap qual first, then trees, then a network, whatever the order in the text
EXPLAIN (COSTS OFF) SELECT id FROM priced
WHERE cardinality(infer.outputs('cost_network', x)) = 4 AND infer.predict('cost_trees', f) + 0 + 0 + 0 > 0 AND id % 7 = 0;
EXPLAIN (COSTS OFF) SELECT id FROM priced
WHERE id % 7 = 0 AND infer.predict('cost_trees', f) + 0 + 0 + 0 > 0 AND cardinality(infer.outputs('cost_network', x)) = 4;
SET infer.batching = off;
EXPLAIN (COSTS OFF) SELECT id FROM priced
WHERE cardinality(infer.outputs('cost_network', x)) = 4 AND infer.predict('cost_trees', f) + 0 + 0 + 0 > 0 AND id % 7 = 0;
RESET infer.batching;

-- calls are postponed past ORDER BY and LIMIT
EXPLAIN (COSTS OFF) SELECT id, infer.predict('cost_trees', f) FROM priced ORDER BY g % 5, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id, infer.predict('cost_small', id) FROM priced ORDER BY g % 5, id LIMIT 10;

-- an index is worth its while where it saves calls
EXPLAIN (COSTS OFF) SELECT id FROM priced WHERE infer.predict('cost_trees', f) > 0 AND g BETWEEN 9000 AND 9050;

-- one row by itself costs more than one of many
SET infer.batching = off;
SELECT cost_of($$SELECT infer.predict('cost_small', id) FROM priced$$) AS alone \gset
RESET infer.batching;
SELECT cost_of($$SELECT infer.predict('cost_small', id) FROM priced$$) AS many \gset
SELECT :alone > 2 * :many AS one_by_one_is_dearer;
-- inputs without a column: once
SELECT cost_of($$SELECT infer.predict('cost_small', 1) FROM priced$$) < :many * 0.8 AS constant_is_cheap;
SELECT cost_of($$SELECT infer.predict(NULL, id) FROM priced$$) < :many * 0.8 AS null_is_cheap;
-- costs follow the unit
SET cpu_operator_cost = 0.025;
SELECT cost_of($$SELECT infer.predict('cost_small', id) FROM priced$$) > 5 * :many AS in_units;
RESET cpu_operator_cost;

-- a model that is not known to the planner has a cost of its own; nothing is raised before the call
SELECT cost_of($$SELECT infer.predict('no such model', id) FROM priced$$) AS generic \gset
SELECT :generic > 2 * :many AS generic_is_dear;
SELECT cost_of(format('SELECT infer.predict(%L, id) FROM priced', name)) = :generic AS generic
FROM (VALUES ('cost_small@7'), ('cost_small@x'), ('@1'), (''), (repeat('x', 1000))) names (name);
SELECT cost_of($$SELECT infer.predict('cost_' || g, id) FROM priced$$) > :generic * 0.9 AS generic;
SELECT cost_of($$SELECT infer.predict('cost_small@1', id) FROM priced$$) = :many AS same_version;
EXPLAIN (COSTS OFF) SELECT infer.predict('no such model', id) FROM priced;
SELECT infer.predict('no such model', id) FROM priced;
CREATE ROLE cost_stranger;
GRANT SELECT ON priced TO cost_stranger;
GRANT EXECUTE ON FUNCTION cost_of TO cost_stranger;
SET ROLE cost_stranger;
SELECT cost_of($$SELECT infer.predict('cost_small', id) FROM priced$$) = :generic AS a_stranger_learns_nothing;
RESET ROLE;
-- of a model that was made in this transaction, and under one snapshot throughout
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT infer.create_model('cost_new', data => decode(:'content', 'base64'));
SELECT cost_of($$SELECT infer.predict('cost_new', id) FROM priced$$) = :many AS known_at_once;
SELECT infer.drop_model('cost_new');
SELECT cost_of($$SELECT infer.predict('cost_new', id) FROM priced$$) = :generic AS forgotten_at_once;
COMMIT;
-- a malformed signature is the call's error, not the planner's
BEGIN;
UPDATE infer.model_version SET signature = '[]'::jsonb WHERE signature ->> 'format' IS NOT NULL;
SELECT cost_of($$SELECT infer.predict('cost_small', id) FROM priced$$) BETWEEN 1 AND :generic AS guessed;
ROLLBACK;

-- a parameter's value is a constant in a plan of its own, and unknown in a generic one
PREPARE by_name (text) AS SELECT infer.predict($1, id) FROM priced;
SET plan_cache_mode = force_custom_plan;
SELECT cost_of($$EXECUTE by_name('cost_small')$$) = :many AS custom;
SET plan_cache_mode = force_generic_plan;
SELECT cost_of($$EXECUTE by_name('cost_small')$$) = :generic AS generic;
RESET plan_cache_mode;

-- parallel plans: the costs alone do not make a small table's plan parallel, and its workers share them out
RESET max_parallel_workers_per_gather;
EXPLAIN (COSTS OFF) SELECT infer.predict('cost_trees', f) FROM priced;
SELECT cost_of($$SELECT sum(infer.predict('cost_trees', f)) FROM priced$$) AS serial \gset
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT cost_of($$SELECT sum(infer.predict('cost_trees', f)) FROM priced$$) BETWEEN :serial / 10 AND :serial AS shared_out;

DROP OWNED BY cost_stranger;
DROP ROLE cost_stranger;
DROP TABLE priced;
DROP FUNCTION cost_of;
SELECT infer.drop_model('cost_network'), infer.drop_model('cost_trees'), infer.drop_model('cost_small');
