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
	faults		int NOT NULL,			-- times in a row that a runner began, and ended without getting on
	submitted	timestamptz NOT NULL,
	started		timestamptz,
	finished	timestamptz,
	expires		timestamptz,
	resume_at	timestamptz,			-- nothing to do before, in any shard
	facts		jsonb,					-- what the request meant when it was submitted: model, statements, versions
	-- of a job that has ended here, the sums over its shards, which then need not be read; NULL: it has not
	done		bigint,
	failed		bigint,
	gone		bigint,
	expired		bigint,
	cancelled	bigint,
	recomputed	bigint,
	tokens		bigint,
	shards		int
);
COMMENT ON TABLE infer.job IS 'jobs: read infer.jobs instead';
-- those that have not ended, and those that ended first, are found among many
CREATE INDEX job_finished ON infer.job (finished);

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
	faults		int NOT NULL DEFAULT 0,	-- times in a row that its runner had to wait without getting on
	resume_at	timestamptz,			-- nothing to do before
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
CREATE INDEX job_item_state ON infer.job_item (job, state, shard, item);
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

/* The lines of a file of requests, and their responses. */
CREATE TABLE infer.job_request
(
	job			bigint NOT NULL,
	line		bigint NOT NULL,		-- of the file, from 1
	custom_id	text,
	url			text,
	model		text,					-- name@version
	body		jsonb,
	sqlstate	text,					-- of a line that cannot be run
	message		text,
	response	json,					-- its body: the bytes are kept as they are
	PRIMARY KEY (job, line)
);
COMMENT ON TABLE infer.job_request IS 'lines of files of requests, and their responses: call infer.export_results() instead';

SELECT pg_extension_config_dump('infer.job_id', '');
SELECT pg_extension_config_dump('infer.job', '');
SELECT pg_extension_config_dump('infer.job_shard', '');
SELECT pg_extension_config_dump('infer.job_item', '');
SELECT pg_extension_config_dump('infer.job_request', '');
GRANT SELECT, INSERT ON infer.job, infer.job_shard, infer.job_item, infer.job_request TO pg_database_owner;
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
COMMENT ON FUNCTION infer.retry_job(bigint) IS 'take a job that ended up again where it stands, with the items that failed; returns how many items that is, NULL: they were not counted';

CREATE FUNCTION infer.wait_job(job bigint, timeout interval DEFAULT NULL) RETURNS text
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_wait_job';
COMMENT ON FUNCTION infer.wait_job(bigint, interval) IS 'wait until a job has ended, or for so long; returns its state';

CREATE FUNCTION infer.drop_job(job bigint) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_drop_job';
COMMENT ON FUNCTION infer.drop_job(bigint) IS 'forget a job that has ended';

/*
 * Rows of jobs that the library did not write come with a dump or by replication, and are nobody's to add to a job of
 * this server; the launcher is told, so that unfinished jobs are ended.  The library's own writes fire no trigger.
 */
CREATE FUNCTION infer.jobs_came() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'infer_jobs_came';
COMMENT ON FUNCTION infer.jobs_came() IS 'has jobs ended that a dump brought unfinished';
CREATE TRIGGER jobs_came BEFORE INSERT ON infer.job FOR EACH ROW EXECUTE FUNCTION infer.jobs_came();
CREATE TRIGGER jobs_came BEFORE INSERT ON infer.job_shard FOR EACH ROW EXECUTE FUNCTION infer.jobs_came();
CREATE TRIGGER jobs_came BEFORE INSERT ON infer.job_item FOR EACH ROW EXECUTE FUNCTION infer.jobs_came();
CREATE TRIGGER jobs_came BEFORE INSERT ON infer.job_request FOR EACH ROW EXECUTE FUNCTION infer.jobs_came();
ALTER TABLE infer.job ENABLE ALWAYS TRIGGER jobs_came;
ALTER TABLE infer.job_shard ENABLE ALWAYS TRIGGER jobs_came;
ALTER TABLE infer.job_item ENABLE ALWAYS TRIGGER jobs_came;
ALTER TABLE infer.job_request ENABLE ALWAYS TRIGGER jobs_came;

/* ---- files of JSON lines ---- */

CREATE FUNCTION infer.submit_job_file(path text, model text DEFAULT NULL, name text DEFAULT NULL, job_priority int DEFAULT 0,
									  completion_window interval DEFAULT NULL, max_failures double precision DEFAULT NULL,
									  shards int DEFAULT 1)
	RETURNS bigint
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_submit_job_file';
COMMENT ON FUNCTION infer.submit_job_file(text, text, text, int, interval, double precision, int)
	IS 'run the requests of a file of JSON lines on the server in the background; returns the job''s number';

