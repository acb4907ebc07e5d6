/*
 * infer.sql
 *	  The install script.
 *
 * Sections: the catalogue, the verbs, the engine.  Everything lives in schema infer, which
 * this script makes; only infer() goes where CREATE EXTENSION says.
 *
 * A trusted script runs as superuser in a schema that others may write to: every name is
 * qualified, and the path holds nothing of theirs.  No IF NOT EXISTS, no OR REPLACE.
 */
\echo Use "CREATE EXTENSION infer" to load this file. \quit

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION @extschema@.infer_check_install(own_schema text) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'infer_check_install';
SELECT @extschema@.infer_check_install('@extschema@');
DROP FUNCTION @extschema@.infer_check_install(text);

CREATE SCHEMA infer;
COMMENT ON SCHEMA infer IS 'functions and views of extension infer';
GRANT USAGE ON SCHEMA infer TO PUBLIC;

/* ---- the catalogue ---- */

/*
 * A model is a foreign server of this wrapper: it carries the name, the owner, the
 * privileges and the comment; its option "id" joins it to the tables below.  USAGE on the
 * wrapper is the right to create models.
 */
CREATE FOREIGN DATA WRAPPER infer;
COMMENT ON FOREIGN DATA WRAPPER infer IS 'models of extension infer: made by infer.create_model()';
GRANT USAGE ON FOREIGN DATA WRAPPER infer TO pg_database_owner WITH GRANT OPTION;

/* The last version number that a model gave out: none is ever used twice. */
CREATE TABLE infer.model_counter
(
	model_id	uuid PRIMARY KEY,
	last_version int NOT NULL
);
COMMENT ON TABLE infer.model_counter IS 'the last version number that each model gave out';

CREATE TABLE infer.model_version
(
	model_id	uuid NOT NULL,
	version		int NOT NULL,
	active		bool NOT NULL,
	kind		text NOT NULL,
	format		text NOT NULL,
	digest		bytea NOT NULL,			-- SHA-256 of the files
	bytes		bigint NOT NULL,		-- of the files
	signature	jsonb NOT NULL,			-- what the engine says that it takes and returns
	options		jsonb NOT NULL,			-- as create_model was given them
	reference	text,					-- path, where only path and digest are kept
	created		timestamptz NOT NULL,
	PRIMARY KEY (model_id, version)
);
COMMENT ON TABLE infer.model_version IS 'versions of models: read infer.model_versions instead';

/* Files belong to a digest, so equal versions share them. */
CREATE TABLE infer.model_file
(
	digest		bytea NOT NULL,
	name		text COLLATE "C" NOT NULL,
	chunk		int NOT NULL,			-- from 0, without a hole
	data		bytea NOT NULL,			-- at most 1 MB
	PRIMARY KEY (digest, name, chunk)
);
ALTER TABLE infer.model_file ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE infer.model_file IS 'files of models, by their digest';

/* What a client has sent and create_model has not taken yet; not part of a dump. */
CREATE TABLE infer.model_upload
(
	id			uuid PRIMARY KEY,
	owner		oid NOT NULL,
	created		timestamptz NOT NULL
);
COMMENT ON TABLE infer.model_upload IS 'uploads that create_model has not taken yet';

CREATE TABLE infer.model_upload_part
(
	id			uuid NOT NULL,
	file		text COLLATE "C" NOT NULL,
	part		int NOT NULL,			-- from 1
	chunk		int NOT NULL,			-- from 0, without a hole
	data		bytea NOT NULL,			-- at most 1 MB
	PRIMARY KEY (id, file, part, chunk)
);
ALTER TABLE infer.model_upload_part ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE infer.model_upload_part IS 'parts of uploads';

SELECT pg_extension_config_dump('infer.model_counter', '');
SELECT pg_extension_config_dump('infer.model_version', '');
SELECT pg_extension_config_dump('infer.model_file', '');

/* A database's owner can dump and restore without being superuser. */
GRANT SELECT, INSERT ON infer.model_counter, infer.model_version, infer.model_file TO pg_database_owner;

CREATE FUNCTION infer.create_model(name text, path text DEFAULT NULL, options jsonb DEFAULT '{}',
								   data bytea DEFAULT NULL, upload text DEFAULT NULL) RETURNS int
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_create_model';
COMMENT ON FUNCTION infer.create_model(text, text, jsonb, bytea, text)
	IS 'make a model, or a new version of it, from a file or folder of the server, from data, or from an upload; returns the version';

