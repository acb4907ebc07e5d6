-- Where a statement's calls are computed in batches, and where they are not: the plans.  No
-- model is there: planning asks for none.
\set ECHO none
\o /dev/null
CREATE SCHEMA batch_plan;
SET search_path = batch_plan, public;
CREATE TABLE t (id int, x real, y real, g int, a int[]);
CREATE TABLE u (id int, tid int, z real);
CREATE TABLE r (id int, unused text, a real, gone int, b double precision, c numeric);
ALTER TABLE r DROP COLUMN gone;
CREATE TABLE parent (a real, b real, c real, id int);
CREATE TABLE child (extra text) INHERITS (parent);
CREATE TABLE target (id int PRIMARY KEY, p double precision, q double precision);
CREATE FUNCTION own_settings(text, VARIADIC "any") RETURNS double precision LANGUAGE c STABLE
	SET work_mem = '1MB' AS '$libdir/infer', 'infer_predict';
CREATE FUNCTION owner_rights(text, VARIADIC "any") RETURNS double precision LANGUAGE c STABLE
	SECURITY DEFINER AS '$libdir/infer', 'infer_predict';
CREATE FUNCTION other_name(text, VARIADIC "any") RETURNS double precision LANGUAGE c STABLE
	AS '$libdir/infer', 'infer_predict';
-- a plan, without what versions write differently; options: 'VERBOSE', 'FORMAT JSON' …
CREATE FUNCTION plan(statement text, options text DEFAULT 'VERBOSE off') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF, %s) %s', options, statement) LOOP
		CONTINUE WHEN line ~ '^ *(Disabled|Window): ';
		RETURN NEXT regexp_replace(line, 'Hash (Right |Left )?Join', 'Hash Join');
	END LOOP;
END
$$;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
\o
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- scans: the target list, the filter from the first clause with a call on
SELECT plan($$SELECT id, infer.predict('echo_float', x) FROM t$$);
SELECT plan($$SELECT id FROM t WHERE g = 1 AND infer.predict('echo_float', x) > 0 AND infer.predict('echo_float', y) > 0$$, 'VERBOSE');
-- one call
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t WHERE infer.predict('echo_float', x) > 0$$);
-- nested
SELECT plan($$SELECT infer.predict('echo_double', infer.predict('echo_float', x)) FROM t$$);
-- whatever its name is, not where it runs as somebody else
SELECT plan($$SELECT other_name('echo_float', x) FROM t$$);
SELECT plan($$SELECT own_settings('echo_float', x) FROM t$$);
SELECT plan($$SELECT owner_rights('echo_float', x) FROM t$$);

-- conditions
SELECT plan($$SELECT CASE WHEN g = 1 THEN infer.predict('echo_float', x) WHEN infer.predict('echo_float', y) > 0 THEN 2 END FROM t$$);
SELECT plan($$SELECT CASE g WHEN 1 THEN infer.predict('echo_float', x) END FROM t$$);
SELECT plan($$SELECT coalesce(y, infer.predict('echo_float', x)) FROM t$$);
SELECT plan($$SELECT g = 1 AND infer.predict('echo_float', x) > 0 FROM t$$);
SELECT plan($$SELECT CASE WHEN random() < 0.5 THEN infer.predict('echo_float', x) END FROM t$$);
SELECT plan($$SELECT coalesce(nullif(random(), 0), infer.predict('echo_float', x)) FROM t$$);
SELECT plan($$SELECT infer.predict('echo_float', random()) FROM t$$);
SELECT plan($$SELECT (infer.outputs('echo_matrix', x, y, x, y))[2], a[infer.predict('echo_float', x)::int] FROM t$$);
SELECT plan($$SELECT (infer.predict('echo_float', x), x) < (y, y) FROM t$$);

-- rows of a table: the scan gives columns, all of them
SELECT plan($$SELECT infer.predict('regression', r) FROM r$$, 'VERBOSE');
SELECT plan($$SELECT infer.predict('regression', r), r FROM r WHERE id > 1$$, 'VERBOSE');
SELECT plan($$SELECT infer.predict('regression', parent) FROM parent$$, 'VERBOSE');

