-- Every type that a feature may have, and what it becomes.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set values :srcdir/fixtures/values.psql
\i :values
\o
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- scalars of every accepted type for every type of input
SELECT infer('echo_float', 1::int2), infer('echo_float', 2), infer('echo_float', 3::int8), infer('echo_float', 1.5::float4), infer('echo_float', 0.1::float8), infer('echo_float', 0.1), infer('echo_float', true);
SELECT infer('echo_double', 1::int2), infer('echo_double', 2), infer('echo_double', 3::int8), infer('echo_double', 1.5::float4), infer('echo_double', 0.1::float8), infer('echo_double', 0.1), infer('echo_double', false);
SELECT infer('echo_int', 1::int2), infer('echo_int', -2147483648), infer('echo_int', 2147483647::int8), infer('echo_int', 3::float4), infer('echo_int', -4::float8), infer('echo_int', 5.0), infer('echo_int', true);
SELECT infer('echo_bigint', 1::int2), infer('echo_bigint', 2), infer('echo_bigint', 9223372036854775807), infer('echo_bigint', 3::float4), infer('echo_bigint', '-9223372036854775808'::float8), infer('echo_bigint', -9223372036854775808), infer('echo_bigint', true);
SELECT infer('echo_bool', true), infer('echo_bool', 0::int2), infer('echo_bool', 1), infer('echo_bool', 0::int8), infer('echo_bool', 1::float4), infer('echo_bool', 0::float8), infer('echo_bool', 1.0);
CREATE TYPE mood AS ENUM ('sad', 'very happy');
SELECT infer('echo_string', 'literal'), infer('echo_string', 'text'::text), infer('echo_string', 'varchar'::varchar(10)), infer('echo_string', 'char'::char(10)), infer('echo_string', 'name'::name), infer('echo_string', 'c'::"char"), infer('echo_string', 'very happy'::mood);
SELECT infer('echo_string', ''), infer('echo_string', 'a "quoted" \ line'), infer('echo_string', 7::int2), infer('echo_string', -7), infer('echo_string', 7::int8);
SET datestyle = 'German';
SELECT infer('echo_string', date '29.02.2024');
RESET datestyle;

-- several inputs one by one, as columns, as keys
SELECT infer('echo_types', 0.5, 0.25, 7, 8, true, 'w');
SELECT infer('echo_types', r) FROM (SELECT 'w' AS word, 8 AS i64, 7 AS i32, 0.25 AS f64, true AS flag, 0.5 AS f32, 'more' AS other) r;
SELECT infer('echo_types', '{"word": "w", "flag": false, "i64": 8, "i32": 7.0, "f64": 0.25, "f32": 1e-1, "other": [1]}'::jsonb);

-- domains are their base types
CREATE DOMAIN positive AS numeric CHECK (VALUE > 0);
CREATE DOMAIN vector3 AS real[] CHECK (array_length(VALUE, 1) = 3);
CREATE DOMAIN positives AS positive[];
SELECT infer('echo_float', 5::positive), infer('echo_wide', '{1,2,3}'::vector3), infer('echo_wide', '{1,2,3}'::positives);

-- rounding is ordinary, also to zero and to the nearest of what a float holds
SELECT infer('echo_float', 16777217), infer('echo_float', 9007199254740993), infer('echo_float', 1e-60::float8), infer('echo_float', 3.4028235e38), infer('echo_double', 0.1::float4), infer('echo_float', 1e-400);
-- a numeric or bigint is rounded once: by way of double precision the first would be 1
SELECT infer('echo_float', 1.000000059604644775390625000000001), infer('echo_float', 1.000000059604644775390625), infer('echo_float', 9007199791611905);