CREATE FUNCTION infer.begin_upload() RETURNS text
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_begin_upload';
COMMENT ON FUNCTION infer.begin_upload() IS 'start to send a model''s files in parts; returns the upload''s id';

CREATE FUNCTION infer.upload(upload text, file text, part int, data bytea) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_upload';
COMMENT ON FUNCTION infer.upload(text, text, int, bytea) IS 'send one part of a file; parts are counted from 1';

CREATE FUNCTION infer.activate_model(name text, version int) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_activate_model';
COMMENT ON FUNCTION infer.activate_model(text, int) IS 'make this version the one that the bare name means';

CREATE FUNCTION infer.drop_model(name text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_drop_model';
COMMENT ON FUNCTION infer.drop_model(text) IS 'drop a model with all its versions';

CREATE FUNCTION infer.drop_model(name text, version int) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_drop_model_version';
COMMENT ON FUNCTION infer.drop_model(text, int) IS 'drop one version that is not active';

CREATE FUNCTION infer.rename_model(name text, new_name text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_rename_model';
COMMENT ON FUNCTION infer.rename_model(text, text) IS 'give a model another name';

CREATE FUNCTION infer.grant_model(name text, role text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_grant_model';
COMMENT ON FUNCTION infer.grant_model(text, text) IS 'let a role, or public, use a model';

CREATE FUNCTION infer.revoke_model(name text, role text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_revoke_model';
COMMENT ON FUNCTION infer.revoke_model(text, text) IS 'take back what infer.grant_model gave';

CREATE FUNCTION infer.load_model(name text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_load_model';
COMMENT ON FUNCTION infer.load_model(text) IS 'have the engine load a model now, also one that was disabled';

CREATE FUNCTION infer.unload_model(name text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_unload_model';
COMMENT ON FUNCTION infer.unload_model(text) IS 'have the engine forget a model until its next use';

/* Servers of the wrapper, with the id; owner's rights on the tables, caller's on the models. */
CREATE VIEW infer.model_versions WITH (security_barrier) AS
	SELECT s.srvname::text AS name,
		   v.version,
		   v.active,
		   v.kind,
		   CASE WHEN v.options OPERATOR(pg_catalog.?) 'classes' THEN 'classifier'
				ELSE v.signature OPERATOR(pg_catalog.->>) 'task' END AS task,
		   v.format,
		   encode(v.digest, 'hex') AS digest,
		   v.bytes,
		   jsonb_path_query_array(v.signature, '$.inputs[*] ? (!exists(@.hidden))') AS inputs,
		   jsonb_path_query_array(v.signature, '$.outputs[*] ? (!exists(@.hidden))') AS outputs,
		   COALESCE(v.options OPERATOR(pg_catalog.->) 'features', v.signature OPERATOR(pg_catalog.->) 'features') AS features,
		   COALESCE(v.options OPERATOR(pg_catalog.->) 'classes', v.signature OPERATOR(pg_catalog.->) 'classes') AS classes,
		   v.signature OPERATOR(pg_catalog.->>) 'notes' AS notes,
		   v.signature OPERATOR(pg_catalog.->) 'facts' AS facts,
		   v.options,
		   v.reference,
		   v.created
	FROM pg_foreign_server s
		 JOIN pg_foreign_data_wrapper w ON w.oid OPERATOR(pg_catalog.=) s.srvfdw
		 CROSS JOIN LATERAL pg_options_to_table(s.srvoptions) o
		 JOIN infer.model_version v ON v.model_id::text OPERATOR(pg_catalog.=) o.option_value
	WHERE w.fdwname OPERATOR(pg_catalog.=) 'infer'
		  AND o.option_name OPERATOR(pg_catalog.=) 'id'
		  AND (has_server_privilege(s.oid, 'USAGE') OR pg_has_role(s.srvowner, 'USAGE'));
COMMENT ON VIEW infer.model_versions IS 'every version of the models that you may use';

CREATE VIEW infer.models WITH (security_barrier) AS
	SELECT s.srvname::text AS name,
		   pg_get_userbyid(s.srvowner)::text AS owner,
		   a.version AS active_version,
		   n.versions,
		   a.kind,
		   a.task,
		   a.format,
		   a.digest,
		   a.bytes,
		   a.features,
		   a.classes,
		   a.created,
		   obj_description(s.oid, 'pg_foreign_server') AS description
	FROM pg_foreign_server s
		 JOIN pg_foreign_data_wrapper w ON w.oid OPERATOR(pg_catalog.=) s.srvfdw
		 LEFT JOIN infer.model_versions a ON a.name OPERATOR(pg_catalog.=) s.srvname::text AND a.active
		 CROSS JOIN LATERAL (SELECT count(*) AS versions FROM infer.model_versions v
							 WHERE v.name OPERATOR(pg_catalog.=) s.srvname::text) n
	WHERE w.fdwname OPERATOR(pg_catalog.=) 'infer'
		  AND (has_server_privilege(s.oid, 'USAGE') OR pg_has_role(s.srvowner, 'USAGE'));
COMMENT ON VIEW infer.models IS 'the models that you may use';

GRANT SELECT ON infer.model_versions, infer.models TO PUBLIC;

/* ---- the verbs ---- */

/* Tells the planner what a call costs; an extension's own, so superuser's, privilege. */
CREATE FUNCTION infer.verb_support(internal) RETURNS internal
	LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'infer_verb_support';
COMMENT ON FUNCTION infer.verb_support(internal) IS 'tells the planner what a call of a model costs';

/*
 * STABLE, never IMMUTABLE: a model can be replaced.  Called on NULL: one NULL input gives
 * NULL, a NULL among several is a missing value.
 */
CREATE FUNCTION @extschema@.infer(model text, VARIADIC input "any") RETURNS jsonb
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer';
COMMENT ON FUNCTION @extschema@.infer(text, VARIADIC "any") IS 'whatever the model returns for the input';

CREATE FUNCTION infer.try(model text, VARIADIC input "any") RETURNS jsonb
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_try';
COMMENT ON FUNCTION infer.try(text, VARIADIC "any") IS 'like infer(), but NULL instead of an error of this row or of a lost, late or full engine';

CREATE FUNCTION infer.predict(model text, VARIADIC input "any") RETURNS double precision
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_predict';
COMMENT ON FUNCTION infer.predict(text, VARIADIC "any") IS 'the one number that a regression or a network with one output returns';

CREATE FUNCTION infer.outputs(model text, VARIADIC input "any") RETURNS double precision[]
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_outputs';
COMMENT ON FUNCTION infer.outputs(text, VARIADIC "any") IS 'the numbers that a model returns';

CREATE FUNCTION infer.classify(model text, VARIADIC input "any") RETURNS text
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_classify';
COMMENT ON FUNCTION infer.classify(text, VARIADIC "any") IS 'the label that a classifier chooses';

CREATE FUNCTION infer.probabilities(model text, VARIADIC input "any") RETURNS jsonb
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_probabilities';
COMMENT ON FUNCTION infer.probabilities(text, VARIADIC "any") IS 'the probability of each class';

CREATE FUNCTION infer.probability(model text, class text, VARIADIC input "any") RETURNS double precision
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_probability';
COMMENT ON FUNCTION infer.probability(text, text, VARIADIC "any") IS 'the probability of one class';

/* ---- texts ---- */

/* One NULL text gives NULL, as does a NULL model; NULL options are none. */
CREATE FUNCTION infer.embed(model text, input text, options jsonb DEFAULT '{}') RETURNS real[]
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_embed';
COMMENT ON FUNCTION infer.embed(text, text, jsonb) IS 'the embedding of a text; options: prompt, truncate, dimensions, normalize';

CREATE FUNCTION infer.embed_all(model text, inputs text[], options jsonb DEFAULT '{}')
	RETURNS TABLE (index int, embedding real[])
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 ROWS 100 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_embed_all';
COMMENT ON FUNCTION infer.embed_all(text, text[], jsonb) IS 'the embedding of each text of an array, counted from 1; NULL for NULL';

CREATE FUNCTION infer.rerank(model text, query text, document text, options jsonb DEFAULT '{}') RETURNS double precision
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_rerank';
COMMENT ON FUNCTION infer.rerank(text, text, text, jsonb) IS 'how well a document answers a query; options: truncate';

CREATE FUNCTION infer.entities(model text, input text, options jsonb DEFAULT '{}')
	RETURNS TABLE (entity text, text text, start_offset int, end_offset int, score double precision)
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 ROWS 10 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_entities';
COMMENT ON FUNCTION infer.entities(text, text, jsonb) IS 'what a text names, with its first and last character; options: truncate';

CREATE FUNCTION infer.tokenize(model text, input text) RETURNS int[]
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_tokenize';
COMMENT ON FUNCTION infer.tokenize(text, text) IS 'the ids of a text''s tokens, with the special ones';

CREATE FUNCTION infer.token_count(model text, input text) RETURNS int
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_token_count';
COMMENT ON FUNCTION infer.token_count(text, text) IS 'how many tokens a text has, with the special ones';

CREATE FUNCTION infer.chunk(model text, input text, max_tokens int, overlap int DEFAULT 0, options jsonb DEFAULT '{}')
	RETURNS TABLE (index int, chunk text, tokens int)
	LANGUAGE c STABLE PARALLEL SAFE COST 1000 ROWS 10 SUPPORT infer.verb_support AS 'MODULE_PATHNAME', 'infer_chunk';
COMMENT ON FUNCTION infer.chunk(text, text, int, int, jsonb) IS 'the parts of a text that have so many tokens at most; options: border';

/* They ask no model, so they are IMMUTABLE. */
CREATE FUNCTION infer.cosine_similarity(a real[], b real[]) RETURNS double precision
	LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT COST 20 AS 'MODULE_PATHNAME', 'infer_cosine_similarity';
COMMENT ON FUNCTION infer.cosine_similarity(real[], real[]) IS 'the cosine of the angle between two vectors: 1 for the same direction';

CREATE FUNCTION infer.distance(a real[], b real[], metric text) RETURNS double precision
	LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT COST 20 AS 'MODULE_PATHNAME', 'infer_distance';
COMMENT ON FUNCTION infer.distance(real[], real[], text) IS 'how far two vectors are apart; metric: cosine, l2, l1 or inner_product, as pgvector defines them';

/* ---- the engine ---- */

CREATE FUNCTION infer.read_stats(OUT model text, OUT version int, OUT class text, OUT calls bigint, OUT rows bigint,
								 OUT tokens bigint, OUT batches bigint, OUT mean_batch_rows double precision,
								 OUT batch_fill double precision,
								 OUT errors bigint, OUT cancelled bigint, OUT inline_calls bigint,
								 OUT prepare_time double precision,
								 OUT queue_time double precision, OUT queue_p50 double precision,
								 OUT queue_p95 double precision, OUT queue_p99 double precision,
								 OUT compute_time double precision, OUT compute_p50 double precision,
								 OUT compute_p95 double precision, OUT compute_p99 double precision,
								 OUT busy_share double precision, OUT since timestamptz,
								 OUT interrupted bigint, OUT long_segments bigint,
								 OUT predicted_error double precision) RETURNS SETOF record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_stats';
COMMENT ON FUNCTION infer.read_stats() IS 'behind the view infer.stats';

CREATE FUNCTION infer.read_loaded_models(OUT model text, OUT version int, OUT key text, OUT state text,
										 OUT bytes bigint, OUT loaded_at timestamptz,
										 OUT last_used_at timestamptz, OUT load_time double precision,
										 OUT from_cache bool) RETURNS SETOF record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_loaded_models';
COMMENT ON FUNCTION infer.read_loaded_models() IS 'behind the view infer.loaded_models';

CREATE FUNCTION infer.read_devices(OUT device text, OUT description text, OUT in_use bool, OUT threads int,
								   OUT memory_budget bigint, OUT memory_used bigint,
								   OUT busy_time double precision, OUT busy_share double precision,
								   OUT isa text, OUT numerics_id text, OUT since timestamptz, OUT detail text,
								   OUT host_copies bigint, OUT host_bytes bigint) RETURNS SETOF record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_devices';
COMMENT ON FUNCTION infer.read_devices() IS 'behind the view infer.devices';

CREATE FUNCTION infer.read_activity(OUT pid int, OUT database text, OUT role text, OUT model text, OUT version int,
									OUT class text, OUT rows int, OUT rows_done int, OUT state text,
									OUT queue_time double precision,
									OUT compute_time double precision) RETURNS SETOF record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_activity';
COMMENT ON FUNCTION infer.read_activity() IS 'behind the view infer.activity';

CREATE VIEW infer.stats AS SELECT * FROM infer.read_stats();
COMMENT ON VIEW infer.stats IS 'what the engine counted for each version and class of calls; times in milliseconds';
COMMENT ON COLUMN infer.stats.model IS 'of this database; NULL for one of another';
COMMENT ON COLUMN infer.stats.version IS 'the model''s';
COMMENT ON COLUMN infer.stats.class IS 'interactive, statement or job: see infer.request_class';
COMMENT ON COLUMN infer.stats.calls IS 'requests that have ended, however: of one row, or of many that a batch scan sends together';
COMMENT ON COLUMN infer.stats.rows IS 'that were computed';
COMMENT ON COLUMN infer.stats.tokens IS 'of those rows, that were computed; 0 where the model reads no text';
COMMENT ON COLUMN infer.stats.batches IS 'that rows of this class were in';
COMMENT ON COLUMN infer.stats.mean_batch_rows IS 'rows of such a batch, with those of other classes';
COMMENT ON COLUMN infer.stats.batch_fill IS 'how full such batches were: tokens of infer.batch_tokens, or rows of infer.batch_rows, 0 to 1';
COMMENT ON COLUMN infer.stats.errors IS 'rows that failed';
COMMENT ON COLUMN infer.stats.cancelled IS 'rows that nobody waited for any longer';
COMMENT ON COLUMN infer.stats.inline_calls IS 'calls that the thread that read them computed itself';
COMMENT ON COLUMN infer.stats.prepare_time IS 'ms that texts took to become tokens, before they waited';
COMMENT ON COLUMN infer.stats.queue_time IS 'ms, summed over rows: from their arrival until their batch began, without prepare_time';
COMMENT ON COLUMN infer.stats.queue_p50 IS 'ms: half of the calls waited no longer';
COMMENT ON COLUMN infer.stats.queue_p95 IS 'ms: 95 % of the calls waited no longer';
COMMENT ON COLUMN infer.stats.queue_p99 IS 'ms: 99 % of the calls waited no longer';
COMMENT ON COLUMN infer.stats.compute_time IS 'ms that the device worked for these calls';
COMMENT ON COLUMN infer.stats.compute_p50 IS 'ms: the batches of half of the calls took no longer';
COMMENT ON COLUMN infer.stats.compute_p95 IS 'ms: the batches of 95 % of the calls took no longer';
COMMENT ON COLUMN infer.stats.compute_p99 IS 'ms: the batches of 99 % of the calls took no longer';
COMMENT ON COLUMN infer.stats.busy_share IS 'part of the time that the device worked for these calls, 0 to 1';
COMMENT ON COLUMN infer.stats.since IS 'when counting began: the engine''s start, or the last infer.reset_stats()';
COMMENT ON COLUMN infer.stats.interrupted IS 'how often calls of a higher class ran in the middle of a batch; of the version, whatever the class';
COMMENT ON COLUMN infer.stats.long_segments IS 'segments that cannot be cut and are predicted to be longer than infer.slice; of the version, whatever the class';
COMMENT ON COLUMN infer.stats.predicted_error IS 'median error of the predicted time of the last 64 batches, as a fraction; of the version, whatever the class';

CREATE VIEW infer.loaded_models AS SELECT * FROM infer.read_loaded_models();
COMMENT ON VIEW infer.loaded_models IS 'the versions that the engine knows, and the memory that they hold';
COMMENT ON COLUMN infer.loaded_models.model IS 'of this database; NULL for one of another';
COMMENT ON COLUMN infer.loaded_models.version IS 'the model''s';
COMMENT ON COLUMN infer.loaded_models.key IS 'the engine''s name for it: the digest, or a hash of digest and dims';
COMMENT ON COLUMN infer.loaded_models.state IS 'loading, loaded, failed, or evicted (by infer.unload_model(), too)';
COMMENT ON COLUMN infer.loaded_models.bytes IS 'memory that it holds';
COMMENT ON COLUMN infer.loaded_models.loaded_at IS 'the last time, also of an evicted one';
COMMENT ON COLUMN infer.loaded_models.last_used_at IS 'the last time, also of an evicted one';
COMMENT ON COLUMN infer.loaded_models.load_time IS 'ms that the last load took in the engine';
COMMENT ON COLUMN infer.loaded_models.from_cache IS 'whether the last load took packed weights from the cache';

CREATE VIEW infer.devices AS SELECT * FROM infer.read_devices();
COMMENT ON VIEW infer.devices IS 'what the engine computes on, and why it does not compute on a GPU';
COMMENT ON COLUMN infer.devices.device IS 'its name, as in infer.device';
COMMENT ON COLUMN infer.devices.description IS 'the name of the processor or the card';
COMMENT ON COLUMN infer.devices.in_use IS 'whether the engine computes on it';
COMMENT ON COLUMN infer.devices.threads IS 'that compute on a CPU; of GPUs, how many are used';
COMMENT ON COLUMN infer.devices.memory_budget IS 'bytes: infer.memory, of a GPU infer.gpu_memory';
COMMENT ON COLUMN infer.devices.memory_used IS 'bytes of it that weights and workspaces of loaded models take';
COMMENT ON COLUMN infer.devices.busy_time IS 'ms that it worked';
COMMENT ON COLUMN infer.devices.busy_share IS 'part of the time that it worked, 0 to 1';
COMMENT ON COLUMN infer.devices.isa IS 'the instruction set that the kernels use';
COMMENT ON COLUMN infer.devices.numerics_id IS 'what the bits of results depend on: equal ids give equal bits';
COMMENT ON COLUMN infer.devices.since IS 'when counting began: the engine''s start, or the last infer.reset_stats()';
COMMENT ON COLUMN infer.devices.detail IS 'why the engine does not compute on it, or what it lacks; NULL: nothing';
COMMENT ON COLUMN infer.devices.host_copies IS 'tensors that were copied between a GPU and the CPU, since the engine''s start, for operators that the GPU has no kernel for';
COMMENT ON COLUMN infer.devices.host_bytes IS 'and their bytes';

CREATE VIEW infer.activity AS SELECT * FROM infer.read_activity();
COMMENT ON VIEW infer.activity IS 'the calls that wait or run in the engine now; times in milliseconds';
COMMENT ON COLUMN infer.activity.pid IS 'the session''s, as in pg_stat_activity';
COMMENT ON COLUMN infer.activity.database IS 'the session''s';
COMMENT ON COLUMN infer.activity.role IS 'the session''s';
COMMENT ON COLUMN infer.activity.model IS 'of this database; NULL for one of another, or one that is gone';
COMMENT ON COLUMN infer.activity.version IS 'the model''s';
COMMENT ON COLUMN infer.activity.class IS 'interactive, statement or job: see infer.request_class';
COMMENT ON COLUMN infer.activity.rows IS 'of the call';
COMMENT ON COLUMN infer.activity.rows_done IS 'of the call, computed already';
COMMENT ON COLUMN infer.activity.state IS 'queued, running, or loading: waits until the model is loaded';
COMMENT ON COLUMN infer.activity.queue_time IS 'ms waited so far, without the batch that runs';
COMMENT ON COLUMN infer.activity.compute_time IS 'ms since the batch that runs began; NULL if none of its rows is in it';

GRANT SELECT ON infer.stats, infer.loaded_models, infer.devices, infer.activity TO PUBLIC;

CREATE FUNCTION infer.profile(model text, VARIADIC input "any")
	RETURNS TABLE (node text, operator text, primitive text, device text, "time" double precision)
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_profile';
COMMENT ON FUNCTION infer.profile(text, VARIADIC "any") IS 'compute one row, and tell the time of each operator in milliseconds';

CREATE FUNCTION infer.reset_stats() RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_reset_stats';
COMMENT ON FUNCTION infer.reset_stats() IS 'set the counters of infer.stats and infer.devices to zero';
REVOKE EXECUTE ON FUNCTION infer.reset_stats() FROM PUBLIC;

CREATE FUNCTION infer.restart_engine() RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_restart_engine';
COMMENT ON FUNCTION infer.restart_engine() IS 'replace the engine by a fresh process; calls in flight are sent again';
REVOKE EXECUTE ON FUNCTION infer.restart_engine() FROM PUBLIC;
