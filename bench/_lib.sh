# _lib.sh
#	  What the benchmarks with a server share: one server with the models and their data, the
#	  peer (PL/Python with onnxruntime) beside them in the same database, and pgbench.
#
# Sourced by bench/*.sh, which script/bench runs.  A benchmark prints ratios; figures of a
# run are comparable with one another only.
#
#	INFER_BENCH_SECONDS		of one pgbench run (default 5)
#	INFER_BENCH_ROUNDS		how often each is run, interleaved; the best counts (default 3)
source "$(dirname "${BASH_SOURCE[0]}")/../script/lib/common.sh"

seconds=${INFER_BENCH_SECONDS:-5}
rounds=${INFER_BENCH_ROUNDS:-3}
quick=no
[ "${1:-}" != --quick ] || { quick=yes; seconds=2; rounds=1; }

work=$(mktemp -d /tmp/infer-bench-XXXXXX)
chmod 755 "$work"
trap 'stop_server; rm -rf "$work"' EXIT

stop_server()
{
	"$top/script/server" stop "$work/server" immediate >/dev/null 2>&1 || true
}

# start_server [options of script/server start]
start_server()
{
	local environment

	environment=$("$top/script/server" start "$work/server" "$@")
	eval "$environment"
	copy=$("$top/script/server" prefix)
}

sql()
{
	psql -XqAt -v ON_ERROR_STOP=1 "$@"
}

engine_pid()
{
	pgrep -f -n "infer-engine .*" -P "$(pgrep -f -n -P "$(head -1 "$work/server/data/postmaster.pid")" 'infer supervisor')"
}

# The models, their data, and the peer's functions over the same files.
make_data()
{
	"$venv/bin/python" "$top/bench/_make_models.py" "$work"
	chmod 644 "$work"/*.onnx
	site=$("$venv/bin/python" -c 'import onnxruntime, os; print(os.path.dirname(os.path.dirname(onnxruntime.__file__)))')
	sql >/dev/null <<SQL
SELECT infer.create_model('tiny', '$work/tiny.onnx');
SELECT infer.create_model('wide', '$work/wide.onnx');
CREATE TABLE tiny_rows (id int PRIMARY KEY, x real[]);
INSERT INTO tiny_rows SELECT g, array_agg((sin(g * 31 + k))::real ORDER BY k)
  FROM generate_series(1, 10000) g, generate_series(1, 28) k GROUP BY g;
CREATE TABLE wide_rows (id int PRIMARY KEY, x real[]);
INSERT INTO wide_rows SELECT g, array_agg((sin(g * 31 + k))::real ORDER BY k)
  FROM generate_series(1, 1000) g, generate_series(1, 784) k GROUP BY g;
VACUUM ANALYZE;
SQL
	printf 'SELECT 1;\n' >"$work/one.sql"
	script fetch_tiny 10000 'x[1]' tiny_rows
	script infer_tiny 10000 "infer.predict('tiny', x)" tiny_rows
	script fetch_wide 1000 'x[1]' wide_rows
	script infer_wide 1000 "infer.outputs('wide', x)" wide_rows
}

# The peer, in its best configuration: one session of one thread per backend, kept in GD.
make_peer()
{
	have_peer=no
	if ! sql -c 'CREATE EXTENSION plpython3u' 2>/dev/null; then
		printf 'peer PL/Python: not measured, plpython3u is not installed\n'
		return
	fi
	for model in tiny wide; do
		sql <<SQL
CREATE FUNCTION peer_$model(x real[]) RETURNS real[] LANGUAGE plpython3u STABLE PARALLEL SAFE AS \$\$
if 'run' not in GD:
    import sys
    sys.path.insert(0, '$site')
    import numpy, onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    GD['numpy'] = numpy
    GD['run'] = onnxruntime.InferenceSession('$work/$model.onnx', options, providers=['CPUExecutionProvider']).run
return GD['run'](None, {'x': GD['numpy'].array([x], 'f4')})[0][0].tolist()
\$\$;
SQL
	done
	script peer_tiny 10000 'peer_tiny(x)' tiny_rows
	script peer_wide 1000 'peer_wide(x)' wide_rows
	sql -c 'SELECT peer_tiny(x) FROM tiny_rows LIMIT 1' >/dev/null && have_peer=yes ||
		printf 'peer PL/Python: not measured, onnxruntime does not load there\n'
}

# script NAME ROWS EXPRESSION TABLE: a pgbench script that reads one row
script()
{
	printf '\\set i random(1, %s)\nSELECT %s FROM %s WHERE id = :i;\n' "$2" "$3" "$4" >"$work/$1.sql"
}

# rate SCRIPT CLIENTS: transactions per second, prepared; of the later half of the run, as the
# first calls of a session load the model
rate()
{
	pgbench -n -M prepared -P 1 -f "$work/$1.sql" -c "$2" -j "$(($2 < 2 ? $2 : 2))" \
		-T $((seconds + ($2 > 8 ? 6 : 1))) 2>&1 |
		awk '/^progress:/ && $4 + 0 > 0 { v[n++] = $4 }
			END { for (i = int(n / 2); i < n; i++) { s += v[i]; k++ } printf "%.1f\n", (k ? s / k : 0) }'
}

larger()
{
	awk -v a="$1" -v b="$2" 'BEGIN { print (a + 0 > b + 0 ? a : b) }'
}

# Private memory of processes, MiB, and their proportional share.
private_mb()
{
	{ cat $(printf '/proc/%s/smaps_rollup ' "$@") 2>/dev/null || true; } | awk '/^Private/ { s += $2 } END { printf "%.1f", s / 1024 }'
}

# ---- callers in an open loop beside bulk work ----

# loads MODEL WIDTH EXPRESSION TABLE: has the engine load it, and finds the names that bench/_load wants
declare -A key width
loads()
{
	width[$1]=$2
	sql -c "SELECT $3 FROM $4 LIMIT 300" >/dev/null
	key[$1]=$(sql -c "SELECT key FROM infer.loaded_models WHERE model = '$1'")
	load=$build/engine/bench/_load
	engine=$(engine_pid)
	socket=$work/server/data/pg_infer/pgsql_tmp/engine.sock
}

# Calls at a rate, their latencies into a file, in microseconds.
calls_protocol()	# calls_protocol MODEL RATE FILE
{
	as_server_user "$load" calls "$socket" "${key[$1]}" "${width[$1]}" $run_seconds "$2" 7 >"$3"
}

percentile()		# percentile FILE SHARE: msec
{
	sort -n "$1" | awk -v share="$2" '{ v[n++] = $1 } END { printf "%.2f", v[int((n - 1) * share)] / 1000 }'
}

minus()
{
	awk -v a="$1" -v b="$2" 'BEGIN { print a - b }'
}

reset()
{
	sql -c 'SELECT infer.reset_stats()' >/dev/null
}

# Seconds of a core: of the engine, and of everything on the machine.
core_seconds()
{
	awk -v hertz="$(getconf CLK_TCK)" '
		FILENAME != "/proc/stat" { engine = $14 + $15 }
		FILENAME == "/proc/stat" && $1 == "cpu" { all = $2 + $3 + $4 + $7 + $8 }
		END { printf "%.2f %.2f\n", engine / hertz, all / hertz }' "/proc/$engine/stat" /proc/stat
}

# What the engine counted since the last reset.
counted()			# counted MODEL CLASS EXPRESSION
{
	sql -c "SELECT round(($3)::numeric, 4) FROM infer.stats s,
		LATERAL (SELECT extract(epoch FROM clock_timestamp() - s.since)) AS e (seconds)
		WHERE model = '$1' AND class = '$2'"
}