-- arrays of every type
SELECT infer('echo_wide', '{1,2,3}'::int2[]), infer('echo_wide', '{1,2,3}'::int[]), infer('echo_wide', '{1,2,3}'::int8[]), infer('echo_wide', '{1,2,3}'::real[]), infer('echo_wide', '{1,2,3.5}'::float8[]), infer('echo_wide', ARRAY[1, 2, 0.1]), infer('echo_wide', '{t,f,t}'::bool[]);
SELECT infer('echo_wide_double', '{1,2,0.1}'::float8[]), infer('echo_wide_double', '{1,2,0.5}'::real[]);
SELECT infer('echo_words', '{a,b}'::text[]), infer('echo_words', '{a,b}'::varchar[]), infer('echo_words', '{a,b}'::char(3)[]), infer('echo_words', '{a,b}'::name[]), infer('echo_words', '{sad,very happy}'::mood[]), infer('echo_words', '{2,1}'::int[]);
SELECT infer('echo_float', '{4}'::int[]), infer('echo_wide', '[5:7]={1,2,3}'::int[]);
-- an array for each input, one for all of them, one feature after the other
SELECT infer('echo_pair', ARRAY[1, 2], 'w'), infer('echo_pair', 1, 2, 'w'), infer('echo_pair', ARRAY[1, 2], ARRAY['w'::text]), infer('echo_pair', '[1, 2]'::jsonb, ARRAY['w']);
SELECT infer('echo_pair', r) FROM (SELECT 'w' AS word, '{1,2}'::real[] AS numbers) r;
-- dimensions
SELECT infer('echo_matrix', '{1,2,3,4}'::int[]), infer('echo_matrix', '{{1,2},{3,4}}'::int[]), infer('echo_matrix', 1, 2, 3, 4);
SELECT pg_temp.fails($$SELECT infer('echo_matrix', '{{1,2,3,4}}'::int[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '{{1,2,3}}'::int[])$$);
-- VARIADIC: the array's elements are the features
SELECT infer('echo_wide', VARIADIC ARRAY[1, 2, 3]), infer('echo_words', VARIADIC '{a,b}'::text[]), infer('echo_float', VARIADIC ARRAY[9]), infer('echo_wide', VARIADIC ARRAY[[1, 2, 3]]);
SELECT infer('echo_wide', VARIADIC x) FROM (VALUES ('{1,2,3}'::int[]), (NULL), ('{4,5,6}')) v(x);
-- arrays that a PL/pgSQL variable holds expanded
DO $$
DECLARE
	a float8[] := '{}';
BEGIN
	FOR i IN 1 .. 3 LOOP
		a[i] := i / 2.0;
	END LOOP;
	RAISE NOTICE '%', infer('echo_wide', a);
END
$$;
-- toasted and short ones
CREATE TABLE stored (a real[], n numeric, t text, w varchar);
INSERT INTO stored VALUES ('{1,2,3}', 0.1, 'short', repeat('long ', 20000));
SELECT infer('echo_wide', a), infer('echo_float', n), infer('echo_string', t), infer('echo_string', w) = to_jsonb(w) FROM stored;

-- jsonb: scalars, arrays, nested arrays, objects
SELECT infer('echo_float', '0.1'::jsonb), infer('echo_wide', '[1, true, 0.5]'::jsonb), infer('echo_matrix', '[[1, 2], [3, 4]]'::jsonb), infer('echo_matrix', '[1, 2, 3, 4]'::jsonb), infer('echo_string', '"w"'::jsonb);
SELECT infer('echo_wide', '1'::jsonb, '2'::jsonb, 3), infer('echo_pair', '{"word": "w", "numbers": [1, 2]}'::jsonb), infer('echo_wide', '{"x": [1, 2, 3]}'::jsonb), infer('echo_matrix', '{"x": [[1, 2], [3, 4]]}'::jsonb);
SELECT infer('echo_named', '{"b": 2, "Sepal.Length": 3, "a": 1}'::jsonb), infer('echo_named', '{"x": [1, 2, 3], "a": 9}'::jsonb);
SELECT infer('echo_pair', r) FROM (SELECT '"w"'::jsonb AS word, '[1, 2]'::jsonb AS numbers) r;

-- rows: by name where names are known; dropped and added columns, other order, extra columns
CREATE TABLE measured (id int, gone text, "Sepal.Length" float8, b numeric, note text, a int2);
INSERT INTO measured VALUES (1, 'x', 3, 2, 'n', 1), (2, 'x', 6, 5, NULL, 4);
ALTER TABLE measured DROP COLUMN gone;
SELECT id, infer('echo_named', m), infer('echo_named', m.*) FROM measured m ORDER BY id;
ALTER TABLE measured DROP COLUMN a;
SELECT pg_temp.fails($$SELECT infer('echo_named', m) FROM measured m$$);
ALTER TABLE measured ADD COLUMN a int DEFAULT 8;
SELECT id, infer('echo_named', m) FROM measured m ORDER BY id;
-- without names the number of columns must match
SELECT infer('echo_wide', r) FROM (SELECT 1 AS one, 2.5 AS two, true AS three) r;
SELECT infer('echo_wide', ROW(1, 2, 3)), infer('echo_wide', ROW('{1,2,3}'::int[]));
SELECT infer('echo_wide', r) FROM (SELECT 'no' AS id, ARRAY[1, 2, 3] AS x) r;
SELECT pg_temp.fails($$SELECT infer('echo_wide', m) FROM measured m$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', ROW(1, 2, 3))$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', r) FROM (SELECT 1 AS a, 2 AS a, 3 AS b, 4 AS "Sepal.Length") r$$);
-- names from the file, and an option that renames them
SELECT infer('echo_file_names@1', r), infer('echo_file_names@2', s) FROM (SELECT 2 AS height, 1 AS width) r, (SELECT 2 AS h, 1 AS w) s;
SELECT pg_temp.fails($$SELECT infer('echo_file_names@2', '{"width": 1, "height": 2}'::jsonb)$$);
-- a domain over a row type; rows of different types in one place
CREATE TYPE abc AS (a int, b int, "Sepal.Length" int);
CREATE DOMAIN abc_domain AS abc;
SELECT infer('echo_named', ROW(1, 2, 3)::abc), infer('echo_named', ROW(1, 2, 3)::abc_domain);
DO $$
DECLARE
	r record;
