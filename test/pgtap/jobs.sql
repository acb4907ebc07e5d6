-- What is to be seen of jobs: the views and the manifest, over rows that a job would leave; and who sees them.
BEGIN;
SELECT no_plan();

CREATE ROLE jobs_owner;
CREATE ROLE jobs_member IN ROLE jobs_owner;
CREATE ROLE jobs_stranger;
CREATE ROLE jobs_monitor IN ROLE pg_monitor;
GRANT USAGE ON SCHEMA public TO PUBLIC;

-- This server's, as job_origin() in src/extension/jobs/tables/tables.c has it.
SELECT format('%s/%s/%s', (SELECT system_identifier FROM pg_control_system()),
	(SELECT oid FROM pg_database WHERE datname = current_database()), 'infer.job'::regclass::oid) AS origin \gset

INSERT INTO infer.job VALUES
	(1, :'origin', 'nightly', 'jobs_owner'::regrole, 'jobs_owner', 'm@2', 'in_progress', NULL, NULL, 5,
		'{"model": "m", "table": {"oid": 1, "name": "public.t"}, "output": "y"}', 1000, true, 0, '2026-01-01 00:00Z', '2026-01-01 00:01Z', NULL, NULL, NULL,
		'{"model": {"name": "m", "version": 2, "digest": "ab"}, "query": {"read": "SELECT 1", "fingerprint": "cd"}}'),
	(2, :'origin', NULL, 'jobs_owner'::regrole, 'jobs_owner', 'm@2', 'failed', '42703', 'column "y" does not exist', 0,
		'{"model": "m", "source": "SELECT 1 AS id", "target": {"oid": 2, "name": "public.u"}, "output": "y"}', 10, false, 0,
		'2026-01-01 00:00Z', '2026-01-01 00:01Z', '2026-01-01 00:01:02Z', '2026-01-01 06:00Z', NULL, NULL),
	(3, :'origin', NULL, 'jobs_owner'::regrole, 'jobs_owner', 'm@2', 'validating', NULL, NULL, 0, '{}', NULL, false, 0,
		'2026-01-01 00:00Z', NULL, NULL, NULL, NULL, NULL),
	-- of elsewhere: the number of its owner means nothing here, the name does
	(4, '1/1/1', NULL, 'jobs_stranger'::regrole, 'jobs_owner', 'm@2', 'completed', NULL, NULL, 0, '{}', 0, false, 0,
		'2025-01-01 00:00Z', '2025-01-01 00:01Z', '2025-01-01 00:02Z', NULL, NULL, NULL),
	(5, '1/1/1', NULL, 'jobs_stranger'::regrole, 'jobs_nobody', 'm@2', 'completed', NULL, NULL, 0, '{}', 0, false, 0,
		'2025-01-01 00:00Z', '2025-01-01 00:01Z', '2025-01-01 00:02Z', NULL, NULL, NULL);
\set digest1 '''\\xff000000000000000000000000000001'''
\set digest2 '''\\x01000000000000000000000000000002'''
\set cpu '[{"device": "cpu", "numerics_id": "cpu-1", "threads": 4}]'
INSERT INTO infer.job_shard VALUES
	(1, 1, 'in_progress', NULL, '{500}', '{120}', false, 100, 5, 4, 3, 2, 7, 900, 12, 20, 1, 2, 3, 4, 5, :digest1, :digest2, 2, '2026-01-01 00:01Z', '2026-01-01 00:02Z', :'cpu'),
	(1, 2, 'in_progress', '{500}', NULL, NULL, false, 50, 0, 0, 0, 0, 0, 100, 3, 30, 0.5, 0, 0, 0, 0.25, :digest2, :digest1, 1, '2026-01-01 00:01Z', '2026-01-01 00:02Z', :'cpu'),
	(1, 3, 'completed', NULL, NULL, NULL, true, 6, 0, 0, 0, 0, 0, 0, 1, 1000, 0, 0, 0, 0, 0, :digest1, :digest2, 1, '2026-01-01 00:01Z', '2026-01-01 00:02Z', NULL),
	(2, 1, 'in_progress', NULL, NULL, '{4}', false, 4, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, :digest1, :digest1, 1, '2026-01-01 00:01Z', '2026-01-01 00:02Z', NULL);
