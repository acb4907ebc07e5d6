-- Columns that are kept fresh: what keep_fresh installs and refuses, what the triggers do, what drop_fresh leaves.
-- All of it in transactions that are rolled back, so that no job comes in between.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set values :srcdir/fixtures/values.psql
\i :values
\o
\pset format unaligned
\pset tuples_only on
\set ECHO all

CREATE TABLE kept (id int PRIMARY KEY, a float8, "B b" float8, c float8 DEFAULT 1, body text, score float8, score_version text, label text, label_version int,
	sum float8 GENERATED ALWAYS AS (a + "B b") STORED);
INSERT INTO kept SELECT i, i, i, i FROM generate_series(1, 5) i;
CREATE FUNCTION installed() RETURNS TABLE (kind text, number bigint) LANGUAGE sql AS $$
	SELECT 'triggers', count(*) FROM pg_trigger UNION ALL SELECT 'dependencies', count(*) FROM pg_depend
	UNION ALL SELECT 'shared dependencies', count(*) FROM pg_shdepend UNION ALL SELECT 'rows', count(*) FROM infer.fresh $$;

-- two triggers, and nothing of them is left
BEGIN;
CREATE TEMP TABLE before AS SELECT * FROM installed();
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version');
SELECT regexp_replace(pg_get_triggerdef(oid), '\d+', 'N', 'g') FROM pg_trigger WHERE tgrelid = 'kept'::regclass ORDER BY tgname;
SELECT "table", output, input, condition, version_column, model, version, owner = current_user AS own, state, job, problem FROM infer.fresh_columns;
SELECT i.kind, i.number - b.number AS more FROM installed() i JOIN before b USING (kind) WHERE i.kind IN ('triggers', 'rows');
SELECT infer.drop_fresh('regression', 'kept');
SELECT i.kind, i.number - b.number AS more FROM installed() i JOIN before b USING (kind);
SELECT count(*) FROM infer.fresh_columns;
ROLLBACK;

-- what the triggers do
BEGIN;
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version', condition => 'id < 5');
SELECT infer.stale_rows('regression', 'kept');
UPDATE kept SET score = 1, score_version = 'regression@1';
SELECT infer.stale_rows('regression', 'kept');
-- not for what is no input, nor for an input that stays as it is
UPDATE kept SET body = 'text', a = a, score = 2;
SELECT infer.stale_rows('regression', 'kept');
UPDATE kept SET "B b" = 9 WHERE id = 1;
UPDATE kept SET a = NULL WHERE id = 2;
UPDATE kept SET a = -0.0 WHERE id = 3;
INSERT INTO kept VALUES (0, 1, 1, 1);
SELECT id, score, score_version FROM kept ORDER BY id;
SELECT infer.stale_rows('regression', 'kept', 'score');
-- NULL to NULL is no change, NULL to something is one
UPDATE kept SET score_version = 'regression@1';
UPDATE kept SET a = NULL WHERE id = 2;
SELECT infer.stale_rows(NULL, 'kept');
UPDATE kept SET a = 2 WHERE id = 2;
SELECT infer.stale_rows(NULL, 'kept');
-- another version's values are stale, and those that it failed on
UPDATE kept SET score_version = CASE id WHEN 1 THEN 'regression@2' WHEN 2 THEN 'regression@1 failed' ELSE 'regression@1' END;
SELECT infer.stale_rows('regression', 'kept');
-- an input that another trigger changes
CREATE FUNCTION shift() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a + 1; RETURN NEW; END $$;
CREATE TRIGGER shift BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION shift();
UPDATE kept SET score_version = 'regression@1', body = 'other' WHERE id = 4;
SELECT a, score_version FROM kept WHERE id = 4;
ROLLBACK;

