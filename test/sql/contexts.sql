-- Verbs wherever SQL has expressions: what is allowed works, what cannot be right is refused.
\set VERBOSITY terse
\set SHOW_CONTEXT never

-- y = x + 3
\set three '''\\x08083a510a0e0a01780a01631201792203416464120474696e792a0d080110014201634a04000040405a140a0178120f0a0d080112090a0312014e0a02080162140a0179120f0a0d080112090a0312014e0a0208014202100d'''
\set four '''\\x08083a510a0e0a01780a01631201792203416464120474696e792a0d080110014201634a04000080405a140a0178120f0a0d080112090a0312014e0a02080162140a0179120f0a0d080112090a0312014e0a0208014202100d'''
SELECT infer.create_model('context', data => :three);
CREATE TABLE reading (x float8);

-- where only what never changes may stand
CREATE TABLE refused (x float8, y float8 GENERATED ALWAYS AS (infer.predict('context', x)) STORED);
CREATE INDEX ON reading (infer.predict('context', x));
CREATE INDEX ON reading (x) WHERE infer.predict('context', x) > 3;
CREATE TABLE refused (x float8) PARTITION BY RANGE (infer.predict('context', x));

-- constraints, defaults, domains, triggers
ALTER TABLE reading ADD CONSTRAINT small CHECK (infer.predict('context', x) < 100);
INSERT INTO reading VALUES (96), (NULL);
INSERT INTO reading VALUES (97);
ALTER TABLE reading ALTER COLUMN x SET DEFAULT infer.predict('context', 1);
INSERT INTO reading VALUES (DEFAULT) RETURNING x;
CREATE DOMAIN scored AS float8 CHECK (infer.predict('context', VALUE) < 10);
SELECT 6::scored;
SELECT 7::scored;
CREATE FUNCTION raise_it() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN NEW.x := infer.predict('context', NEW.x); RETURN NEW; END $$;
CREATE TRIGGER raise_it BEFORE INSERT OR UPDATE ON reading FOR EACH ROW EXECUTE FUNCTION raise_it();
INSERT INTO reading VALUES (10), (20) RETURNING x;
UPDATE reading SET x = infer.predict('context', x) WHERE x = 13 RETURNING x;
DELETE FROM reading WHERE infer.predict('context', x) > 99 OR x IS NULL RETURNING x;

-- queries of every shape
SELECT sum(infer.predict('context', i)) FILTER (WHERE i % 2 = 0), array_agg(infer.predict('context', i) ORDER BY infer.predict('context', -i))
FROM generate_series(1, 4) i;
SELECT i, rank() OVER (ORDER BY infer.predict('context', -i)) FROM generate_series(1, 3) i ORDER BY 1;
WITH RECURSIVE r (n, v) AS (SELECT 1, 0::float8 UNION ALL SELECT n + 1, infer.predict('context', v) FROM r WHERE n < 10)
SELECT max(v) FROM r;
SELECT infer.predict('context', infer.predict('context', infer.predict('context', 1)));
SELECT i, s.p, (SELECT infer.predict('context', i * 2)) FROM generate_series(1, 2) i, LATERAL (SELECT infer.predict('context', i) AS p) s ORDER BY i;
SELECT DISTINCT infer.predict('context', i % 2) FROM generate_series(1, 10) i ORDER BY 1;
COPY (SELECT infer.predict('context', i) FROM generate_series(1, 2) i) TO STDOUT;
SELECT infer.predict('context', i) FROM generate_series(1, 3) i WHERE false;
CREATE MATERIALIZED VIEW scores AS SELECT i, infer.predict('context', i) AS p FROM generate_series(1, 2) i;
REFRESH MATERIALIZED VIEW scores;
SELECT * FROM scores ORDER BY i;

-- rows whose table changes, partitions whose columns are in another order, children
CREATE TABLE parent (x int);
INSERT INTO parent VALUES (1);
CREATE FUNCTION score_parent() RETURNS float8 LANGUAGE plpgsql AS
	$$ DECLARE r parent; BEGIN SELECT * INTO r FROM parent LIMIT 1; RETURN infer.predict('context', r); END $$;
