#!/usr/bin/env bash
# embed: embeddings of texts through SQL, with MiniLM, beside what else a user could pick.
#
# bulk		UPDATE ... SET e = infer.embed(...) over texts of mixed lengths, tokenising included, against
#			onnxruntime in float32 at its best (fused graph, sorted by length, best batch and threads),
#			in a process of its own; equal lengths; nine in ten said before
# sessions	64 of them, one short text at a time, against PL/Python with onnxruntime in the same server at
#			its best number of threads and at its default; memory of the sessions
# one		one client, one short text: the median, against onnxruntime's own call
#
# Goals: bulk 1.4 times onnxruntime in f32, 2.2 times in bf16 (on AVX-512 BF16); 90 % of the rate at
# equal lengths; duplicates 8 times; sessions 1.3 times in f32 and 2 times in bf16, at a twentieth of
# the memory; one text onnxruntime's call and 100 microseconds.
source "$(dirname "$0")/_lib.sh"

texts=4000
sessions=64
[ $quick = no ] || { texts=600; sessions=16; }

folder=$("$top/script/fetch-models" --folder minilm) || {
	printf 'skipped: MiniLM cannot be fetched (script/fetch-models minilm)\n'
	exit 0
}
cp -r "$folder" "$work/minilm"
chmod -R a+rX "$work/minilm"
start_server --set shared_buffers=512MB --set max_wal_size=4GB --set max_connections=200
peer()
{
	"$venv/bin/python" "$top/bench/_embed.py" "$work" "$@"
}
read -r mixed_tokens equal_tokens < <(peer texts "$texts")
precisions=f32
sql >/dev/null <<SQL
SELECT infer.create_model('f32', '$work/minilm', '{"precision": "f32"}');
CREATE TABLE mixed (id int PRIMARY KEY, body text);
CREATE TABLE equal (LIKE mixed);
CREATE TABLE repeated (LIKE mixed);
COPY mixed FROM '$work/mixed.tsv';
COPY equal FROM '$work/equal.tsv';
COPY repeated FROM '$work/repeated.tsv';
VACUUM ANALYZE;
SQL
for precision in bf16 int8; do
	sql -c "SELECT infer.create_model('$precision', '$work/minilm', '{\"precision\": \"$precision\"}')" >/dev/null &&
		precisions+=" $precision"
done

# update MODEL TABLE: the least msec of an UPDATE of a new table
update()
{
	local best=1000000000 round time

	for ((round = 0; round < rounds; round++)); do
		time=$(sql <<SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
DROP TABLE IF EXISTS updated;
CREATE TABLE updated AS SELECT id, body, NULL::real[] AS e FROM $2;
SELECT infer.embed('$1', body) FROM updated LIMIT 1;
CHECKPOINT;
\timing on
UPDATE updated SET e = infer.embed('$1', body);
SQL
		)
		best=$(awk -v a="$best" -v b="$time" 'BEGIN { print (a < b ? a : b) }')
	done
	printf '%s\n' "$best"
}

ratio()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", (b > 0 ? a / b : 0) }'
}

# ---- bulk ----

read -r peer_threads peer_batch peer_rate < <(peer bulk)
printf 'bulk       onnxruntime f32: %s tokens/s (%s threads, batches of %s, sorted)\n' "$peer_rate" "$peer_threads" "$peer_batch"
for precision in $precisions; do
	time=$(update "$precision" mixed)
	equal=$(update "$precision" equal)
	repeated=$(update "$precision" repeated)
	rate=$(awk -v n="$mixed_tokens" -v t="$time" 'BEGIN { printf "%.0f", n * 1000 / t }')
	even=$(awk -v n="$equal_tokens" -v t="$equal" 'BEGIN { printf "%.0f", n * 1000 / t }')
	printf 'bulk       %-5s %s tokens/s: %s times onnxruntime f32; %s of the rate at equal lengths; duplicates %s times\n' \
		"$precision" "$rate" "$(ratio "$rate" "$peer_rate")" "$(ratio "$rate" "$even")" "$(ratio "$time" "$repeated")"
done

# ---- sessions ----