-- also through what lies between, but where the row may be NULL or is used otherwise
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT plan($$SELECT infer.predict('regression', r) FROM t JOIN r ON r.id = t.id$$, 'VERBOSE');
SELECT plan($$SELECT infer.predict('regression', r) FROM r LEFT JOIN t ON r.id = t.id ORDER BY t.x$$, 'VERBOSE');
SELECT plan($$SELECT infer.predict('regression', r) FROM t LEFT JOIN r ON r.id = t.id$$, 'VERBOSE');
SELECT plan($$SELECT infer.predict('regression', r), r FROM t JOIN r ON r.id = t.id$$, 'VERBOSE');
SELECT plan($$SELECT sum(infer.predict('regression', r)) FROM r$$, 'VERBOSE');
RESET enable_mergejoin;
RESET enable_nestloop;

-- LIMIT
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t LIMIT 10$$);
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t ORDER BY g LIMIT 10 OFFSET 2$$);
SELECT plan($$SELECT id FROM t WHERE infer.predict('echo_float', x) > 0 LIMIT 10$$);
SELECT plan($$SELECT infer.predict('echo_float', x), random() FROM t LIMIT 10$$);
SELECT plan($$SELECT infer.predict('echo_float', x), random() FROM t LIMIT 10 OFFSET 2$$);
SELECT plan($$SELECT g, infer.predict('echo_float', x) FROM t ORDER BY g FETCH FIRST 3 ROWS WITH TIES$$);

-- sorting, grouping
SELECT plan($$SELECT id FROM t ORDER BY infer.predict('echo_float', x)$$);
SELECT plan($$SELECT DISTINCT infer.predict('echo_float', x) FROM t$$);
SELECT replace(plan, 't.x', 'x') FROM plan($$SELECT g, avg(infer.predict('echo_float', x)) FROM t GROUP BY g$$) plan;
SELECT plan($$SELECT count(infer.predict('echo_float', x)) FILTER (WHERE infer.predict('echo_float', y) > 0), array_agg(infer.predict('echo_float', y)) FROM t$$);
SELECT plan($$SELECT infer.predict('echo_float', max(x)) FROM t HAVING infer.predict('echo_float', min(x)) > 0$$);
SELECT plan($$SELECT infer.predict('echo_float', (rank() OVER (ORDER BY id))::real) FROM t$$) OFFSET 2;
SELECT * FROM plan($$SELECT sum(infer.predict('echo_float', x)) OVER (ORDER BY id) FROM t$$) plan WHERE plan ~ 'Not batched';

-- sets
SELECT plan($$SELECT infer.predict('echo_float', x), generate_series(1, 3) FROM t$$);
SELECT plan($$SELECT unnest(infer.outputs('echo_matrix', x, y, x, y)) FROM t$$);
SELECT plan($$SELECT infer.predict('echo_float', generate_series(1, 3)) FROM t$$);
SELECT plan($$SELECT * FROM unnest(infer.outputs('echo_matrix', 1, 2, 3, 4))$$);
SELECT plan($$SELECT infer.predict('echo_float', i) FROM generate_series(1, 3) i$$);
SELECT plan($$SELECT infer.predict('echo_float', v) FROM (VALUES (1), (2)) s(v)$$);
SELECT plan($$SELECT * FROM (VALUES (infer.predict('echo_float', 1)), (2)) s(v)$$);

