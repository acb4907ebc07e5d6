-- Tables of the queries of queries.txt; run after fixtures/values.psql.  Whatever is random is not.
CREATE TABLE t (id int PRIMARY KEY, x real, y real, g int, s text);
INSERT INTO t SELECT i, (i % 1000 - 500) / 100.0, CASE WHEN i % 7 <> 0 THEN (i % 13) / 4.0 END, i % 10, 'w' || i % 20
	FROM generate_series(1, 700) i;
UPDATE t SET x = NULL WHERE id % 100 = 0;
CREATE INDEX t_g ON t (g);
CREATE TABLE u (id int PRIMARY KEY, tid int, z real);
INSERT INTO u SELECT i, i * 3, i / 128.0 FROM generate_series(1, 220) i;
-- rows as the model "regression" and "imputer" name them, one column that is never asked for, one dropped
CREATE TABLE r (id int PRIMARY KEY, unused text, a real, gone int, b double precision, c numeric);
INSERT INTO r SELECT i, repeat('x', i % 50), i % 9, i, i % 5 / 4.0, i % 3 FROM generate_series(1, 300) i;
ALTER TABLE r DROP COLUMN gone;
-- values that a call cannot take: NULL, and what no real can hold
CREATE TABLE bad (id int PRIMARY KEY, v double precision, w text);
INSERT INTO bad SELECT i, CASE WHEN i = 150 THEN 1e300 WHEN i % 40 = 0 THEN NULL ELSE i / 8.0 END,
	CASE WHEN i = 77 THEN 'no number' ELSE (i % 30)::text END FROM generate_series(1, 200) i;
-- texts: equal ones, NULL, empty, and one that is too long unless it is cut
CREATE TABLE texts (id int PRIMARY KEY, body text, kind text, e real[], note varchar(40));
INSERT INTO texts SELECT i, CASE WHEN i % 31 = 0 THEN NULL WHEN i % 37 = 0 THEN '' ELSE repeat('the query planner ', 1 + i % 5) || i % 60 END,
	CASE i % 3 WHEN 0 THEN 'query' WHEN 1 THEN 'document' END, NULL, 'a note ' || i FROM generate_series(1, 200) i;
CREATE TABLE long_texts (id int PRIMARY KEY, body text);
INSERT INTO long_texts SELECT i, CASE WHEN i = 40 THEN repeat('the planner ', 100) ELSE 'a schema ' || i END FROM generate_series(1, 60) i;
CREATE TABLE names (id int PRIMARY KEY, model text, x real);
INSERT INTO names SELECT i, CASE i % 3 WHEN 0 THEN 'echo_float' WHEN 1 THEN 'root' ELSE 'echo_double' END, i / 4.0
	FROM generate_series(1, 150) i;
CREATE TABLE p (id int, x real, y real, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (500);
CREATE TABLE p2 (y real, id int NOT NULL, x real);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (500) TO (1000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (1000) TO (2000) PARTITION BY RANGE (id);
CREATE TABLE p3a PARTITION OF p3 FOR VALUES FROM (1000) TO (2000);
INSERT INTO p SELECT i, i / 256.0, NULL FROM generate_series(0, 1099) i;
CREATE TABLE parent (id int, a real, b real);
CREATE TABLE child (extra text, c real) INHERITS (parent);
INSERT INTO parent SELECT i, i, i / 2.0 FROM generate_series(1, 100) i;
INSERT INTO child SELECT i, i, i / 4.0, 'e', i FROM generate_series(101, 200) i;
CREATE TABLE kin (id int, a real, gone int, b double precision, c numeric);
CREATE TABLE kin_child (extra text) INHERITS (kin);
ALTER TABLE kin DROP COLUMN gone;
INSERT INTO kin SELECT i, i % 9, i % 5 / 4.0, i % 3 FROM generate_series(1, 150) i;
INSERT INTO kin_child SELECT i, i % 9, i % 5 / 4.0, i % 3, 'e' FROM generate_series(151, 300) i;
CREATE TABLE target (id int PRIMARY KEY, y double precision, note text);
INSERT INTO target SELECT i, NULL, 'n' || i FROM generate_series(1, 300) i;
CREATE TABLE log (n serial, line text);
CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (line) VALUES (TG_OP || ' ' || coalesce(NEW.id, OLD.id));
	RETURN coalesce(NEW, OLD);
END
$$;
CREATE TABLE logged (id int PRIMARY KEY, y double precision);
INSERT INTO logged SELECT i, i FROM generate_series(1, 100) i;
CREATE TRIGGER log_row BEFORE INSERT OR UPDATE OR DELETE ON logged FOR EACH ROW EXECUTE FUNCTION log_row();
CREATE SEQUENCE counter;
CREATE FUNCTION noisy(v real) RETURNS real LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM nextval('counter'); RETURN v; END $$;
CREATE FUNCTION dear() RETURNS bigint LANGUAGE plpgsql VOLATILE COST 100000 AS $$ BEGIN RETURN nextval('counter'); END $$;
CREATE FUNCTION changed() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT count(*) FROM target WHERE y IS NOT NULL $$;
CREATE FUNCTION logged_rows() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT count(*) FROM logged $$;
CREATE FUNCTION picky(v real) RETURNS real LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF v > 4.9 THEN RAISE EXCEPTION 'picky about %', v; END IF;
	RETURN v;
END
$$;
CREATE FUNCTION score(v real) RETURNS double precision LANGUAGE sql STABLE AS $$ SELECT infer.predict('echo_float', v) $$;
CREATE FUNCTION score_plpgsql(v real) RETURNS double precision LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN infer.predict('echo_float', v); END $$;
CREATE FUNCTION scores(upto int) RETURNS TABLE (id int, p double precision) LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN QUERY SELECT t.id, infer.predict('echo_float', t.x) FROM t WHERE t.id <= upto ORDER BY t.id;
END
$$;
CREATE DOMAIN positive AS double precision CHECK (VALUE >= 0);
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE g < 3;
CREATE VIEW scored AS SELECT id, infer.predict('echo_float', x) AS p, g FROM t;
CREATE MATERIALIZED VIEW kept AS SELECT id, infer.predict('echo_float', x) AS p FROM t WITH NO DATA;
CREATE FUNCTION nearest(words text) RETURNS SETOF int LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN QUERY SELECT id FROM texts ORDER BY infer.cosine_similarity(infer.embed('bert_e5', body), infer.embed('bert_e5', words)) DESC NULLS LAST, id LIMIT 5;
END
$$;
CREATE TABLE secret (id int PRIMARY KEY, owner text, x real);
INSERT INTO secret SELECT i, CASE WHEN i % 2 = 0 THEN 'batch_reader' ELSE 'postgres' END, i FROM generate_series(1, 100) i;
CREATE ROLE batch_reader;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
GRANT SELECT ON ALL TABLES IN SCHEMA public TO batch_reader;
SELECT infer.grant_model('echo_float', 'batch_reader');
-- not part of every server; without it these queries fail on both sides
SELECT count(*) > 0 AS has_file_fdw FROM pg_available_extensions WHERE name = 'file_fdw' \gset
\if :has_file_fdw
CREATE EXTENSION file_fdw;
\endif
VACUUM ANALYZE;