-- texts out of line are not read where they are not touched; expressions and generated columns are watched by their columns
BEGIN;
SELECT infer.keep_fresh('classifier_words', 'kept', 'a * 2, sum, coalesce(c, 0) AS c', 'label', 'label_version', options => NULL);
SELECT input FROM infer.fresh_columns;
SELECT regexp_replace(pg_get_triggerdef(oid), '\d+', 'N', 'g') FROM pg_trigger WHERE tgrelid = 'kept'::regclass AND tgname ~ '^zz';
UPDATE kept SET label_version = 1;
UPDATE kept SET "B b" = 3 WHERE id = 2;
UPDATE kept SET body = repeat('x', 100000);
SELECT id FROM kept WHERE label_version IS NULL;
UPDATE kept SET label_version = CASE id WHEN 1 THEN -1 WHEN 2 THEN 2 ELSE 1 END;
SELECT infer.stale_rows('classifier_words', 'kept');
ROLLBACK;
BEGIN;
ALTER TABLE kept ALTER body SET STORAGE EXTERNAL;
SELECT infer.keep_fresh('echo_string', 'kept', 'body', 'label', 'label_version', verb => 'infer');
ROLLBACK;

-- values mean what they meant in this session
BEGIN;
CREATE SCHEMA "Other";
CREATE FUNCTION "Other".f(float8) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE TABLE dated (id int PRIMARY KEY, a float8, d date, score float8, score_version text);
SET LOCAL datestyle = 'SQL, DMY';
SET LOCAL extra_float_digits = -10;
SET LOCAL search_path = "Other", public;
SELECT infer.keep_fresh('regression', 'dated', 'f(a), 0.1::float8 + 0.2, 0', 'score', 'score_version', condition => 'd > ''02/03/2026''');
SELECT input, condition FROM infer.fresh_columns;
RESET search_path;
SELECT pg_get_triggerdef(oid) ~ '02/03/2026' AS as_written_here FROM pg_trigger WHERE tgname ~ '^infer_fresh';
SELECT time_zone = current_setting('timezone') AS time_zone, date_order, search_path FROM infer.fresh;
ROLLBACK;

-- names may change
BEGIN;
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version', condition => 'c > 0', key => 'id');
ALTER TABLE kept RENAME "B b" TO b2;
ALTER TABLE kept RENAME score TO "Score";
ALTER TABLE kept RENAME score_version TO made_by;
ALTER TABLE kept RENAME c TO d;
ALTER TABLE kept RENAME TO "Kept 2";
ALTER TABLE "Kept 2" RENAME id TO number;
ALTER SERVER regression RENAME TO other;
SELECT "table", output, input, condition, version_column, model, version, problem FROM infer.fresh_columns;
UPDATE "Kept 2" SET made_by = 'other@1';
UPDATE "Kept 2" SET b2 = 0 WHERE number = 1;
SELECT infer.stale_rows('other', '"Kept 2"', '"Score"');
SELECT infer.drop_fresh('other', '"Kept 2"', '"Score"');
ROLLBACK;