INSERT INTO infer.job_item VALUES
	(1, 1, 1, '{7,"a,b"}', 'failed', 1, '22023', 'too long', false, NULL, '2026-01-01 00:01:30Z'),
	(1, 1, 2, '{8,c}', 'pending', 3, 'IF001', 'lost', true, '2026-01-01 00:03Z', '2026-01-01 00:01:40Z'),
	(1, 2, 1, '{9,d}', 'pending', 0, NULL, NULL, true, '2026-01-01 00:03Z', '2026-01-01 00:01:50Z'),
	(2, 1, 1, '{1}', 'cancelled', 0, NULL, NULL, true, NULL, '2026-01-01 00:01:50Z');

-- ---- infer.jobs ----

SELECT row_eq($$SELECT name, state, model, owner, job_priority, source, target, total, total_estimated FROM infer.jobs WHERE job = 1$$,
	ROW('nightly'::text, 'in_progress'::text, 'm@2'::text, 'jobs_owner'::text, 5, 'public.t'::text, 'public.t'::text, 1000::bigint, true),
	'infer.jobs says what a job is');
SELECT row_eq($$SELECT done, failed, gone, expired, cancelled, remaining, pending, recomputed, tokens, shards FROM infer.jobs WHERE job = 1$$,
	ROW(156::bigint, 5::bigint, 4::bigint, 3::bigint, 2::bigint, 830::bigint, 2::bigint, 7::bigint, 1000::bigint, 3), '... adds up its shards, and counts what comes back');
SELECT row_eq($$SELECT rows_per_second, eta, last_error, sqlstate FROM infer.jobs WHERE job = 1$$,
	ROW(50::float8, interval '17 s', 'lost'::text, 'IF001'::text), '... its rate is that of the shards that run; 830 rows are left; the last error of a row');
SELECT row_eq($$SELECT source, target, last_error, sqlstate, rows_per_second, eta, pending FROM infer.jobs WHERE job = 2$$,
	ROW('SELECT 1 AS id'::text, 'public.u'::text, 'column "y" does not exist'::text, '42703'::text, 2::float8, NULL::interval, 0::bigint),
	'... of one that ended: why, and its rate on the whole');
SELECT row_eq($$SELECT total, done, rows_per_second, eta, last_error, shards FROM infer.jobs WHERE job = 3$$,
	ROW(NULL::bigint, 0::bigint, NULL::float8, NULL::interval, NULL::text, 0), '... of one that has not begun: nothing is made up');
SELECT results_eq($$SELECT job, owner FROM infer.jobs ORDER BY job$$,
	$$VALUES (1::bigint, 'jobs_owner'::text), (2, 'jobs_owner'), (3, 'jobs_owner'), (4, 'jobs_owner'), (5, 'jobs_nobody')$$, 'a superuser sees all');

-- ---- infer.job_errors ----

SELECT results_eq($$SELECT key, state, attempts, sqlstate, message, retryable, due FROM infer.job_errors WHERE job = 1 ORDER BY key$$,
	$$VALUES ('{7,"a,b"}'::text[], 'failed'::text, 1, '22023'::text, 'too long'::text, false, NULL::timestamptz),
		('{8,c}', 'pending', 3, 'IF001', 'lost', true, '2026-01-01 00:03Z'), ('{9,d}', 'pending', 0, NULL, NULL, true, '2026-01-01 00:03Z')$$,
	'infer.job_errors has the rows that are not simply done');

-- ---- infer.job_manifest ----

SELECT is(infer.job_manifest(1) -> 'counts', '{"total": 1000, "done": 156, "failed": 5, "gone": 4, "expired": 3, "cancelled": 2, "recomputed": 7, "tokens": 1000, "chunks": 16}',
	'the manifest counts');
SELECT is((infer.job_manifest(1) -> 'times') - 'seconds'::text, '{"submitted": "2026-01-01T00:00:00+00:00", "started": "2026-01-01T00:01:00+00:00", "finished": null,
	"read": 1.5, "prepare": 2, "queue": 3, "compute": 4, "write": 5.25}'::jsonb, '... says where the time went') FROM set_config('timezone', 'UTC', true);