-- joins
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT plan($$SELECT infer.predict('echo_float', t.x + u.z) FROM t JOIN u ON u.tid = t.id$$);
SELECT plan($$SELECT t.id FROM t JOIN u ON u.tid = t.id WHERE infer.predict('echo_float', t.x + u.z) > 0$$);
SELECT plan($$SELECT infer.predict('echo_float', u.z) FROM t LEFT JOIN u ON u.tid = t.id AND infer.predict('echo_float', t.x + u.z) > 0$$);
SELECT plan($$SELECT t.id FROM t JOIN u ON u.id = infer.predict('echo_float', t.x)$$);
SELECT plan($$SELECT t.id FROM t JOIN u ON u.id = t.id AND infer.predict('echo_float', t.x) = infer.predict('echo_float', u.z)$$);
SELECT plan($$SELECT t.id FROM t WHERE t.id IN (SELECT infer.predict('echo_float', z) FROM u)$$);
RESET enable_mergejoin;
SET enable_hashjoin = off;
SELECT plan($$SELECT t.id FROM (SELECT id, infer.predict('echo_float', x) p FROM t) t JOIN (SELECT id, infer.predict('echo_float', z) p FROM u OFFSET 0) u ON t.p = u.p$$);
RESET enable_nestloop;
SET enable_mergejoin = off;
SELECT plan($$SELECT t.id FROM t JOIN u ON infer.predict('echo_float', t.x + u.z) > 0$$);
RESET enable_mergejoin;
RESET enable_hashjoin;

-- subqueries
SELECT * FROM plan($$SELECT id FROM t WHERE infer.predict('echo_float', x) NOT IN (SELECT z FROM u)$$) plan WHERE plan !~ 'SubPlan';
SELECT plan($$SELECT (SELECT max(infer.predict('echo_float', z)) FROM u WHERE tid = t.id) FROM t$$);
SELECT plan($$WITH c AS MATERIALIZED (SELECT infer.predict('echo_float', x) p FROM t) SELECT * FROM c WHERE p > 0$$);
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t UNION ALL SELECT z FROM u$$);
SELECT plan($$SELECT infer.predict('echo_float', 1)$$);

-- changes
SELECT plan($$INSERT INTO target SELECT id, infer.predict('echo_float', x) FROM t$$);
SELECT plan($$INSERT INTO target SELECT id, x FROM t ON CONFLICT (id) DO UPDATE SET p = infer.predict('echo_float', excluded.p)$$);
SELECT plan($$INSERT INTO target SELECT id FROM t RETURNING id, infer.predict('echo_float', id)$$);
SELECT plan($$UPDATE target SET p = infer.predict('echo_float', id) WHERE infer.predict('echo_float', q) > 0$$);
SELECT * FROM plan($$UPDATE target SET (p, q) = (SELECT infer.predict('echo_float', target.id), 1)$$) plan WHERE plan !~ 'SubPlan';
SELECT plan($$DELETE FROM parent WHERE infer.predict('regression', parent) > 0 RETURNING infer.predict('regression', parent)$$);
SELECT plan($$MERGE INTO target USING t ON target.id = t.id AND infer.predict('echo_float', t.x) > 0
	WHEN MATCHED THEN UPDATE SET p = infer.predict('echo_float', t.x) WHEN NOT MATCHED THEN INSERT VALUES (t.id)$$);
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t FOR UPDATE$$);

-- cursors
SELECT plan($$DECLARE c CURSOR FOR SELECT infer.predict('echo_float', x) FROM t$$);
SELECT plan($$DECLARE c SCROLL CURSOR FOR SELECT infer.predict('echo_float', x) FROM t$$);

-- off: no node; on again: plans made before follow
SET infer.batching = off;
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t$$);
PREPARE p AS SELECT infer.predict('echo_float', x) FROM t;
SELECT * FROM plan($$EXECUTE p$$) plan WHERE plan !~ 'Not batched';
SET infer.batching = on;
SELECT * FROM plan($$EXECUTE p$$) plan WHERE plan !~ 'Not batched';
SET infer.batching = off;
SELECT * FROM plan($$EXECUTE p$$) plan WHERE plan !~ 'Not batched';
RESET infer.batching;

-- other formats
SELECT plan($$SELECT sum(infer.predict('echo_float', x)) OVER () FROM t$$, 'FORMAT JSON')::json -> 0 -> 'Not batched';
SELECT plan($$SELECT infer.predict('echo_float', x) FROM t$$, 'FORMAT JSON')::json -> 0 -> 'Plan' -> 'Infer';

\set ECHO none
SET client_min_messages = warning;
DROP SCHEMA batch_plan CASCADE;
