#!/usr/bin/env bash
# concurrent: 32 clients, one row a call, an MLP with 23 MB of weights; batching across
# sessions against batches of one row, and against PL/Python with onnxruntime: rate and memory.
source "$(dirname "$0")/_lib.sh"

clients=32
start_server
make_data
make_peer

measure()		# measure SCRIPT: rate; leaves the private memory of the backends in $work/memory
{
	(
		sleep $((seconds + 2))
		private_mb $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'") >"$work/memory"
	) &
	rate "$1" $clients
	wait
}

# configure NAME VALUE: one setting, the others as they are by default
configure()
{
	sql -c 'ALTER SYSTEM RESET ALL' -c "ALTER SYSTEM SET $1 = $2" -c 'SELECT pg_reload_conf()' >/dev/null
	sleep 1
	sql -c 'SELECT infer.reset_stats()' >/dev/null
}

# from_stats EXPRESSION
from_stats()
{
	sql -c "SELECT round(($1)::numeric, 1) FROM infer.stats WHERE model = 'wide'"
}

sql -c "SELECT infer.outputs('wide', x) FROM wide_rows LIMIT 10" >/dev/null
declare -A best device
for ((round = 0; round < rounds; round++)); do
	configure infer.batch_delay 0
	best[batched]=$(larger "${best[batched]:-0}" "$(measure infer_wide)")
	backends=$(cat "$work/memory")
	mean=$(from_stats mean_batch_rows)
	device[batched]=$(from_stats 'compute_time / rows * 1000')
	configure infer.batch_delay 500
	best[delayed]=$(larger "${best[delayed]:-0}" "$(measure infer_wide)")
	mean_delayed=$(from_stats mean_batch_rows)
	device[delayed]=$(from_stats 'compute_time / rows * 1000')
	configure infer.batch_rows 1
	best[single]=$(larger "${best[single]:-0}" "$(measure infer_wide)")
	device[single]=$(from_stats 'compute_time / rows * 1000')
	if [ "$have_peer" = yes ]; then
		best[peer]=$(larger "${best[peer]:-0}" "$(measure peer_wide)")
		peer_backends=$(cat "$work/memory")
	fi
done
engine=$(private_mb "$(engine_pid)")

awk -v b="${best[batched]}" -v s="${best[single]}" -v p="${best[peer]:-0}" -v mean="$mean" -v clients=$clients \
	-v d="${best[delayed]}" -v mean_delayed="$mean_delayed" \
	-v device_b="${device[batched]}" -v device_d="${device[delayed]}" -v device_s="${device[single]}" \
	-v engine="$engine" -v backends="$backends" -v peer_backends="${peer_backends:-0}" 'BEGIN {
	printf "%d clients, MLP 784-2048-2048-10\n", clients
	printf "infer, batches across sessions  %8.0f rows/s   mean batch %s rows, device %s us a row   private memory: engine %s MiB, backends %s MiB\n", b, mean, device_b, engine, backends
	printf "infer, infer.batch_delay = 500  %8.0f rows/s   mean batch %s rows, device %s us a row\n", d, mean_delayed, device_d
	printf "infer, infer.batch_rows = 1     %8.0f rows/s   device %s us a row\n", s, device_s
	printf "ratio batched / batches of one  %8.2f   with the delay %.2f; of the device alone %.2f, with the delay %.2f\n",
		b / s, d / s, device_s / device_b, device_s / device_d
	if (p > 0) {
		printf "PL/Python + onnxruntime         %8.0f rows/s   private memory: backends %s MiB\n", p, peer_backends
		printf "ratio batched / PL/Python       %8.2f   memory %.1f times less\n", b / p, peer_backends / (engine + backends)
	}
}'
