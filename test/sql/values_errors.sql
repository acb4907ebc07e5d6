-- What is refused, with its SQLSTATE and its remedy.
\set ECHO none
\o /dev/null
\getenv srcdir PG_ABS_SRCDIR
\set values :srcdir/fixtures/values.psql
\i :values
\o
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- names for inputs that have their own
\set content `base64 -w0 :srcdir/fixtures/values/echo_types.onnx`
SELECT pg_temp.fails($$SELECT infer.create_model('named', data => decode('$$ || :'content' || $$', 'base64'), options => '{"features": ["a"]}')$$);

-- out of range
SELECT pg_temp.fails($$SELECT infer('echo_float', 1e39)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', 1e39::float8)$$);
SELECT pg_temp.fails($$SELECT infer('echo_double', 1e309)$$);
SELECT pg_temp.fails($$SELECT infer('echo_int', 2147483648)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bigint', 9223372036854775808)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bigint', 9.3e18::float8)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bigint', 'NaN'::float8)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bigint', 'Infinity'::numeric)$$);
SELECT pg_temp.fails($$SELECT infer('echo_int', 1.5)$$);
SELECT pg_temp.fails($$SELECT infer('echo_int', 1.5::real)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bool', 2)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bool', 0.5)$$);
SELECT pg_temp.fails($$SELECT infer('echo_bool', 0.99999999999999999999)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '{1,1e39,3}'::float8[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', '{"a": 1, "b": 1e39, "Sepal.Length": 3}'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', date 'infinity')$$);

-- types that cannot be a feature, each with a remedy
SELECT pg_temp.fails($$SELECT infer('echo_float', date '2024-02-29')$$);
SELECT pg_temp.fails($$SELECT infer('echo_bigint', timestamp '2024-02-29')$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', interval '1 day')$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', timestamptz '2024-02-29')$$);
CREATE TYPE size AS ENUM ('small', 'large');
SELECT pg_temp.fails($$SELECT infer('echo_float', 'small'::size)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', 'a'::text)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', '1.5')$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', 'a', 'b', 'c')$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', '{"a": 1, "b": 2, "Sepal.Length": 3}')$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', ' [1]')$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '{a,b,c}'::text[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', 1.5)$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', 1.5::real)$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', true)$$);
SELECT pg_temp.fails($$SELECT infer('echo_words', '{1.5,2.5}'::numeric[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', '{"a": 1}'::json)$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', '\x00'::bytea)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', ROW(1), 2)$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', r) FROM (SELECT ROW(1) AS a, 2 AS b, 3 AS "Sepal.Length") r$$);

-- counts: both of them, and how to declare names
SELECT pg_temp.fails($$SELECT infer('echo_wide', 1, 2)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', 1)$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', 1, 2, 3, 4)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', ARRAY[1, 2])$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '{}'::int[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', VARIADIC '{}'::int[])$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', 1, 2)$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', ARRAY[1, 2, 3], 'w')$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', ARRAY[1, 2])$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', ARRAY[1, 2], 'w', 'v')$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', 1, 'w')$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', r) FROM (SELECT 1 AS a, 2 AS b) r$$);

-- names
SELECT pg_temp.fails($$SELECT infer('echo_named', r) FROM (SELECT 1 AS a, 2 AS b) r$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', r) FROM (SELECT 1 AS "A", 2 AS "B", 3 AS "sepal.length") r$$);
SELECT pg_temp.fails($$SELECT infer('echo_named', '{"a": 1}'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '{"a": 1, "b": 2, "c": 3}'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', '{"word": "w"}'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', r) FROM (SELECT 'w' AS word) r$$);

-- documents
SELECT pg_temp.fails($$SELECT infer('echo_wide', '[1, 2]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '[1, 2, "3"]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '[1, 2, {"a": 3}]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '[1, 2, [3]]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_matrix', '[[1, 2], [3]]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_matrix', '[[1, 2, 3, 4]]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '[[[[[[[[[1, 2, 3]]]]]]]]]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_wide', '3'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', '"3"'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', '[]'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', '3'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_string', 'true'::jsonb)$$);
SELECT pg_temp.fails($$SELECT infer('echo_pair', '[1, 2]'::jsonb)$$);

-- models
SELECT pg_temp.fails($$SELECT infer('nobody', 1)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float@7', 1)$$);

-- what infer.try shows as NULL: this row's own errors
\pset null <null>
SELECT infer.try('echo_float', x) FROM (VALUES (1::float8), (1e39), (2)) v(x);
SELECT infer.try('echo_wide', x) FROM (VALUES ('{1,2,3}'::real[]), ('{1,2}'), ('{1,NULL,3}'), ('{4,5,6}')) v(x);
SELECT infer.try('echo_named', x) FROM (VALUES ('{"a": 1, "b": 2, "Sepal.Length": 3}'::jsonb), ('{"a": 1}'), ('[1, 2]'), ('{"a": "x", "b": 2, "Sepal.Length": 3}')) v(x);
SELECT infer.try('root', x) FROM (VALUES (4), (-4), (9)) v(x);
-- and what it does not hide: the statement's errors
SELECT pg_temp.fails($$SELECT infer.try('nobody', 1)$$);
SELECT pg_temp.fails($$SELECT infer.try('echo_wide', 1, 2)$$);
SELECT pg_temp.fails($$SELECT infer.try('echo_float', now())$$);
SELECT pg_temp.fails($$SELECT infer.try('echo_float', 'text')$$);
SELECT pg_temp.fails($$SELECT infer.try('echo_named', r) FROM (SELECT 1 AS a) r$$);
CREATE ROLE regress_infer_stranger;
SET ROLE regress_infer_stranger;
SELECT infer.try('echo_float', 1);
RESET ROLE;
-- infer.on_error does the same for every verb
SET infer.on_error = 'null';
SELECT infer('root', -4), infer.predict('root', -4), infer.outputs('root', -4), infer.classify('root_declared', -4), infer.probabilities('root_declared', -4), infer.probability('root_declared', 'yes', -4);
SELECT infer.predict('root', x) FROM (VALUES (4), (-4), (9)) v(x);
SELECT pg_temp.fails($$SELECT infer.predict('nobody', 1)$$);
SELECT pg_temp.fails($$SELECT infer.probability('root_declared', 'perhaps', 0.25)$$);
SELECT pg_temp.fails($$SELECT infer.predict('several', 1, 2)$$);
RESET infer.on_error;
-- not finite
SELECT pg_temp.fails($$SELECT infer('root', -4)$$);
SELECT pg_temp.fails($$SELECT infer('echo_float', 'NaN'::real)$$);
SELECT pg_temp.fails($$SELECT infer('echo_double', '-Infinity'::float8)$$);

\set ECHO none
\o /dev/null
SELECT infer.drop_model(name) FROM infer.models;
DROP ROLE regress_infer_stranger;
DROP TYPE size;
