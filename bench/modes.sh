#!/usr/bin/env bash
# modes: does bulk work hurt interactive callers?  A bulk client of class job saturates the
# engine while interactive calls arrive at 20 % of its capacity, at times of their own (open
# loop); the same calls at the same times without it.  For a network and for trees.
#
#	capacity	rows a second of the bulk client alone, which speaks the engine's protocol
#				(bench/_load.c), so that PostgreSQL's own work is not in the figure
#	SQL			the interactive callers are sessions, each call a prepared statement that
#				fetches a row (pgbench --rate); they and PostgreSQL take cores from the engine
#	protocol	the callers speak the protocol as well, and take next to nothing
#
# A latency counts from when the call was due.  Goals: p99 beside the bulk client at most that
# without it + one slice + 4 ms; the bulk client gets 80 % of the rows that the calls leave;
# the device is busy 95 % of the time.  The cores that the engine got, and all others, tell
# what of a miss is the scheduler's: "the same of the cores that are left" counts what the
# engine could do on those that others did not use.
source "$(dirname "$0")/_lib.sh"

slice=10						# msec, of infer.slice by default on a CPU
run_seconds=10
[ $quick = no ] || run_seconds=4
sessions=96
start_server --set max_connections=120
make_data
"$venv/bin/python" "$top/bench/_make_models.py" "$work" forest
chmod 644 "$work/forest.onnx"
sql >/dev/null <<SQL
SELECT infer.create_model('forest', '$work/forest.onnx');
SQL
script infer_forest 10000 "infer.predict('forest', x)" tiny_rows
# Calls at a rate, their latencies into a file, in microseconds.
calls_sql()			# calls_sql MODEL RATE FILE
{
	rm -f "$work"/log.*
	(cd "$work" && pgbench -n -M prepared -f "$work/infer_$1.sql" -c $sessions -j 1 -T $((run_seconds + 2)) -R "$2" \
		--random-seed=7 --log --log-prefix="$work/log" >"$work/pgbench" 2>&1) || { cat "$work/pgbench" >&2; return 1; }
	# the first two seconds connect, plan and load
	sort -n -k5,5 -k6,6 "$work"/log.* | awk 'NR == 1 { begin = $5 } $5 >= begin + 2 { print $3 }' >"$3"
}

# bulk MODEL SECONDS: in the background
bulk()
{
	as_server_user "$load" bulk "$socket" "${key[$1]}" "${width[$1]}" "$2" 2048 3 &
	bulk_pid=$!
}

# The calls beside the bulk client; sets what the bulk client got meanwhile.
beside()			# beside VIA MODEL RATE FILE
{
	bulk "$2" $((run_seconds + 4))
	sleep 1
	(
		sleep 2
		reset
		core_seconds
		sleep $((run_seconds - 2))
		core_seconds
		counted "$2" job 'rows / seconds'
		counted "$2" interactive 'rows / seconds'
		counted "$2" job "compute_time / 1000 / seconds"
		counted "$2" interactive "compute_time / 1000 / seconds"
		counted "$2" job 'mean_batch_rows'
		sql -c 'SELECT round(busy_share::numeric, 4) FROM infer.devices WHERE in_use'
	) >"$work/counted" &
	"calls_$1" "$2" "$3" "$4"
	wait
	read -r engine_from all_from engine_to all_to job_rows call_rows job_time call_time mean busy < <(xargs <"$work/counted")
}

report()			# report VIA
{
	awk -v via="$1" -v slice=$slice -v capacity="$capacity" -v capacity_cores="$capacity_cores" -v cores="$(nproc)" \
		-v calls="$call_rows" -v job="$job_rows" -v mean="$mean" -v rate="$rate" -v seconds=$((run_seconds - 2)) \
		-v engine=$(minus "$engine_to" "$engine_from") -v all=$(minus "$all_to" "$all_from") \
		-v job_time="$job_time" -v call_time="$call_time" -v busy="$busy" \
		-v a50="$(percentile "$work/alone" .5)" -v a99="$(percentile "$work/alone" .99)" \
		-v b50="$(percentile "$work/beside" .5)" -v b99="$(percentile "$work/beside" .99)" '
		function goal(ratio, least) { return sprintf("%6.2f   goal %.2f: %s", ratio, least, ratio >= least ? "met" : "MISSED") }
		BEGIN {
			engine /= seconds
			others = all / seconds - engine
			left = capacity / capacity_cores * (cores - others)
			printf "  calls by %-8s %6.0f/s   alone p50 %.2f, p99 %.2f ms   beside bulk p50 %.2f, p99 %.2f ms\n", via, rate, a50, a99, b50, b99
			printf "    (p99 alone + slice + 4 ms) / p99      %s\n", goal((a99 + slice + 4) / b99, 1)
			printf "    bulk / (capacity - calls)             %s   (%.0f of %.0f - %.0f rows/s, mean batch %.0f rows)\n",
				goal(job / (capacity - calls), .8), job, capacity, calls, mean
			printf "    the same of the cores that are left   %6.2f   (the engine got %.2f cores, all others %.2f)\n",
				(left > calls ? job / (left - calls) : 0), engine, others
			printf "    device busy                           %s   (bulk %.2f, calls %.2f)\n", goal(busy, .95), job_time, call_time
		}'
}

for model in wide forest; do
	case $model in
		wide) loads wide 784 "infer.outputs('wide', x)" wide_rows ;;
		forest) loads forest 28 "infer.outputs('forest', x)" tiny_rows ;;
	esac
	bulk $model $((run_seconds / 2 + 2))
	sleep 1
	reset
	read -r engine_from all_from < <(core_seconds)
	sleep $((run_seconds / 2))
	read -r engine_to all_to < <(core_seconds)
	capacity=$(counted $model job 'rows / seconds')
	capacity_cores=$(awk -v a="$engine_from" -v b="$engine_to" -v s=$((run_seconds / 2)) 'BEGIN { print (b - a) / s }')
	printf '%s: capacity %.0f rows/s (mean batch %.0f rows, %.1f ms; the engine got %.2f cores)\n' $model "$capacity" \
		"$(counted $model job mean_batch_rows)" "$(counted $model job 'compute_time / batches')" "$capacity_cores"
	wait "$bulk_pid"
	for via in sql protocol; do
		rate=$(awk -v c="$capacity" 'BEGIN { printf "%.0f", c / 5 }')
		calls_$via $model "$rate" "$work/alone"
		beside $via $model "$rate" "$work/beside"
		report $via
	done
done