-- partitions, those that are there and those that come
BEGIN;
CREATE TABLE parts (id int, a float8, b float8, c float8, score float8, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
SELECT infer.keep_fresh('regression', 'parts', 'a, b, c', 'score', 'v');
CREATE TABLE parts_2 (v text, score float8, c float8, id int PRIMARY KEY, b float8, a float8);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
INSERT INTO parts SELECT i, i, i, i, i, 'regression@1' FROM generate_series(0, 19) i;
UPDATE parts SET a = 100 WHERE id = 1;
UPDATE parts_2 SET b = 100 WHERE id = 11;
-- to another partition, where it is another row
DELETE FROM parts WHERE id = 5;
UPDATE parts SET id = 5, b = 7 WHERE id = 13;
SELECT id FROM parts WHERE v IS NULL ORDER BY id;
SELECT count(*) FROM infer.fresh_columns;
SELECT infer.drop_fresh('regression', 'parts');
SELECT count(*) FROM pg_trigger WHERE tgname ~ 'infer_fresh';
ROLLBACK;

-- what it refuses
SELECT pg_temp.fails($$SELECT infer.keep_fresh(NULL, 'kept', 'a', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('nothing', 'kept', 'a', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', NULL)$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'nothing', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", score', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'a')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", (SELECT 1.0)', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", random()', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version', condition => 'id IN (SELECT 1)')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version', condition => 'now() > clock_timestamp()')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', '1, 2, 3', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", xmin::text::float8', 'score', 'score_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version', key => 'a')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'pg_class', 'a', 'score', 'score_version')$$);
CREATE VIEW seen AS SELECT * FROM kept;
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'seen', 'a, "B b", c', 'score', 'score_version')$$);
CREATE TABLE parent (id int PRIMARY KEY, a float8, b float8, c float8, score float8, v text);
CREATE TABLE child () INHERITS (parent);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'parent', 'a, b, c', 'score', 'v')$$);
CREATE TABLE strict (id int PRIMARY KEY, a float8, b float8, c float8, score float8, "V" text NOT NULL);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'strict', 'a, b, c', 'score', '"V"')$$);
SELECT pg_temp.fails($$SELECT infer.drop_fresh('regression', 'kept')$$);
SELECT pg_temp.fails($$SELECT infer.drop_fresh('regression', 'kept', 'score')$$);
SELECT pg_temp.fails($$SELECT infer.stale_rows('regression', 'kept')$$);
BEGIN;
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version');
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'label_version')$$);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('classifier_words', 'kept', 'a, "B b", c', 'label', 'score_version')$$);
SELECT infer.keep_fresh('classifier_words', 'kept', 'a, "B b", c', 'label', 'label_version');
SELECT pg_temp.fails($$SELECT infer.stale_rows(NULL, 'kept')$$);
SELECT pg_temp.fails($$SELECT infer.drop_fresh('classifier_numbers', 'kept')$$);
SELECT output FROM infer.fresh_columns ORDER BY output;
-- what others depend on
SELECT pg_temp.fails($$ALTER TABLE kept DROP a$$) ~ 'depend';
SELECT pg_temp.fails($$ALTER TABLE kept DROP label$$) ~ 'depend';
SELECT pg_temp.fails($$SELECT infer.drop_model('regression')$$) ~ 'depend';
SELECT pg_temp.fails((SELECT format('DROP TRIGGER %I ON kept', tgname) FROM pg_trigger WHERE tgrelid = 'kept'::regclass ORDER BY tgname DESC LIMIT 1)) ~ 'requires it';
SET client_min_messages = warning;
ALTER TABLE kept DROP label CASCADE;
SELECT output FROM infer.fresh_columns;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'kept'::regclass;
DROP SERVER regression CASCADE;
SELECT output FROM infer.fresh_columns;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'kept'::regclass;
ROLLBACK;

-- triggers that came with a table, from elsewhere
BEGIN;
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version');
DELETE FROM infer.fresh;
SELECT pg_temp.fails($$SELECT infer.drop_fresh('regression', 'kept')$$);
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'kept'::regclass;
ROLLBACK;

-- triggers that somebody has changed
BEGIN;
SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version');
DO $$ BEGIN EXECUTE (SELECT format('ALTER TRIGGER %I ON kept RENAME TO renamed', tgname) FROM pg_trigger WHERE tgname ~ '^infer_fresh'); END $$;
SELECT output, state, problem FROM infer.fresh_columns;
DO $$ BEGIN EXECUTE (SELECT format('ALTER TRIGGER %I ON kept RENAME TO renamed_too', tgname) FROM pg_trigger WHERE tgname ~ '^zz_infer_fresh'); END $$;
SELECT output, state, problem FROM infer.fresh_columns;
SELECT pg_temp.fails($$SELECT infer.stale_rows('regression', 'kept')$$);
SELECT infer.drop_fresh('regression', 'kept');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'kept'::regclass;
ROLLBACK;

-- whose triggers these are: nobody else's
SELECT pg_temp.fails($$CREATE TABLE own (v text); CREATE TRIGGER t AFTER UPDATE ON own FOR EACH ROW EXECUTE FUNCTION infer.fresh_clear(); INSERT INTO own VALUES (1); UPDATE own SET v = 2$$);
SELECT pg_temp.fails($$CREATE TABLE own (v text); CREATE TRIGGER t BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION infer.fresh_restored(); INSERT INTO own VALUES (1)$$);
SELECT infer.fresh_note(1, NULL::text), infer.fresh_differs(1, 2), infer.fresh_differs(NULL, 'x'::text), infer.fresh_differs('x'::text, 'x'::text);
SELECT pg_temp.fails($$SELECT infer.fresh_differs(1, 'x'::text)$$);