SELECT is((infer.job_manifest(2) #> '{times,seconds}')::numeric, 2.000, '... and how long it took');
SELECT is(infer.job_manifest(1) -> 'digests', '{"input": "ff010000000000000000000000000004", "output": "01010000000000000000000000000005"}',
	'... its digests are the sums of the shards''');
SELECT is(infer.job_manifest(1) -> 'engines', :'cpu'::jsonb, '... an engine is named once');
SELECT is(infer.job_manifest(1) ->> 'numerics_id', 'cpu-1', '... with what the bits depend on');
SELECT is(infer.job_manifest(1) #>> '{model,digest}' || ' ' || (infer.job_manifest(1) #>> '{query,fingerprint}'), 'ab cd', '... what was submitted');
SELECT is(infer.job_manifest(1) #> '{shards,0,checkpoint}', '["120"]', '... and each shard');
SELECT is(infer.job_manifest(1) #> '{shards,1,above}', '["500"]', '... with its keys');
SELECT is(infer.job_manifest(2) -> 'error', '{"sqlstate": "42703", "message": "column \"y\" does not exist"}', '... and what ended it');
UPDATE infer.job_shard SET engines = '[{"device": "cpu", "numerics_id": "cpu-2", "threads": 4}]' WHERE (job, shard) = (1, 2);
SELECT is(jsonb_array_length(infer.job_manifest(1) -> 'engines'), 2, 'engines that differ are all named');
SELECT ok(infer.job_manifest(1) ->> 'numerics_id' IS NULL AND infer.job_manifest(1) ? 'numerics_id', '... and what differs is not called one');
SELECT throws_ok('SELECT infer.job_manifest(6)', '42704', 'there is no job 6', 'an unknown job');
SELECT is(infer.job_manifest(NULL), NULL, 'no job, no manifest');

-- ---- who sees them ----

SET LOCAL ROLE jobs_owner;
SELECT results_eq('SELECT job FROM infer.jobs ORDER BY job', ARRAY[1, 2, 3, 4]::bigint[], 'an owner sees its jobs, and those of its name elsewhere');
SELECT is(infer.job_manifest(1) ->> 'state', 'in_progress', '... and their manifests');
SET LOCAL ROLE jobs_member;
SELECT results_eq('SELECT job FROM infer.jobs ORDER BY job', ARRAY[1, 2, 3, 4]::bigint[], 'so does a member of the role');
SELECT is((SELECT count(*)::int FROM infer.job_errors), 4, '... their errors');
SET LOCAL ROLE jobs_stranger;
SELECT is_empty('SELECT job FROM infer.jobs', 'a stranger sees none, not even one with the number of its role from elsewhere');
SELECT is_empty('SELECT job FROM infer.job_errors', '... and no errors');
SELECT throws_ok('SELECT infer.job_manifest(1)', '42704', 'there is no job 1', '... and no manifests');
SELECT throws_ok('SELECT * FROM infer.job', '42501', NULL, '... and nobody reads the tables');
SET LOCAL ROLE jobs_monitor;
SELECT results_eq('SELECT job FROM infer.jobs ORDER BY job', ARRAY[1, 2, 3, 4, 5]::bigint[], 'pg_monitor sees all');
SELECT is(infer.job_manifest(5) ->> 'owner', 'jobs_nobody', '... manifests too');
RESET ROLE;

-- A function of the caller's, however cheap, is not shown rows that are not the caller's.
SET LOCAL ROLE jobs_stranger;
CREATE FUNCTION pg_temp.leak(job bigint) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$BEGIN RAISE EXCEPTION 'leaked %', job; END$$;
SELECT lives_ok('SELECT * FROM infer.jobs WHERE pg_temp.leak(job)', 'conditions see none of the others'' jobs');
SELECT lives_ok('SELECT * FROM infer.job_errors WHERE pg_temp.leak(job)', '... and errors');
RESET ROLE;

-- The keys of the manifest are those that the page lists.
\set jobs_page `cat :'top'/docs/jobs.md`
SELECT is_empty(format($$SELECT key FROM jsonb_object_keys(infer.job_manifest(1)) AS key
	WHERE %L !~ ('\| `(\w+`, `)*' || key || '[`,]')$$, :'jobs_page'), 'jobs.md has every key of a manifest');

SELECT finish();
ROLLBACK;
