/* ---- kept fresh ---- */

CREATE SEQUENCE infer.fresh_id;
COMMENT ON SEQUENCE infer.fresh_id IS 'the last number that a kept column got';

/*
 * Columns that are kept fresh; what of which table stands in its trigger infer_fresh_N, which is
 * dumped with the table.
 */
CREATE TABLE infer.fresh
(
	fresh		bigint PRIMARY KEY,		-- in the triggers' names and arguments
	owner		oid NOT NULL,			-- the role that its jobs run as
	owner_name	text NOT NULL,
	"table"		oid,					-- NULL: restored, and not seen with its trigger yet
	model_id	uuid NOT NULL,
	model_version int,					-- NULL: whichever is active
	input_names	text[] NOT NULL,		-- what the inputs are called, whatever their columns are called now
	verb		text,
	class		text,
	options		jsonb NOT NULL,
	priority	int NOT NULL,
	search_path	text NOT NULL,			-- of the session that keeps it; so the next two
	time_zone	text NOT NULL,
	date_order	text NOT NULL,
	job			bigint,					-- the last one
	job_before	bigint
);
COMMENT ON TABLE infer.fresh IS 'columns that are kept fresh: read infer.fresh_columns instead';

SELECT pg_extension_config_dump('infer.fresh_id', '');
SELECT pg_extension_config_dump('infer.fresh', '');
GRANT SELECT, INSERT ON infer.fresh TO pg_database_owner;
GRANT SELECT, UPDATE ON SEQUENCE infer.fresh_id TO pg_database_owner;

CREATE FUNCTION infer.fresh_restored() RETURNS trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_fresh_restored';
COMMENT ON FUNCTION infer.fresh_restored() IS 'of infer.fresh: whose rows a dump may bring';
CREATE TRIGGER restored BEFORE INSERT ON infer.fresh FOR EACH ROW EXECUTE FUNCTION infer.fresh_restored();
ALTER TABLE infer.fresh ENABLE ALWAYS TRIGGER restored;

/* Called by the triggers of kept columns, for whoever writes to their tables. */
CREATE FUNCTION infer.fresh_note(fresh bigint, version "any") RETURNS bool
	LANGUAGE c VOLATILE COST 1 AS 'MODULE_PATHNAME', 'infer_fresh_note';
COMMENT ON FUNCTION infer.fresh_note(bigint, "any") IS 'in triggers of kept columns: at commit there may be stale rows; never true';

CREATE FUNCTION infer.fresh_of(input record, output "any", version_column "any", key record, condition bool) RETURNS bool
	LANGUAGE c VOLATILE COST 1 AS 'MODULE_PATHNAME', 'infer_fresh_of';
COMMENT ON FUNCTION infer.fresh_of(record, "any", "any", record, bool) IS 'in triggers of kept columns: says what is kept; never called';

CREATE FUNCTION infer.fresh_differs(old "any", new "any") RETURNS bool
	LANGUAGE c VOLATILE COST 1 AS 'MODULE_PATHNAME', 'infer_fresh_differs';
COMMENT ON FUNCTION infer.fresh_differs("any", "any") IS 'in triggers of kept columns: whether an update changes a column';

CREATE FUNCTION infer.fresh_kept() RETURNS trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_fresh_kept';
COMMENT ON FUNCTION infer.fresh_kept() IS 'trigger of kept columns: its condition notes what is written';

CREATE FUNCTION infer.fresh_clear() RETURNS trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_fresh_clear';
COMMENT ON FUNCTION infer.fresh_clear() IS 'trigger of kept columns: a changed input''s row loses its version';

CREATE FUNCTION infer.keep_fresh(model text, "table" regclass, input text, output text, version_column text,
								 condition text DEFAULT NULL, key text DEFAULT NULL, verb text DEFAULT NULL,
								 class text DEFAULT NULL, job_priority int DEFAULT 0, options jsonb DEFAULT '{}') RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_keep_fresh';
COMMENT ON FUNCTION infer.keep_fresh(text, regclass, text, text, text, text, text, text, text, int, jsonb)
	IS 'score new and changed rows of a table in the background from now on, and all when another version is activated';

CREATE FUNCTION infer.drop_fresh(model text, "table" regclass, output text DEFAULT NULL) RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_drop_fresh';
COMMENT ON FUNCTION infer.drop_fresh(text, regclass, text) IS 'no longer keep a column fresh; its values stay';

CREATE FUNCTION infer.stale_rows(model text, "table" regclass, output text DEFAULT NULL) RETURNS bigint
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_stale_rows';
COMMENT ON FUNCTION infer.stale_rows(text, regclass, text) IS 'rows whose value was not made by the active version, or of another input';

CREATE FUNCTION infer.read_fresh_columns(OUT "table" regclass, OUT output text, OUT input text, OUT condition text,
										 OUT version_column text, OUT model text, OUT version int, OUT owner text,
										 OUT state text, OUT job bigint, OUT problem text) RETURNS SETOF record
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'infer_read_fresh_columns';
COMMENT ON FUNCTION infer.read_fresh_columns() IS 'behind the view infer.fresh_columns';

CREATE VIEW infer.fresh_columns AS SELECT * FROM infer.read_fresh_columns();
COMMENT ON VIEW infer.fresh_columns IS 'the columns that are kept fresh';
COMMENT ON COLUMN infer.fresh_columns."table" IS 'whose column it is';
COMMENT ON COLUMN infer.fresh_columns.output IS 'the column';
COMMENT ON COLUMN infer.fresh_columns.input IS 'what it is computed from; NULL: the table is locked just now';
COMMENT ON COLUMN infer.fresh_columns.condition IS 'for which rows; NULL: all';
COMMENT ON COLUMN infer.fresh_columns.version_column IS 'says what made each value';
COMMENT ON COLUMN infer.fresh_columns.model IS 'NULL: it was dropped';
COMMENT ON COLUMN infer.fresh_columns.version IS 'that is active, or that it is kept by';
COMMENT ON COLUMN infer.fresh_columns.owner IS 'the role that its jobs run as';
COMMENT ON COLUMN infer.fresh_columns.state IS 'fresh, waiting (for its next job), updating (a job is at it), or stopped (see problem)';
COMMENT ON COLUMN infer.fresh_columns.job IS 'the last job; those that did nothing do not count';
COMMENT ON COLUMN infer.fresh_columns.problem IS 'why it is not kept fresh, or what its last job failed with';
GRANT SELECT ON infer.fresh_columns TO PUBLIC;