-- privileges
CREATE ROLE regress_fresh_owner LOGIN;
CREATE ROLE regress_fresh_member LOGIN IN ROLE regress_fresh_owner;
CREATE ROLE regress_fresh_other LOGIN;
CREATE SCHEMA regress_fresh AUTHORIZATION regress_fresh_owner;
SET ROLE regress_fresh_owner;
CREATE TABLE regress_fresh.t (id int PRIMARY KEY, a float8, b float8, c float8, score float8, v text);
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'regress_fresh.t', 'a, b, c', 'score', 'v')$$);
RESET ROLE;
SELECT infer.grant_model('regression', 'regress_fresh_owner');
BEGIN;
SET LOCAL ROLE regress_fresh_other;
SELECT pg_temp.fails($$SELECT infer.keep_fresh('regression', 'kept', 'a, "B b", c', 'score', 'score_version')$$);
SELECT pg_temp.fails($$INSERT INTO infer.fresh VALUES (1)$$);
SET LOCAL ROLE regress_fresh_member;
SELECT infer.keep_fresh('regression', 'regress_fresh.t', 'a, b, c', 'score', 'v');
SELECT owner FROM infer.fresh_columns;
SELECT infer.drop_fresh('regression', 'regress_fresh.t');
RESET ROLE;
-- a superuser has it kept as the table's owner
SELECT infer.keep_fresh('regression', 'regress_fresh.t', 'a, b, c', 'score', 'v');
GRANT USAGE ON SCHEMA regress_fresh TO regress_fresh_other;
GRANT INSERT, UPDATE, SELECT ON regress_fresh.t TO regress_fresh_other;
SET LOCAL ROLE regress_fresh_other;
SELECT count(*) FROM infer.fresh_columns;
INSERT INTO regress_fresh.t VALUES (1, 1, 1, 1), (2, 2, 2, 2);
UPDATE regress_fresh.t SET v = 'regression@1';
UPDATE regress_fresh.t SET a = 3 WHERE id = 1;
SELECT v FROM regress_fresh.t ORDER BY id;
SELECT pg_temp.fails($$SELECT infer.stale_rows('regression', 'regress_fresh.t')$$);
RESET ROLE;
SELECT infer.grant_model('regression', 'regress_fresh_other');
SET LOCAL ROLE regress_fresh_other;
SELECT infer.stale_rows('regression', 'regress_fresh.t');
RESET ROLE;
REVOKE SELECT ON regress_fresh.t FROM regress_fresh_other;
SET LOCAL ROLE regress_fresh_other;
SELECT pg_temp.fails($$SELECT infer.stale_rows('regression', 'regress_fresh.t')$$);
RESET ROLE;
GRANT SELECT ON regress_fresh.t TO regress_fresh_other;
ALTER TABLE regress_fresh.t ENABLE ROW LEVEL SECURITY;
SET LOCAL ROLE regress_fresh_other;
SELECT pg_temp.fails($$SELECT infer.stale_rows('regression', 'regress_fresh.t')$$);
SELECT pg_temp.fails($$SELECT infer.drop_fresh('regression', 'regress_fresh.t')$$);
SET LOCAL ROLE regress_fresh_owner;
SELECT owner, problem FROM infer.fresh_columns;
SELECT infer.stale_rows('regression', 'regress_fresh.t');
RESET ROLE;
ALTER TABLE regress_fresh.t OWNER TO regress_fresh_other;
SELECT owner, state, problem FROM infer.fresh_columns;
ROLLBACK;

-- a condition is evaluated as who keeps the column, whoever counts, and with nothing of the counter's
BEGIN;
SET LOCAL ROLE regress_fresh_owner;
CREATE FUNCTION regress_fresh.told(float8) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'evaluated as %', current_user; RETURN true; END $$;
INSERT INTO regress_fresh.t VALUES (1, 1, 1, 1);
SELECT infer.keep_fresh('regression', 'regress_fresh.t', 'a, b, c', 'score', 'v', condition => 'regress_fresh.told(a) AND b > 0');
RESET ROLE;
SELECT infer.stale_rows('regression', 'regress_fresh.t');
CREATE FUNCTION pg_temp.greater(float8, float8) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'the counter''s'; END $$;
CREATE OPERATOR pg_temp.> (FUNCTION = pg_temp.greater, LEFTARG = float8, RIGHTARG = float8);
SET LOCAL search_path = pg_temp, pg_catalog;
SELECT infer.stale_rows('regression', 'regress_fresh.t');
ROLLBACK;

