-- The SQL surface: which objects there are, and the properties that each kind must have.
BEGIN;
SELECT no_plan();

CREATE TEMP VIEW members AS
	SELECT classid, objid FROM pg_depend
	WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'infer');
CREATE TEMP VIEW functions AS
	SELECT p.*, p.oid::regprocedure::text AS signature,
		p.proname IN ('infer', 'try', 'predict', 'outputs', 'classify', 'probabilities', 'probability') AS verb,
		p.proname IN ('embed', 'embed_all', 'rerank', 'entities', 'tokenize', 'token_count', 'chunk') AS verb_of_texts,
		p.proname IN ('cosine_similarity', 'distance') AS of_vectors
	FROM pg_proc p JOIN members m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid;

SELECT is(
	(SELECT string_agg(signature || ' ' || pg_get_function_result(oid), E'\n' ORDER BY signature) FROM functions WHERE verb),
	$$infer(text,"any") jsonb
infer.classify(text,"any") text
infer.outputs(text,"any") double precision[]
infer.predict(text,"any") double precision
infer.probabilities(text,"any") jsonb
infer.probability(text,text,"any") double precision
infer.try(text,"any") jsonb$$, 'the verbs and what they return');
SELECT is(
	(SELECT string_agg(signature || ' ' || pg_get_function_result(oid), E'\n' ORDER BY signature) FROM functions WHERE verb_of_texts),
	$$infer.chunk(text,text,integer,integer,jsonb) TABLE(index integer, chunk text, tokens integer)
infer.embed(text,text,jsonb) real[]
infer.embed_all(text,text[],jsonb) TABLE(index integer, embedding real[])
infer.entities(text,text,jsonb) TABLE(entity text, text text, start_offset integer, end_offset integer, score double precision)
infer.rerank(text,text,text,jsonb) double precision
infer.token_count(text,text) integer
infer.tokenize(text,text) integer[]$$, 'those about texts');
SELECT bag_has(
	'SELECT signature FROM functions',
	$$VALUES ('infer.create_model(text,text,jsonb,bytea,text)'), ('infer.begin_upload()'), ('infer.upload(text,text,integer,bytea)'),
		('infer.activate_model(text,integer)'), ('infer.drop_model(text)'), ('infer.drop_model(text,integer)'),
		('infer.rename_model(text,text)'), ('infer.grant_model(text,text)'), ('infer.revoke_model(text,text)'),
		('infer.load_model(text)'), ('infer.unload_model(text)'), ('infer.restart_engine()'), ('infer.reset_stats()'),
		('infer.profile(text,"any")'), ('infer.cancel_job(bigint)'), ('infer.retry_job(bigint)'), ('infer.wait_job(bigint,interval)'),
		('infer.drop_job(bigint)'), ('infer.job_manifest(bigint)'), ('infer.export_results(bigint)'),
		('infer.submit_job_file(text,text,text,integer,interval,double precision,integer)'),
		('infer.import_requests(text,text,text,integer,interval,double precision,integer)')$$,
	'the functions around them');
SELECT bag_eq(
	$$SELECT relname::text FROM pg_class WHERE relnamespace = 'infer'::regnamespace AND relkind = 'v'$$,
	ARRAY['activity', 'devices', 'fresh_columns', 'job_errors', 'jobs', 'loaded_models', 'model_versions', 'models', 'stats'], 'the views');

-- A model can be replaced, and a verb's answer with it: never IMMUTABLE.
SELECT is_empty('SELECT signature FROM functions WHERE provolatile = $$i$$ AND NOT of_vectors', 'no function of models is immutable');
SELECT is_empty('SELECT signature FROM functions WHERE (verb OR verb_of_texts) AND (provolatile <> $$s$$ OR proparallel <> $$s$$)',
	'verbs are STABLE and PARALLEL SAFE');
SELECT bag_eq('SELECT signature FROM functions WHERE provolatile = $$i$$ AND proparallel = $$s$$ AND proisstrict',
	$$VALUES ('infer.cosine_similarity(real[],real[])'), ('infer.distance(real[],real[],text)')$$,
	'what compares vectors is IMMUTABLE, PARALLEL SAFE and STRICT');