BEGIN
	FOR i IN 1 .. 4 LOOP
		IF i % 2 = 1 THEN
			SELECT i AS a, 2 AS b, 3 AS "Sepal.Length" INTO r;
		ELSE
			SELECT 3.5 AS "Sepal.Length", 'x' AS c, 2.5 AS b, i AS a INTO r;
		END IF;
		RAISE NOTICE '%', infer('echo_named', r);
	END LOOP;
END
$$;

-- NULL: one single input gives NULL, one of several is a missing value
SELECT infer('echo_float', NULL) IS NULL, infer('echo_wide', NULL::real[]) IS NULL, infer('echo_named', NULL::abc) IS NULL, infer('echo_named', NULL::jsonb) IS NULL, infer(NULL, 1) IS NULL;
SELECT infer('imputer', 1, NULL, 3), infer('imputer', '{NULL,2,NULL}'::real[]), infer('imputer', '{"a": null, "c": null, "b": 2}'::jsonb), infer('imputer', 'NaN'::float8, 2, 'NaN'::numeric);
SELECT infer('imputer', r) FROM (SELECT NULL::int AS a, NULL::numeric AS b, 3 AS c) r;
SELECT infer('imputer', VARIADIC '{1,NULL,NULL}'::float8[]), infer('imputer', '[null, null, 3]'::jsonb), infer('imputer', '{"x": null}'::jsonb);
SELECT infer('imputer', r) FROM (SELECT NULL::real[] AS x) r;
SELECT pg_temp.fails($$SELECT infer('echo_wide', 1, NULL, 3)$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', '{1,2,NULL}'::real[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', '{"a": 1, "b": null, "Sepal.Length": 3}'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_words', 'a', NULL)$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', NULL::real[], 'w')$$);

-- values that lie in a TOAST table
CREATE TEMP TABLE toasted (word text, document jsonb, numbers float8[]);
ALTER TABLE toasted ALTER word SET STORAGE EXTERNAL, ALTER document SET STORAGE EXTERNAL, ALTER numbers SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT repeat('w', 9000), jsonb_build_object('x', '[1, 2, 3]'::jsonb, 'other', repeat('o', 9000)), array_fill(1.5::float8, ARRAY[3000]);
SELECT infer('echo_string', word) = infer.try('echo_string', word) AS word, infer.try('echo_string', word) ->> 0 = word AS same,
	infer.try('echo_wide', document), infer.try('echo_wide', numbers) IS NULL AS hidden FROM toasted;
SELECT infer.try('echo_string', r) ->> 0 = r.x AS row FROM (SELECT word AS x, document FROM toasted) r;

\set ECHO none
\o /dev/null
SELECT infer.drop_model(name) FROM infer.models;
DROP TABLE stored, measured;
DROP TYPE mood;
DROP DOMAIN positives, vector3, abc_domain;
DROP DOMAIN positive;
DROP TYPE abc;
