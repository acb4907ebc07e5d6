-- Strings are UTF-8 to a model, whatever the database's encoding.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
SELECT current_database() AS home \gset
CREATE DATABASE regress_infer_latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';
CREATE DATABASE regress_infer_ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';
\set ECHO all

\c regress_infer_latin1
SET client_encoding = 'UTF8';
CREATE EXTENSION infer;
\set content `base64 -w0 :srcdir/fixtures/values/echo_string.onnx`
SELECT infer.create_model('echo', data => decode(:'content', 'base64'));
SELECT infer('echo', 'schön'), infer('echo', 'schön') ->> 0 = 'schön' AS same, octet_length('schön');
-- a model whose operator is called ☺: an error's text never fails itself
\set VERBOSITY terse
\set smile '''\\x08083a510a0e0a01780a01631201792203e298ba120474696e792a0d080110014201634a04000040405a140a0178120f0a0d080112090a0312014e0a02080162140a0179120f0a0d080112090a0312014e0a0208014202100d'''
SELECT infer.create_model('smile', data => :smile);
\set VERBOSITY default

\c regress_infer_ascii
CREATE EXTENSION infer;
SELECT infer.create_model('echo', data => decode(:'content', 'base64'));
SELECT infer('echo', 'schön') ->> 0 = 'schön' AS same;
SELECT infer('echo', E'\xff');
SELECT infer.try('echo', E'\xff') IS NULL AS hidden;

\c :home
DROP DATABASE regress_infer_latin1;
DROP DATABASE regress_infer_ascii;
