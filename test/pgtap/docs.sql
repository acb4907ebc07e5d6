-- The documentation names what there is: settings with their contexts, views with their columns, functions, SQLSTATEs.
BEGIN;
SELECT no_plan();

\set sql_page `cat :'top'/docs/sql.md`
\set settings_page `cat :'top'/docs/settings.md`
\set pages `cat :'top'/README.md :'top'/docs/*.md`

-- | `infer.name` | when | …
CREATE TEMP TABLE documented_settings AS
	SELECT row[1] AS name, row[2] AS context
	FROM regexp_matches(:'settings_page', '^\| `(infer\.\w+)` \| (\w+) \|', 'gn') AS row;
SELECT bag_eq(
	$$SELECT name, context FROM documented_settings$$,
	$$SELECT name, CASE context WHEN 'postmaster' THEN 'start' WHEN 'sighup' THEN 'reload' WHEN 'user' THEN 'session' END
		FROM pg_settings WHERE name LIKE 'infer.%'$$, 'settings.md has every setting, with when it can be changed');

-- `infer.name = value` on any page: units only where PostgreSQL takes them
CREATE TEMP TABLE documented_values AS
	SELECT row[1] AS name, row[2] AS value FROM regexp_matches(:'pages', $$\m(infer\.\w+) = '?([\w.]+)$$, 'g') AS row;
SELECT is_empty($$SELECT d.* FROM documented_values d JOIN pg_settings s USING (name)
	WHERE CASE s.vartype
		WHEN 'integer' THEN d.value !~ CASE WHEN s.unit IS NULL THEN '^\d+$' ELSE '^\d+(B|kB|MB|GB|TB|us|ms|s|min|h|d)?$' END
		WHEN 'enum' THEN NOT d.value = ANY (s.enumvals)
		WHEN 'bool' THEN d.value NOT IN ('on', 'off') END$$, 'a setting takes each value that a page gives it');

-- ### infer.view, then tables whose first cells name the columns
CREATE TEMP TABLE view_sections AS
	SELECT substring(section, '^### infer\.(\w+)') AS view, section AS text
	FROM regexp_split_to_table(:'sql_page', '\n(?=##)') AS section
	WHERE section ~ '^### infer\.';
CREATE TEMP TABLE documented_columns AS
	SELECT s.view, name[1] AS column_name
	FROM view_sections s,
		regexp_matches(s.text, '^\| (`[^|]+) \|', 'gn') AS cell,
		regexp_matches(cell[1], '`(\w+)`', 'g') AS name;
SELECT bag_eq('SELECT view FROM view_sections',
	$$SELECT relname::text FROM pg_class WHERE relnamespace = 'infer'::regnamespace AND relkind = 'v'$$, 'sql.md has every view');
SELECT is_empty($$SELECT d.* FROM documented_columns d WHERE NOT EXISTS (SELECT FROM information_schema.columns c
	WHERE c.table_schema = 'infer' AND c.table_name = d.view AND c.column_name = d.column_name)$$, 'with columns that there are');
-- infer.model_versions refers to infer.models for those that both have
SELECT is_empty($$SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN view_sections s ON s.view = c.table_name
	WHERE c.table_schema = 'infer' AND NOT EXISTS (SELECT FROM documented_columns d WHERE d.column_name = c.column_name
		AND d.view IN (c.table_name, CASE c.table_name WHEN 'model_versions' THEN 'models' END))
		AND (c.table_name, c.column_name) NOT IN (('model_versions', 'version'), ('model_versions', 'active'))$$, 'and with all of them');

SELECT is_empty(format($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'infer'::regnamespace
	AND p.proname !~ '^read_' AND p.prorettype <> 'trigger'::regtype AND %L !~ ('`infer\.' || p.proname || '\(')$$, :'sql_page'), 'sql.md has every function');

SELECT finish();
ROLLBACK;