CREATE FUNCTION infer.import_requests(lines text, model text DEFAULT NULL, name text DEFAULT NULL, job_priority int DEFAULT 0,
									  completion_window interval DEFAULT NULL, max_failures double precision DEFAULT NULL,
									  shards int DEFAULT 1)
	RETURNS bigint
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_import_requests';
COMMENT ON FUNCTION infer.import_requests(text, text, text, int, interval, double precision, int)
	IS 'run requests, JSON lines, in the background; returns the job''s number';

CREATE FUNCTION infer.export_results(job bigint) RETURNS TABLE (line text)
	LANGUAGE c VOLATILE STRICT ROWS 10000 AS 'MODULE_PATHNAME', 'infer_export_results';
COMMENT ON FUNCTION infer.export_results(bigint) IS 'the responses and errors of a job of JSON lines, a line for each';

/* In a job's own UPDATE: the result of the row at that place.  Elsewhere there is none. */
CREATE FUNCTION infer.read_job_value(place tid, type anyelement) RETURNS anyelement
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_job_value';
COMMENT ON FUNCTION infer.read_job_value(tid, anyelement) IS 'in the statements of jobs: what a row gets';

/* ---- what is to be seen of jobs ---- */

CREATE FUNCTION infer.read_job_workers(OUT job bigint, OUT shard int, OUT pid int, OUT phase text, OUT chunk bigint,
									   OUT rows int, OUT started timestamptz) RETURNS SETOF record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_job_workers';
COMMENT ON FUNCTION infer.read_job_workers() IS 'the background workers of your jobs, in this database; pid is NULL before they have connected';

CREATE FUNCTION infer.read_job_launcher(OUT pid int, OUT workers int, OUT workers_max int, OUT waiting int,
										OUT scans bigint, OUT starts bigint) RETURNS record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_job_launcher';
COMMENT ON FUNCTION infer.read_job_launcher() IS 'what starts jobs: its process (NULL: none), workers in all databases, shards that wait, and how many scans and starts of workers there were';

CREATE FUNCTION infer.read_job_delay(job bigint) RETURNS timestamptz
	LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'infer_read_job_delay';
COMMENT ON FUNCTION infer.read_job_delay(bigint) IS 'until when a job waits whose workers ended before they could begin with it; NULL: none did';

CREATE FUNCTION infer.read_job_wait(resume_at timestamptz) RETURNS text
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_job_wait';
COMMENT ON FUNCTION infer.read_job_wait(timestamptz) IS 'what an unfinished job without a worker waits for, which is not to go on before resume_at';

CREATE FUNCTION infer.read_job_owner(origin text, owner oid, owner_name text) RETURNS text
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_job_owner';
COMMENT ON FUNCTION infer.read_job_owner(text, oid, text) IS 'behind the views of jobs: the owner''s name, NULL if you may not see the job';

/*
 * Owner's rights on the tables; read_job_owner says whose jobs one sees.  The order is here, behind the barrier, so that
 * whoever wants the last few jobs of many has no others looked up.  Shards are read of jobs that have not ended, and items
 * of those, or where some have failed: who counts many ended jobs reads their own rows alone.
 */