short='who owns the graphics card of this server'
one_text()
{
	printf "SELECT %s;\n" "$2" >"$work/$1.sql"
}

# memory FILTER: private MiB of the backends that run now
memory()
{
	private_mb $(sql -c "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
}

# many SCRIPT: calls a second of the later half, and MiB of a session
many()
{
	local out

	pgbench -n -M prepared -P 1 -f "$work/$1.sql" -c "$sessions" -j 2 -T $((seconds + 12)) >"$work/pgbench" 2>&1 &
	sleep $((seconds + 5))
	out=$(memory)
	wait
	awk '/^progress:/ && $4 + 0 > 0 { v[n++] = $4 }
		END { for (i = int(n / 2); i < n; i++) { s += v[i]; k++ } printf "%.0f ", (k ? s / k : 0) }' "$work/pgbench"
	awk -v m="$out" -v n="$sessions" 'BEGIN { printf "%.1f\n", m / n }'
}

for precision in $precisions; do
	one_text "$precision" "infer.embed('$precision', '$short')"
done
best_peer=0
if sql -c 'CREATE EXTENSION plpython3u' 2>/dev/null; then
	peer graph
	site=$("$venv/bin/python" -c 'import onnxruntime, os; print(os.path.dirname(os.path.dirname(onnxruntime.__file__)))')
	for threads in 0 1 $(nproc); do
		sql <<SQL
CREATE OR REPLACE FUNCTION peer_$threads(body text) RETURNS real[] LANGUAGE plpython3u STABLE PARALLEL SAFE AS \$\$
if 'run' not in GD:
    import sys
    sys.path.insert(0, '$site')
    import numpy, onnxruntime, tokenizers
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = $threads
    GD['run'] = onnxruntime.InferenceSession('$work/minilm.onnx', options, providers=['CPUExecutionProvider']).run
    tokenizer = tokenizers.Tokenizer.from_file('$work/minilm/tokenizer.json')
    tokenizer.no_padding()
    GD['encode'], GD['numpy'] = tokenizer.encode, numpy
numpy = GD['numpy']
ids = numpy.array([GD['encode'](body).ids])
hidden = GD['run'](None, {'input_ids': ids, 'attention_mask': numpy.ones_like(ids), 'token_type_ids': numpy.zeros_like(ids)})[0][0]
mean = hidden.mean(0)
return (mean / numpy.linalg.norm(mean)).tolist()
\$\$;
SQL
		one_text "peer_$threads" "peer_$threads('$short')"
		read -r rate mb < <(many "peer_$threads")
		[ "$threads" = 0 ] && what='default threads' || what="$threads threads"
		printf 'sessions   PL/Python + onnxruntime, %s: %s calls/s, %s MiB a session\n' "$what" "$rate" "$mb"
		[ "$threads" = 0 ] || { [ "$(ratio "$rate" "$best_peer")" = 0.00 ] && best_peer=$rate || best_peer=$(larger "$rate" "$best_peer"); }
		peer_mb=$mb
	done
else
	printf 'sessions   PL/Python: not measured, plpython3u is not installed\n'
fi
for precision in $precisions; do
	read -r rate mb < <(many "$precision")
	printf 'sessions   %-5s %s calls/s, %s MiB a session' "$precision" "$rate" "$mb"
	[ "$best_peer" = 0 ] && printf '\n' ||
		printf ': %s times PL/Python at 1/%s of its memory\n' "$(ratio "$rate" "$best_peer")" "$(awk -v a="$peer_mb" -v b="$mb" 'BEGIN { printf "%.0f", a / b }')"
done

# ---- one ----

read -r peer_usec peer_threads < <(peer single)
printf 'one        onnxruntime f32 by itself, %s threads: median %s us\n' "$peer_threads" "$peer_usec"
for precision in $precisions; do
	rm -f "$work"/latency.*
	(cd "$work" && pgbench -n -M prepared -l --log-prefix=latency -f "$work/$precision.sql" -c 1 -t 400 >/dev/null 2>&1)
	median=$(tail -n +50 "$work"/latency.* | awk '{ print $3 }' | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
	printf 'one        %-5s median %s us: onnxruntime and %s us\n' "$precision" "$median" "$((median - peer_usec))"
done
