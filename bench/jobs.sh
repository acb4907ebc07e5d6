#!/usr/bin/env bash
# jobs: what bulk jobs reach, and what they cost.
#
# whole		a table of 1,000,000 patients scored by a job (boosted trees over words and numbers), against the
#			engine's own rate (rows by its own compute time) and against UPDATE ... SET x = constant by
#			chunks of the key as large as the job's, each in a transaction
# shards	the same as two shards
# embed		20,000 texts embedded by a job, against the single statement UPDATE
# callers	callers in an open loop at 30 % of the engine's capacity, 100 at once, beside a job, and without
# memory	private memory of the runner (without shared buffers that it alone has mapped) at 10,000 and at 5,000,000 rows
# INFER_BENCH_PARTS="callers memory": only these (whole comes with shards).
#
# Goals: whole 70 % of the lower of the two; embed 95 %; callers' p99 at most 1.3 times that without the job
# + one slice + 4 ms, the device busy 95 % of the time, the job gets 80 % of what the callers leave;
# memory the same within 10 %.
source "$(dirname "$0")/_lib.sh"

slice=10						# msec, of infer.slice by default on a CPU
rows=1000000
many=5000000
texts=20000
run_seconds=10
[ $quick = no ] || { rows=100000; many=200000; texts=600; run_seconds=4; }

# Without autovacuum: the large tables that come and go would have it take a core from whatever is measured next.
start_server --set shared_buffers=1GB --set max_wal_size=8GB --set max_connections=120 --set infer.max_job_workers=2 \
	--set autovacuum=off

ratio()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", (b > 0 ? a / b : 0) }'
}

goal()			# goal RATIO LEAST
{
	awk -v r="$1" -v g="$2" 'BEGIN { printf "goal %s: %s", g, (r >= g ? "met" : "MISSED") }'
}

# wait_job JOB: its state must be completed
wait_job()
{
	local state

	state=$(sql -c "SELECT infer.wait_job($1, timeout => '1 hour')")
	[ "$state" = completed ] || { sql -c "SELECT * FROM infer.jobs WHERE job = $1" >&2; exit 1; }
}

# job_rate JOB: rows a second, from its first chunk to its end
job_rate()
{
	sql -c "SELECT round(done / extract(epoch FROM finished - started)) FROM infer.jobs WHERE job = $1"
}

# ---- whole, shards ----

model=$top/examples/progression/model.onnx
cp "$model" "$work/progression.onnx"
chmod 644 "$work/progression.onnx"
cp "$top/examples/progression/cohort.csv" "$work/cohort.csv"
chmod 644 "$work/cohort.csv"
sql >/dev/null <<SQL
SELECT infer.create_model('progression', '$work/progression.onnx');
CREATE TABLE cohort (id integer PRIMARY KEY, sex text, weight text, pressure text, age float8,
	s1 float8, s2 float8, s3 float8, s4 float8, s5 float8, s6 float8, fast text);
COPY cohort FROM '$work/cohort.csv' (FORMAT csv, HEADER);
CREATE PROCEDURE by_chunks(chunk int) LANGUAGE plpgsql AS \$\$
DECLARE
	low int := 0;
	high int;
BEGIN
	LOOP
		SELECT max(id) INTO high FROM (SELECT id FROM patients WHERE id > low ORDER BY id LIMIT chunk) c;
		EXIT WHEN high IS NULL;
		UPDATE patients SET score = 0.5 WHERE id > low AND id <= high;
		COMMIT;
		low := high;
	END LOOP;
END \$\$;
SQL

# patients ROWS: a new table of so many; each differs from the others, so that nothing repeats
patients()
{
	sql >/dev/null 2>&1 <<SQL
DROP TABLE IF EXISTS patients;
CREATE TABLE patients (id integer PRIMARY KEY, sex text, weight text, pressure text, age float8,
	s1 float8, s2 float8, s3 float8, s4 float8, s5 float8, s6 float8, score float8);
INSERT INTO patients SELECT g, sex, weight, pressure, age + g * 1e-7, s1, s2, s3, s4, s5, s6
  FROM generate_series(1, $1) g JOIN cohort c ON c.id = 1 + g % 442;
VACUUM ANALYZE patients;
CHECKPOINT;
SQL
}