CREATE VIEW infer.jobs WITH (security_barrier) AS
	SELECT j.job,
		   j.name,
		   j.state,
		   j.model,
		   o.owner,
		   j.priority AS job_priority,
		   COALESCE(j.request #>> '{table,name}', j.request ->> 'source',
					CASE WHEN j.request -> 'requests' = 'true' THEN 'JSON lines' END) AS source,
		   COALESCE(j.request #>> '{target,name}', j.request #>> '{table,name}') AS target,
		   j.total,
		   j.total_estimated,
		   s.done,
		   s.failed,
		   s.gone,
		   s.expired,
		   s.cancelled,
		   GREATEST(j.total - s.settled, 0) AS remaining,
		   p.pending,
		   s.recomputed,
		   s.tokens,
		   round(r.rate::numeric, 1)::double precision AS rows_per_second,
		   CASE WHEN j.finished IS NULL AND r.rate > 0
				THEN make_interval(secs => round(GREATEST(j.total - s.settled, 0) / r.rate)) END AS eta,
		   w.chunk,
		   CASE WHEN j.finished IS NOT NULL THEN NULL
				WHEN pg_is_in_recovery() THEN 'the end of recovery: jobs do not run on a standby'
				WHEN w.pids IS NULL THEN infer.read_job_wait(GREATEST(j.resume_at, s.resume_at, infer.read_job_delay(j.job)))
				WHEN j.message IS NOT NULL THEN 'the next attempt'
				WHEN s.read_to_end AND p.pending > 0 THEN format('rows that come back (%s, the first at %s)', p.pending, p.due)
				END AS waiting_for,
		   COALESCE(j.message, e.message) AS last_error,
		   CASE WHEN j.message IS NULL THEN e.sqlstate ELSE j.sqlstate END AS sqlstate,
		   s.shards,
		   w.pids,
		   j.submitted,
		   j.started,
		   j.finished,
		   j.expires
	FROM infer.job j
		 CROSS JOIN LATERAL infer.read_job_owner(j.origin, j.owner, j.owner_name) AS o (owner)
		 CROSS JOIN LATERAL (SELECT COALESCE(j.done, sum(t.done), 0)::bigint AS done,
									COALESCE(j.failed, sum(t.failed), 0)::bigint AS failed,
									COALESCE(j.gone, sum(t.gone), 0)::bigint AS gone,
									COALESCE(j.expired, sum(t.expired), 0)::bigint AS expired,
									COALESCE(j.cancelled, sum(t.cancelled), 0)::bigint AS cancelled,
									COALESCE(j.recomputed, sum(t.recomputed), 0)::bigint AS recomputed,
									COALESCE(j.tokens, sum(t.tokens), 0)::bigint AS tokens,
									COALESCE(j.done + j.failed + j.gone + j.expired + j.cancelled,
											 sum(t.done + t.failed + t.gone + t.expired + t.cancelled), 0)::bigint AS settled,
									sum(t.rows_per_second) FILTER (WHERE t.state <> 'completed') AS rate,
									COALESCE(j.shards, count(*))::int AS shards,
									bool_and(t.read_to_end) AS read_to_end,
									min(COALESCE(t.resume_at, '-infinity')) FILTER (WHERE t.state <> 'completed') AS resume_at
							 FROM infer.job_shard t WHERE t.job = j.job AND j.done IS NULL) AS s
		 CROSS JOIN LATERAL (SELECT CASE WHEN j.finished IS NULL THEN s.rate
									ELSE s.settled / NULLIF(EXTRACT(epoch FROM j.finished - j.started), 0)::double precision
									END AS rate) AS r
		 CROSS JOIN LATERAL (SELECT count(*) AS pending, min(i.due) AS due FROM infer.job_item i
							 WHERE i.job = j.job AND i.state = 'pending' AND j.finished IS NULL) AS p
		 CROSS JOIN LATERAL (SELECT array_agg(v.pid ORDER BY v.shard) FILTER (WHERE v.pid IS NOT NULL) AS pids,
									string_agg(format('%s%s chunk %s%s', CASE WHEN s.shards > 1 THEN format('shard %s: ', v.shard) END,
													  v.phase, v.chunk, CASE WHEN v.rows > 0 THEN format(' of %s rows', v.rows) END),
											   '; ' ORDER BY v.shard)
									FILTER (WHERE v.pid IS NOT NULL AND v.chunk > 0) AS chunk
							 FROM infer.read_job_workers() AS v WHERE v.job = j.job AND j.finished IS NULL) AS w
		 LEFT JOIN LATERAL (SELECT i.message, i.sqlstate FROM infer.job_item i
							WHERE i.job = j.job AND i.message IS NOT NULL AND j.message IS NULL AND s.failed + p.pending > 0
							ORDER BY i.updated DESC LIMIT 1) AS e ON true
	WHERE o.owner IS NOT NULL
	ORDER BY j.job DESC;
COMMENT ON VIEW infer.jobs IS 'your jobs: how far they are, what they wait for, how they ended';
COMMENT ON COLUMN infer.jobs.job IS 'its number, from infer.submit_job()';
COMMENT ON COLUMN infer.jobs.name IS 'as it was submitted; one of a name runs at a time';
COMMENT ON COLUMN infer.jobs.state IS 'validating, in_progress, finalizing, completed, failed, expired, cancelling or cancelled';
COMMENT ON COLUMN infer.jobs.model IS 'name@version: all rows are computed by this version';
COMMENT ON COLUMN infer.jobs.owner IS 'the role that submitted it, and as which it runs';
COMMENT ON COLUMN infer.jobs.job_priority IS 'the highest one that waits is started first, and computed first of those that run';
COMMENT ON COLUMN infer.jobs.source IS 'the table that is scored, the query, the file, or "JSON lines" that were sent';
COMMENT ON COLUMN infer.jobs.target IS 'the table that results are written into; NULL: infer.export_results() gives them';
COMMENT ON COLUMN infer.jobs.total IS 'rows; NULL before they are counted';
COMMENT ON COLUMN infer.jobs.total_estimated IS 'whether total is an estimate';
COMMENT ON COLUMN infer.jobs.done IS 'rows that were computed and written';
COMMENT ON COLUMN infer.jobs.failed IS 'rows that could not be: infer.job_errors tells why';
COMMENT ON COLUMN infer.jobs.gone IS 'rows that were deleted, or not to be computed any more, before they were written';
COMMENT ON COLUMN infer.jobs.expired IS 'rows that were left when the completion window ended';
COMMENT ON COLUMN infer.jobs.cancelled IS 'rows that were left when the job was cancelled';
COMMENT ON COLUMN infer.jobs.remaining IS 'rows of total that are none of those yet; of a job that failed, those that it did not come to';
COMMENT ON COLUMN infer.jobs.pending IS 'rows that come back: locked or changed meanwhile, or to be tried again';
COMMENT ON COLUMN infer.jobs.recomputed IS 'times that a row had to be computed again, because it was changed or locked when it was to be written';
COMMENT ON COLUMN infer.jobs.tokens IS 'of the rows that were computed; 0 where the model reads no text';
COMMENT ON COLUMN infer.jobs.rows_per_second IS 'lately; of a job that has ended, on the whole';
COMMENT ON COLUMN infer.jobs.eta IS 'how long it will take from now on, at that rate';
COMMENT ON COLUMN infer.jobs.chunk IS 'what its processes do now; NULL: it has none';
COMMENT ON COLUMN infer.jobs.waiting_for IS 'what it waits for: a worker slot, a background worker, the next attempt, locked rows; NULL: it does not';
COMMENT ON COLUMN infer.jobs.last_error IS 'why the job ended or waits; else the last error of a row';
COMMENT ON COLUMN infer.jobs.sqlstate IS 'of last_error';
COMMENT ON COLUMN infer.jobs.shards IS 'ranges of keys that it is cut into';
COMMENT ON COLUMN infer.jobs.pids IS 'its processes, as in pg_stat_activity';
COMMENT ON COLUMN infer.jobs.submitted IS 'when';
COMMENT ON COLUMN infer.jobs.started IS 'when its first process began';
COMMENT ON COLUMN infer.jobs.finished IS 'when it ended, however';
COMMENT ON COLUMN infer.jobs.expires IS 'when its completion window ends; NULL: it has none';

CREATE VIEW infer.job_errors WITH (security_barrier) AS
	SELECT i.job,
		   i.key,
		   i.state,
		   i.attempts,
		   i.sqlstate,
		   i.message,
		   i.retryable,
		   i.due,
		   i.updated AS at
	FROM infer.job j
		 CROSS JOIN LATERAL infer.read_job_owner(j.origin, j.owner, j.owner_name) AS o (owner)
		 JOIN infer.job_item i ON i.job = j.job
	WHERE o.owner IS NOT NULL;
COMMENT ON VIEW infer.job_errors IS 'rows of your jobs that are not simply done';
COMMENT ON COLUMN infer.job_errors.job IS 'as in infer.jobs';
COMMENT ON COLUMN infer.job_errors.key IS 'texts of the key''s columns';
COMMENT ON COLUMN infer.job_errors.state IS 'failed, expired, cancelled; pending: it comes back';
COMMENT ON COLUMN infer.job_errors.attempts IS 'times that it was tried';
COMMENT ON COLUMN infer.job_errors.sqlstate IS 'of the last error; NULL: there was none';
COMMENT ON COLUMN infer.job_errors.message IS 'likewise';
COMMENT ON COLUMN infer.job_errors.retryable IS 'whether the error may be gone another time';
COMMENT ON COLUMN infer.job_errors.due IS 'when a pending one comes back, at the earliest';
COMMENT ON COLUMN infer.job_errors.at IS 'when this was last written';

GRANT SELECT ON infer.jobs, infer.job_errors TO PUBLIC;

CREATE FUNCTION infer.job_manifest(job bigint) RETURNS jsonb
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'infer_job_manifest';
COMMENT ON FUNCTION infer.job_manifest(bigint) IS 'what a job did, by what, and all that is needed to do it again and compare';