-- what a dump brings is never somebody else's
BEGIN;
CREATE ROLE regress_fresh_dba;
GRANT SELECT, INSERT ON infer.fresh, infer.job TO regress_fresh_dba;
SELECT format('%s/%s/%s', system_identifier, d.oid, 'infer.job'::regclass::oid) AS here FROM pg_control_system(), pg_database d WHERE datname = current_database() \gset
SELECT set_config('regress.here', :'here', true) = :'here';
SET LOCAL ROLE regress_fresh_dba;
INSERT INTO infer.fresh SELECT 1000 + i, 10, r, 'kept'::regclass, gen_random_uuid(), NULL, '{a}', NULL, NULL, '{}', 0, '', '', '', 5, 6
	FROM unnest(ARRAY['regress_fresh_dba', (SELECT rolname FROM pg_roles WHERE oid = 10), 'regress_no_such_role']) WITH ORDINALITY AS names (r, i);
SELECT fresh, owner = 'regress_fresh_dba'::regrole, owner_name, "table", job, job_before FROM infer.fresh ORDER BY fresh;
RESET ROLE;
INSERT INTO infer.fresh SELECT 2000, 5, 'regress_fresh_dba', NULL, gen_random_uuid(), NULL, '{a}', NULL, NULL, '{}', 0, '', '', '', NULL, NULL;
SELECT owner_name, owner = 'regress_fresh_dba'::regrole FROM infer.fresh WHERE fresh = 2000;
SELECT pg_temp.fails($$INSERT INTO infer.fresh VALUES (1)$$) ~ 'null value';
SET LOCAL ROLE regress_fresh_dba;
SELECT pg_temp.fails($$INSERT INTO infer.job (job, origin, owner, owner_name, model, state, priority, request, total_estimated, faults, submitted)
	VALUES (-1, current_setting('regress.here'), 10, 'x', 'regression@1', 'validating', 0, '{}', false, 0, now())$$);
SELECT pg_temp.fails($$INSERT INTO infer.job (job, origin, owner, owner_name, model, state, priority, request, total_estimated, faults, submitted)
	VALUES (-1, '1/2/3', 10, 'x', 'regression@1', 'completed', 0, '{}', false, 0, now()) RETURNING 'history'$$);
RESET ROLE;
INSERT INTO infer.job (job, origin, owner, owner_name, model, state, priority, request, total_estimated, faults, submitted)
	VALUES (-2, :'here', 10, 'x', 'regression@1', 'completed', 0, '{}', false, 0, now());
GRANT SELECT, INSERT ON infer.job_shard, infer.job_item, infer.job_request TO regress_fresh_dba;
SET LOCAL ROLE regress_fresh_dba;
SELECT job, pg_temp.fails(format($$INSERT INTO infer.job_item VALUES (%s, 1, 1, '{1}', 'pending', 0, NULL, NULL, true, NULL, now()) RETURNING 'history'$$, job))
	FROM (VALUES (-1), (-2)) AS jobs (job);
SELECT job, pg_temp.fails(format($$INSERT INTO infer.job_request VALUES (%s, 1) RETURNING 'history'$$, job)) FROM (VALUES (-1), (-2)) AS jobs (job);
SELECT job, pg_temp.fails(format($$INSERT INTO infer.job_shard (job, shard, state) VALUES (%s, 1, 'completed')$$, job)) ~ 'permission' FROM (VALUES (-1), (-2)) AS jobs (job);
ROLLBACK;
SET client_min_messages = warning;
DROP SCHEMA regress_fresh CASCADE;
SELECT infer.revoke_model('regression', 'regress_fresh_owner');
DROP ROLE regress_fresh_owner, regress_fresh_member, regress_fresh_other;
DROP TABLE kept, parent, strict CASCADE;
RESET client_min_messages;
DROP FUNCTION installed;
