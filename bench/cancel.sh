#!/usr/bin/env bash
# cancel: how long a call outlives its end while the engine is stopped (SIGSTOP), by
# statement_timeout, by infer.timeout and by pg_cancel_backend; percentiles against 100 ms.
source "$(dirname "$0")/_lib.sh"

times=200
[ $quick = no ] || times=40
start_server --set infer.engine_timeout=600s
make_data
engine=$(engine_pid)
sql -c "SELECT infer.predict('tiny', x) FROM tiny_rows LIMIT 1" >/dev/null
kill -STOP "$engine"
trap 'kill -CONT $engine 2>/dev/null; stop_server; rm -rf "$work"' EXIT

percentiles()		# percentiles NAME: reads milliseconds over the bound
{
	sort -n | awk -v name="$1" '{ v[n++] = $1 }
		END { printf "%-20s p50 %6.2f ms   p99 %6.2f ms   worst %6.2f ms   (p99 / 100 ms: %.2f)\n",
			name, v[int(n * .5)], v[int(n * .99)], v[n - 1], v[int(n * .99)] / 100 }'
}

call="SELECT infer.predict('tiny', x) FROM tiny_rows LIMIT 1;"
for setting in statement_timeout infer.timeout; do
	{
		printf "SET %s = '50ms';\n\\\\timing on\n" "$setting"
		for ((i = 0; i < times; i++)); do printf '%s\n' "$call"; done
	} | psql -XqAt 2>/dev/null | awk '/^Time:/ { print $2 - 50 }' | percentiles "$setting"
done

for ((i = 0; i < times / 4; i++)); do
	psql -XqAt -c "$call" >/dev/null 2>&1 &
	while [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT infer.predict%'")" != 1 ]; do :; done
	before=$(date +%s%N)
	sql -c "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT infer.predict%'" >/dev/null
	wait $! || true
	awk -v a="$before" -v b="$(date +%s%N)" 'BEGIN { print (b - a) / 1e6 }'
done | percentiles "pg_cancel_backend *"
printf '* the start of a psql that cancels and the end of the one cancelled included\n'