SELECT score_parent();
ALTER TABLE parent ADD COLUMN other int DEFAULT 5;
SELECT score_parent();
ALTER TABLE parent DROP COLUMN x;
SELECT score_parent();
ALTER TABLE parent RENAME other TO x;
SELECT score_parent();
CREATE TABLE child (note text) INHERITS (parent);
INSERT INTO child VALUES (6, 'six');
SELECT infer.predict('context', parent) FROM parent ORDER BY 1;
CREATE TABLE parted (x int, note text) PARTITION BY LIST (x);
CREATE TABLE part (note text, gone int, x int);
ALTER TABLE part DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION part FOR VALUES IN (1);
INSERT INTO parted VALUES (1, 'a');
SELECT infer.predict('context', parted) FROM parted;
CREATE TABLE empty_row ();
INSERT INTO empty_row DEFAULT VALUES;
SELECT infer.predict('context', empty_row) FROM empty_row;
CREATE FUNCTION any_kind(anyelement) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN RETURN infer.predict('context', $1); END $$;
SELECT any_kind(1), any_kind(1.5), any_kind(2::int8), any_kind(true), any_kind('{"x": 4}'::jsonb), any_kind(ARRAY[5]);

-- plans that are kept while the model changes
SET plan_cache_mode = force_generic_plan;
PREPARE kept(text, float8) AS SELECT infer.predict($1, $2);
EXECUTE kept('context', 1);
SELECT infer.create_model('context', data => :four);
SELECT infer.activate_model('context', 2);
EXECUTE kept('context', 1);
EXECUTE kept('context@1', 1);
EXECUTE kept(NULL, 1);
BEGIN;
SELECT infer.activate_model('context', 1);
EXECUTE kept('context', 1);
SAVEPOINT s;
SELECT infer.rename_model('context', 'renamed');
EXECUTE kept('context', 1);
ROLLBACK TO s;
EXECUTE kept('context', 1);
ROLLBACK;
EXECUTE kept('context', 1);
DISCARD ALL;
SELECT infer.predict('context', 1);

-- cursors that outlive their transaction, errors that are caught
BEGIN;
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT infer.predict('context', i) FROM generate_series(1, 4) i;
FETCH 2 FROM held;
COMMIT;
SELECT infer.activate_model('context', 1);
FETCH 1 FROM held;
FETCH FIRST FROM held;
CLOSE held;
DO $$
DECLARE
	states text[] := '{}';
	inputs text[] := ARRAY['1', '''x''', '1e300', 'NULL', '''NaN''::float8', '1, 2', 'ARRAY[NULL::int]', '''{}''::jsonb'];
BEGIN
	FOR i IN 1 .. 100 * array_length(inputs, 1) LOOP
		BEGIN
			EXECUTE 'SELECT infer.predict(''context'', ' || inputs[i % array_length(inputs, 1) + 1] || ')';
		EXCEPTION WHEN OTHERS THEN
			states := states || SQLSTATE::text;
		END;
	END LOOP;
	RAISE NOTICE '%', (SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state, count(*) n FROM unnest(states) state GROUP BY state) s);
END $$;

-- whose rights count
CREATE ROLE regress_context;
GRANT SELECT ON reading TO regress_context;
CREATE FUNCTION trusted(float8) RETURNS float8 LANGUAGE sql SECURITY DEFINER AS $$ SELECT infer.predict('context', $1) $$;
CREATE POLICY low ON reading USING (infer.predict('context', x) < 10);
ALTER TABLE reading ENABLE ROW LEVEL SECURITY;
PREPARE mine AS SELECT infer.predict('context', 1);
EXECUTE mine;
SET ROLE regress_context;
EXECUTE mine;
SELECT infer.try('context', 1);
SELECT trusted(1);
SELECT count(*) FROM reading;
RESET ROLE;
SELECT infer.grant_model('context', 'regress_context');
SET ROLE regress_context;
EXECUTE mine;
SELECT count(*) FROM reading;
RESET ROLE;

SELECT infer.drop_model('context');
SELECT 6::scored;
DROP MATERIALIZED VIEW scores;
DROP TABLE reading, child, parent, parted, empty_row;
DROP DOMAIN scored;
DROP FUNCTION raise_it, score_parent, any_kind, trusted;
DROP ROLE regress_context;
