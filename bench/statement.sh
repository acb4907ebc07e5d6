#!/usr/bin/env bash
# statement: what batching inside a statement gains, and what it costs.
#
# tiny		28 -> 64 -> 1: a row costs the model next to nothing, so the statement's own cost shows
# mid		28 -> 1024 -> 1024 -> 1: some microseconds a row
# heavy		28 -> 3584 -> 3584 -> 1: some fifty microseconds a row
# ten		10 named features -> 16 -> 1, from 10 columns of float8
#
# engine alone	the same rows already in shared memory, 256 a request, two requests in flight
#			(bench/_load.c, which speaks the engine's protocol)
# peer		PL/Python with onnxruntime on one thread: row by row, and in batches of 256 rows made by
#			hand with array_agg
#
# Each time is the best of several runs of one statement in a session of its own.
source "$(dirname "$0")/_lib.sh"

rows=200000
peer_rows=20000
documents=3000
[ $quick = no ] || { rows=20000; peer_rows=2000; documents=300; }
load=$build/engine/bench/_load

start_server --set shared_buffers=1GB --set max_wal_size=4GB
make_data
make_peer
"$venv/bin/python" "$top/bench/_make_models.py" "$work" mid heavy ten
chmod 644 "$work"/*.onnx
sql >/dev/null <<SQL
SET max_parallel_workers_per_gather = 0;
SELECT infer.create_model('mid', '$work/mid.onnx'), infer.create_model('heavy', '$work/heavy.onnx');
SELECT infer.create_model('ten', '$work/ten.onnx', '{"features": ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"]}');
CREATE TABLE many (id int PRIMARY KEY, x real[]);
INSERT INTO many SELECT g, array_agg((sin(g * 31 + k))::real ORDER BY k)
  FROM generate_series(1, $rows) g, generate_series(1, 28) k GROUP BY g;
CREATE TABLE repeated (id int PRIMARY KEY, x real[]);
INSERT INTO repeated SELECT g, x FROM generate_series(1, $rows) g JOIN many ON many.id = 1 + abs(hashint4(g)::bigint) % ($rows / 10) ORDER BY g;
CREATE TABLE columns AS SELECT g AS id, sin(g) AS f0, sin(2 * g) AS f1, sin(3 * g) AS f2, sin(4 * g) AS f3, sin(5 * g) AS f4,
  sin(6 * g) AS f5, sin(7 * g) AS f6, sin(8 * g) AS f7, sin(9 * g) AS f8, sin(10 * g) AS f9 FROM generate_series(1, $rows) g;
CREATE TABLE plain AS SELECT *, NULL::text AS document FROM columns WHERE id <= $documents;
CREATE TABLE documents (LIKE plain);
ALTER TABLE documents ALTER document SET STORAGE EXTERNAL;
INSERT INTO documents SELECT id, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, repeat('document', 12500) FROM plain;
VACUUM ANALYZE;
SQL
if [ "$have_peer" = yes ]; then
	sql <<SQL
CREATE FUNCTION peer_batch(x real[]) RETURNS real[] LANGUAGE plpython3u STABLE AS \$\$
if 'run' not in GD:
    plpy.execute("SELECT peer_tiny(x) FROM tiny_rows LIMIT 1")
return GD['run'](None, {'x': GD['numpy'].array(x, 'f4')})[0][:, 0].tolist()
\$\$;
SQL
fi

# msec STATEMENT [SETTINGS]: the best of several runs
msec()
{
	local round statement=$1

	{
		printf 'SET max_parallel_workers_per_gather = 0; SET jit = off; %s\n' "${2:-}"
		printf '%s;\n\\timing on\n' "$statement"
		for ((round = 0; round < rounds; round++)); do printf '%s;\n' "$statement"; done
	} | sql | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | sort -n | head -n 1
}

# update EXPRESSION: msec of an UPDATE of a new table
update()
{
	local best=1000000000 round time

	for ((round = 0; round < rounds; round++)); do
		time=$(sql <<SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
DROP TABLE IF EXISTS updated;
CREATE TABLE updated AS SELECT id, x, NULL::float8 AS y FROM many;
SELECT infer.predict('tiny', x) FROM updated LIMIT 1;
CHECKPOINT;
\timing on
UPDATE updated SET y = $1;
SQL
		)
		best=$(awk -v a="$best" -v b="$time" 'BEGIN { print (a < b ? a : b) }')
	done
	printf '%s\n' "$best"
}

# device MODEL STATEMENT: msec that the engine computed for it
device()
{
	sql -c 'SELECT infer.reset_stats()' >/dev/null
	sql -c "SET max_parallel_workers_per_gather = 0" -c "$2" >/dev/null
	sql -c "SELECT round(sum(compute_time)::numeric, 3) FROM infer.stats WHERE model = '$1' AND class = 'statement'"
}

# alone MODEL WIDTH: rows a second of the engine alone
alone()
{
	local key socket=$work/server/data/pg_infer/pgsql_tmp/engine.sock

	key=$(sql -c "SELECT key FROM infer.loaded_models WHERE model = '$1'")
	sql -c 'SELECT infer.reset_stats()' >/dev/null
	as_server_user "$load" bulk "$socket" "$key" "$2" "$seconds" 256 2
	sql -c "SELECT round(rows / extract(epoch FROM clock_timestamp() - since)) FROM infer.stats WHERE model = '$1' AND class = 'job'"
}

ratio()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'
}

total="SELECT sum(infer.predict('tiny', x)) FROM many"
batched=$(msec "$total")
single=$(msec "$total" 'SET infer.batching = off;')
scan=$(msec 'SELECT sum(x[1]) FROM many')
computed=$(device tiny "$total")
printf 'SELECT of %s rows, tiny:  %s ms batched, %s ms row by row: %s times (goal 15); the scan %s ms, the device %s ms\n' \
	"$rows" "$batched" "$single" "$(ratio "$single" "$batched")" "$scan" "$computed"

constant=$(update 0.5)
updated=$(update "infer.predict('tiny', x)")
printf 'UPDATE of %s rows, tiny:  %s ms; of a constant %s ms, and %s ms of the device: %s of their sum (goal 1.40)\n' \
	"$rows" "$updated" "$constant" "$computed" "$(awk -v u="$updated" -v c="$constant" -v d="$computed" 'BEGIN { printf "%.2f", u / (c + d) }')"

for model in mid heavy; do
	time=$(msec "SELECT sum(infer.predict('$model', x)) FROM many")
	computed=$(device $model "SELECT sum(infer.predict('$model', x)) FROM many")
	rate=$(alone $model 28)
	printf '%-5s %.1f us a row:        %.0f rows/s in a statement, %s in the engine alone: %s (goal 0.90)\n' $model \
		"$(awk -v d="$computed" -v n="$rows" 'BEGIN { print d * 1000 / n }')" \
		"$(awk -v t="$time" -v n="$rows" 'BEGIN { print n * 1000 / t }')" "$rate" \
		"$(awk -v t="$time" -v n="$rows" -v r="$rate" 'BEGIN { printf "%.2f", n * 1000 / t / r }')"
done
repeated=$(msec "SELECT sum(infer.predict('heavy', x)) FROM repeated")
printf '90 %% duplicates, heavy:       %s ms, %s ms where all rows differ: %s times (goal 8)\n' \
	"$repeated" "$time" "$(ratio "$time" "$repeated")"

all='f0, f1, f2, f3, f4, f5, f6, f7, f8, f9'
ten=$(msec "SELECT sum(infer.predict('ten', $all)) FROM columns")
row=$(msec "SELECT sum(infer.predict('ten', columns)) FROM columns")
sum=$(msec 'SELECT sum(f0 + f9) FROM columns')
computed=$(device ten "SELECT sum(infer.predict('ten', $all)) FROM columns")
printf '10 columns of float8:        %s ns a row above the scan and the device (as a row %s ns)\n' \
	"$(awk -v t="$ten" -v s="$sum" -v d="$computed" -v n="$rows" 'BEGIN { printf "%.0f", (t - s - d) * 1e6 / n }')" \
	"$(awk -v t="$row" -v s="$sum" -v d="$computed" -v n="$rows" 'BEGIN { printf "%.0f", (t - s - d) * 1e6 / n }')"
without=$(msec "SELECT sum(infer.predict('ten', plain)) FROM plain")
with=$(msec "SELECT sum(infer.predict('ten', documents)) FROM documents")
printf 'an unused column of 100 kB:  %s of the time without (goal 1.00)\n' "$(ratio "$with" "$without")"

if [ "$have_peer" = yes ]; then
	some=$(msec "SELECT sum(infer.predict('tiny', x)) FROM many WHERE id <= $peer_rows")
	peer=$(msec "SELECT sum((peer_tiny(x))[1]) FROM many WHERE id <= $peer_rows")
	peer_batch=$(msec "SELECT sum(v) FROM (SELECT unnest(peer_batch(array_agg(x))) v FROM many WHERE id <= $peer_rows GROUP BY id / 256) s")
	printf 'against PL/Python, %s rows of tiny: row by row %s times, batches by hand %s times (%s, %s, %s ms)\n' \
		"$peer_rows" "$(ratio "$peer" "$some")" "$(ratio "$peer_batch" "$some")" "$some" "$peer" "$peer_batch"
fi