# whole SHARDS: sets rate, and the engine's own rate, and rows of a chunk
whole()
{
	local job

	patients "$rows"
	sql -c "SELECT infer.load_model('progression')" -c 'SELECT infer.reset_stats()' >/dev/null
	job=$(sql -c "SELECT infer.submit_job('progression', 'patients', output => 'score', class => 'yes', shards => $1)")
	wait_job "$job"
	rate=$(job_rate "$job")
	own=$(sql -c "SELECT round(rows / (compute_time / 1000)) FROM infer.stats WHERE model = 'progression' AND class = 'job'")
	chunk=$(sql -c "SELECT round(done / (infer.job_manifest($job) -> 'counts' ->> 'chunks')::float8) FROM infer.jobs WHERE job = $job")
	times=$(sql -c "SELECT infer.job_manifest($job) ->> 'times'")
}

measure_whole()
{
	best=0
	best_constant=0
	best_shards=0
	for ((round = 0; round < rounds; round++)); do
		whole 1
		best=$(larger "$best" "$rate")
		engine_rate=$own
		patients "$rows"
		milliseconds=$(sql <<SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
\timing on
CALL by_chunks($chunk);
SQL
		)
		best_constant=$(larger "$best_constant" "$(awk -v n="$rows" -v t="$milliseconds" 'BEGIN { printf "%.0f", n / t * 1000 }')")
		one_times=$times
		one_chunk=$chunk
		whole 2
		best_shards=$(larger "$best_shards" "$rate")
	done
	lower=$(awk -v a="$engine_rate" -v b="$best_constant" 'BEGIN { print a < b ? a : b }')
	whole_ratio=$(ratio "$best" "$lower")
	printf 'whole      job %s rows/s; the engine alone %s, UPDATE of a constant by %s rows %s: %s of the lower (%s)\n' "$best" \
		"$engine_rate" "$one_chunk" "$best_constant" "$whole_ratio" "$(goal "$whole_ratio" 0.7)"
	printf 'whole      times in ms: %s\n' "$one_times"
	printf 'shards     two: %s rows/s, %s of one\n' "$best_shards" "$(ratio "$best_shards" "$best")"
}

# ---- embed ----

measure_embed()
{
	if folder=$("$top/script/fetch-models" --folder minilm); then
		cp -r "$folder" "$work/minilm"
		chmod -R a+rX "$work/minilm"
		"$venv/bin/python" "$top/bench/_embed.py" "$work" texts "$texts" >/dev/null
		sql >/dev/null <<SQL
SELECT infer.create_model('minilm', '$work/minilm');
CREATE TABLE mixed (id int PRIMARY KEY, body text, e real[]);
COPY mixed (id, body) FROM '$work/mixed.tsv';
SELECT infer.embed('minilm', 'load it');
SQL
		update_rate=0
		embed_rate=0
		for ((round = 0; round < rounds; round++)); do
			sql -c 'DROP TABLE IF EXISTS docs' -c 'CREATE TABLE docs AS TABLE mixed' -c 'ALTER TABLE docs ADD PRIMARY KEY (id)' \
				-c CHECKPOINT >/dev/null 2>&1
			milliseconds=$(sql <<SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
\timing on
UPDATE docs SET e = infer.embed('minilm', body);
SQL
			)
			update_rate=$(larger "$update_rate" "$(awk -v n="$texts" -v t="$milliseconds" 'BEGIN { printf "%.1f", n / t * 1000 }')")
			sql -c 'UPDATE docs SET e = NULL' -c 'VACUUM FULL docs' -c CHECKPOINT >/dev/null
			job=$(sql -c "SELECT infer.submit_job('minilm', 'docs', input => 'body', output => 'e')")
			wait_job "$job"
			embed_rate=$(larger "$embed_rate" "$(sql -c "SELECT round((done / extract(epoch FROM finished - started))::numeric, 1)
				FROM infer.jobs WHERE job = $job")")
		done
		embed_ratio=$(ratio "$embed_rate" "$update_rate")
		printf 'embed      job %s texts/s, UPDATE %s: %s (%s)\n' "$embed_rate" "$update_rate" "$embed_ratio" "$(goal "$embed_ratio" 0.95)"
	else
		printf 'embed      skipped: MiniLM cannot be fetched (script/fetch-models minilm)\n'
	fi
}

# ---- callers ----

# a job over a table that it does not come to the end of, from a few seconds on
begin_job()
{
	job=$(sql -c "SELECT infer.submit_job('forest', 'bulk', input => 'x', output => 'y')")
	sleep 3
}

end_job()
{
	sql -c "SELECT infer.cancel_job($job)" -c "SELECT infer.wait_job($job, timeout => '1 minute')" >/dev/null
}

