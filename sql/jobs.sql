/* ---- jobs ---- */

/*
 * What jobs leave: the job, its shards with their checkpoints, and the items that are not simply
 * done.  Written by the library alone, whatever the privileges of who submits; read through the
 * views.
 */
CREATE SEQUENCE infer.job_id;
COMMENT ON SEQUENCE infer.job_id IS 'the last number that a job got';

CREATE TABLE infer.job
(
	job			bigint PRIMARY KEY,
	origin		text NOT NULL,			-- the server and installation that it was submitted in: elsewhere it is history
	name		text,
	owner		oid NOT NULL,			-- in its origin
	owner_name	text NOT NULL,
	model		text NOT NULL,			-- name@version, or "requests" for a file's lines
	state		text NOT NULL,
	sqlstate	text,					-- of what ended it
	message		text,					-- why it failed, was cancelled, or waits
	priority	int NOT NULL,
	request		jsonb NOT NULL,			-- submit_job's arguments, the search_path, and what they were worked out to
	total		bigint,					-- items; NULL: not counted yet
	total_estimated bool NOT NULL,
	faults		int NOT NULL,			-- times in a row that it had to leave off without getting on
	submitted	timestamptz NOT NULL,
	started		timestamptz,
	finished	timestamptz,
	expires		timestamptz,
	resume_at	timestamptz,			-- nothing to do before
	facts		jsonb					-- what the request meant when it was submitted: model, statements, versions
);
COMMENT ON TABLE infer.job IS 'jobs: read infer.jobs instead';

CREATE TABLE infer.job_shard
(
	job			bigint NOT NULL,
	shard		int NOT NULL,			-- from 1
	state		text NOT NULL,			-- in_progress, completed
	low			text[],					-- keys above this one; NULL: from the first
	high		text[],					-- up to this one; NULL: to the last
	checkpoint	text[],					-- the last key that is settled; NULL: none
	read_to_end	bool NOT NULL,			-- only items are left
	done		bigint NOT NULL,
	failed		bigint NOT NULL,
	gone		bigint NOT NULL,		-- deleted before they were written
	expired		bigint NOT NULL,
	cancelled	bigint NOT NULL,
	recomputed	bigint NOT NULL,		-- changed or locked when they were to be written
	tokens		bigint NOT NULL,
	chunks		bigint NOT NULL,
	rows_per_second double precision,
	read_time	double precision NOT NULL,	-- ms
	prepare_time double precision NOT NULL,
	queue_time	double precision NOT NULL,
	compute_time double precision NOT NULL,
	write_time	double precision NOT NULL,
	input_digest bytea NOT NULL,		-- 16 bytes each
	output_digest bytea NOT NULL,
	starts		int NOT NULL,			-- of runners
	started		timestamptz,
	updated		timestamptz NOT NULL,
	engines		jsonb,					-- those that computed it, as they differ
	PRIMARY KEY (job, shard)
);
COMMENT ON TABLE infer.job_shard IS 'key ranges of jobs, and how far they are';

/* Items that are not simply done: to be tried again, or ended otherwise. */
CREATE TABLE infer.job_item
(
	job			bigint NOT NULL,
	shard		int NOT NULL,
	item		bigint NOT NULL,		-- from 1 within the shard
	key			text[] NOT NULL,		-- as texts of its columns
	state		text NOT NULL,			-- pending, failed, expired, cancelled
	attempts	int NOT NULL,
	sqlstate	text,
	message		text,
	retryable	bool NOT NULL,
	due			timestamptz,			-- of a pending one
	updated		timestamptz NOT NULL,
	PRIMARY KEY (job, shard, item)
);
COMMENT ON TABLE infer.job_item IS 'items of jobs that are not simply done: read infer.job_errors instead';

/* The rows of a source that is read once. */
CREATE TABLE infer.job_input
(
	job			bigint NOT NULL,
	number		bigint NOT NULL,		-- from 1
	key			text[] NOT NULL,
	input		text[] NOT NULL,
	PRIMARY KEY (job, number)
);
COMMENT ON TABLE infer.job_input IS 'rows of queries that jobs have read and not ended yet';

SELECT pg_extension_config_dump('infer.job_id', '');
SELECT pg_extension_config_dump('infer.job', '');
SELECT pg_extension_config_dump('infer.job_shard', '');
SELECT pg_extension_config_dump('infer.job_item', '');
GRANT SELECT, INSERT ON infer.job, infer.job_shard, infer.job_item TO pg_database_owner;
GRANT SELECT, UPDATE ON SEQUENCE infer.job_id TO pg_database_owner;

CREATE FUNCTION infer.submit_job(model text, "table" regclass DEFAULT NULL, input text DEFAULT NULL, output text DEFAULT NULL,
								 condition text DEFAULT NULL, source text DEFAULT NULL, key text DEFAULT NULL,
								 target regclass DEFAULT NULL, verb text DEFAULT NULL, class text DEFAULT NULL,
								 version_column text DEFAULT NULL, name text DEFAULT NULL, job_priority int DEFAULT 0,
								 completion_window interval DEFAULT NULL, options jsonb DEFAULT '{}',
								 max_failures double precision DEFAULT 10000, shards int DEFAULT 1) RETURNS bigint
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_submit_job';
COMMENT ON FUNCTION infer.submit_job(text, regclass, text, text, text, text, text, regclass, text, text, text, text, int, interval, jsonb, double precision, int)
	IS 'score a table, or the rows of a query, in the background; returns the job''s number';

CREATE FUNCTION infer.cancel_job(job bigint) RETURNS bool
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_cancel_job';
COMMENT ON FUNCTION infer.cancel_job(bigint) IS 'stop a job; what it has done stays; false: it had ended';

CREATE FUNCTION infer.retry_job(job bigint) RETURNS bigint
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_retry_job';
COMMENT ON FUNCTION infer.retry_job(bigint) IS 'take a job that ended up again where it stands, with the items that failed; returns how many these are';

CREATE FUNCTION infer.wait_job(job bigint, timeout interval DEFAULT NULL) RETURNS text
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_wait_job';
COMMENT ON FUNCTION infer.wait_job(bigint, interval) IS 'wait until a job has ended, or for so long; returns its state';

CREATE FUNCTION infer.drop_job(job bigint) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_drop_job';
COMMENT ON FUNCTION infer.drop_job(bigint) IS 'forget a job that has ended';
