#!/usr/bin/env bash
# statement_memory: the peak of a backend whose one statement calls a tiny model for five million rows.
#
# The bound is work_mem and 64 MB.  Peaks are VmHWM of a session of its own for each statement; the
# session's memory before the statement is in them.
source "$(dirname "$0")/_lib.sh"

rows=5000000
[ $quick = no ] || rows=200000
work_mem=4
start_server --set "work_mem=${work_mem}MB" --set shared_buffers=64MB --set max_wal_size=4GB
"$venv/bin/python" "$top/bench/_make_models.py" "$work" ten
chmod 644 "$work"/*.onnx
sql >/dev/null <<SQL
SELECT infer.create_model('ten', '$work/ten.onnx');
CREATE TABLE many AS SELECT g AS id, NULL::float8 AS y FROM generate_series(1, $rows) g;
VACUUM ANALYZE;
SQL
call="infer.predict('ten', id, 1, 2, 3, 4, 5, 6, 7, 8, 9)"

# peak STATEMENT: kB, as the server's user reads it of the backend after the statement
peak()
{
	sql <<SQL | tail -n 1
SET max_parallel_workers_per_gather = 0;
SET jit = off;
$1;
SELECT substring(pg_read_file('/proc/' || pg_backend_pid() || '/status') FROM 'VmHWM:\s+(\d+)');
SQL
}

show()
{
	local kb

	kb=$(peak "$2")
	printf '%-44s %5d MB of %d\n' "$1" $((kb / 1024)) $((work_mem + 64))
}

printf 'peak of the backend, %s rows:\n' "$rows"
show 'the scan alone' "SELECT count(id) FROM many"
show 'an aggregate over calls' "SELECT sum($call) FROM many"
show 'results by reference, rows that repeat' "SELECT count(infer('ten', id % 100000, 1, 2, 3, 4, 5, 6, 7, 8, 9)) FROM many"
show 'a condition' "SELECT count(*) FROM many WHERE $call > 0"