SELECT is_empty('SELECT signature FROM functions WHERE verb_of_texts AND (proisstrict OR prosupport = 0 OR procost < 100)',
	'verbs about texts see NULL, and tell the planner what they cost');
SELECT is_empty($$SELECT signature FROM functions WHERE (verb_of_texts OR of_vectors) AND array_position(proargnames, '') IS NOT NULL$$,
	'their arguments have names');
SELECT is_empty('SELECT signature FROM functions WHERE verb AND (proisstrict OR provariadic = 0)',
	'verbs see NULL and take any number of inputs');
SELECT is_empty('SELECT signature FROM functions WHERE verb AND procost < 100', 'verbs cost more than an operator');
SELECT is_empty('SELECT signature FROM functions WHERE NOT (verb OR verb_of_texts OR of_vectors) AND (provolatile <> $$v$$ OR proparallel <> $$u$$)',
	'everything else is VOLATILE and stays out of parallel workers');
SELECT is_empty('SELECT signature FROM functions WHERE prosecdef', 'no function borrows the rights of its owner');
SELECT is_empty('SELECT signature FROM functions WHERE probin IS DISTINCT FROM $$$libdir/infer$$', 'all live in the library');
SELECT is_empty('SELECT signature FROM functions WHERE obj_description(oid, $$pg_proc$$) IS NULL',
	'every function says what it does');
SELECT is_empty($$SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'infer'::regnamespace AND c.relkind IN ('r', 'v')
	AND obj_description(c.oid, 'pg_class') IS NULL$$, 'so does every table and view');
-- psql's \d+ is where units and definitions are looked up
SELECT is_empty($$SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
	WHERE c.relnamespace = 'infer'::regnamespace AND c.relname IN ('stats', 'activity', 'loaded_models', 'devices', 'jobs', 'job_errors', 'fresh_columns')
		AND col_description(c.oid, a.attnum) IS NULL$$, 'and every column of the views of the engine and of jobs');
SELECT ok(obj_description('infer'::regnamespace, 'pg_namespace') IS NOT NULL, 'and the schema');
SELECT is_empty($$SELECT signature FROM functions WHERE verb
	AND pg_get_function_arguments(oid) !~ '^model text, (class text, )?VARIADIC input "any"$'$$, 'every argument of a verb has a name');
SELECT is_empty($$SELECT signature FROM functions WHERE NOT verb AND proname IN ('restart_engine', 'reset_stats')
	AND has_function_privilege('public', oid, 'EXECUTE')$$, 'what affects everybody is not for everybody');

-- The catalogue.
SELECT is_empty($$SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'infer'::regnamespace AND c.relkind = 'r'
	AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)$$,
	'each table has a primary key, as publications of all tables need');
SELECT bag_eq(
	$$SELECT c.relname::text FROM pg_extension e, unnest(e.extconfig) o JOIN pg_class c ON c.oid = o WHERE e.extname = 'infer'$$,
	ARRAY['model_counter', 'model_version', 'model_file', 'job_id', 'job', 'job_shard', 'job_item', 'job_request', 'fresh_id', 'fresh'],
	'dumps carry the models, what jobs did, and what is kept fresh');
SELECT is_empty($$SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'infer'::regnamespace AND c.relkind = 'r'
	AND has_table_privilege('public', c.oid, 'SELECT, INSERT, UPDATE, DELETE')$$, 'nobody else reads or writes the tables');
SELECT ok(has_schema_privilege('public', 'infer', 'USAGE') AND NOT has_schema_privilege('public', 'infer', 'CREATE'),
	'the schema is open to use and closed to creation');
SELECT is((SELECT extversion FROM pg_extension WHERE extname = 'infer'),
	(SELECT default_version FROM pg_available_extensions WHERE name = 'infer'), 'the version is the installed one');
SELECT is((SELECT count(*)::int FROM pg_settings WHERE name LIKE 'infer.%' AND short_desc = ''), 0, 'every setting is described');

SELECT finish();
ROLLBACK;