# job_capacity: rows a second of a job that has the engine for itself
job_capacity()
{
	begin_job
	reset
	sleep $run_seconds
	counted forest job 'rows / seconds'
	end_job
}

# The capacity is measured before and after: on shared machines it is seldom the same for a minute.
measure_callers()
{
	make_data
	"$venv/bin/python" "$top/bench/_make_models.py" "$work" forest
	chmod 644 "$work/forest.onnx"
	sql >/dev/null <<SQL
SELECT infer.create_model('forest', '$work/forest.onnx');
CREATE TABLE bulk (id int PRIMARY KEY, x real[], y float8);
INSERT INTO bulk SELECT g, array_agg((sin(g * 31 + k))::real ORDER BY k)
  FROM generate_series(1, $rows) g, generate_series(1, 28) k GROUP BY g;
VACUUM ANALYZE bulk;
SQL
	loads forest 28 "infer.outputs('forest', x)" tiny_rows

	before=$(job_capacity)
	call_rate=$(awk -v c="$before" 'BEGIN { printf "%.0f", c * 0.3 }')
	calls_protocol forest "$call_rate" "$work/alone"
	begin_job
	(
		sleep 2
		reset
		sleep $((run_seconds - 2))
		counted forest job 'rows / seconds'
		counted forest interactive 'rows / seconds'
		sql -c 'SELECT round(busy_share::numeric, 4) FROM infer.devices WHERE in_use'
	) >"$work/counted" &
	calls_protocol forest "$call_rate" "$work/beside"
	wait $!
	end_job
	after=$(job_capacity)
	capacity=$(awk -v a="$before" -v b="$after" 'BEGIN { print (a + b) / 2 }')
	read -r job_rows call_rows busy < <(xargs <"$work/counted")
	alone=$(percentile "$work/alone" .99)
	beside=$(percentile "$work/beside" .99)
	bound=$(awk -v a="$alone" -v s=$slice 'BEGIN { printf "%.2f", 1.3 * a + s + 4 }')
	share=$(awk -v j="$job_rows" -v c="$capacity" -v r="$call_rows" 'BEGIN { printf "%.2f", j / (c - r) }')
	printf 'callers    %s calls/s: p99 %s ms alone, %s ms beside the job, of %s allowed (%s)\n' "$call_rate" "$alone" "$beside" "$bound" \
		"$(goal "$(ratio "$bound" "$beside")" 1)"
	printf 'callers    the device is busy %s of the time (%s); the job gets %s of what calls leave (%s); alone it has %.0f and %.0f rows/s\n' \
		"$busy" "$(goal "$busy" 0.95)" "$share" "$(goal "$share" 0.8)" "$before" "$after"
}

# ---- memory ----

# watch_runner FILE: the most that a runner has of memory that is no file's and not shared, kB.  A small job takes a
# tenth of a second: nothing is started between two looks.
watch_runner()
{
	local postmaster pid name kb most=0

	postmaster=$(head -1 "$work/server/data/postmaster.pid")
	until pid=$(pgrep -P "$postmaster" -f 'infer job [0-9]') || [ -e "$work/ended" ]; do
		:
	done
	while [ ! -e "$work/ended" ]; do
		while read -r name kb _; do
			if [ "$name" = Anonymous: ] && [ "$kb" -gt "$most" ]; then
				most=$kb
			fi
		done 2>/dev/null <"/proc/$pid/smaps_rollup" || break
	done
	printf '%s\n' "$most" >"$1"
}

# memory ROWS: MiB
memory()
{
	local job

	patients "$1"
	watch_runner "$work/most" &
	job=$(sql -c "SELECT infer.submit_job('progression', 'patients', output => 'score', class => 'yes')")
	wait_job "$job"
	touch "$work/ended"
	wait $!
	rm "$work/ended"
	awk '{ printf "%.1f", $1 / 1024 }' "$work/most"
}

measure_memory()
{
	few=0
	for ((round = 0; round < rounds; round++)); do
		few=$(larger "$few" "$(memory 10000)")
	done
	large=$(memory "$many")
	printf 'memory     of the runner: %s MiB at %s rows, %s MiB at %s: %s times (goal 1.1)\n' "$few" 10000 "$large" "$many" \
		"$(ratio "$large" "$few")"
}

for part in ${INFER_BENCH_PARTS:-whole embed callers memory}; do
	"measure_$part"
done
