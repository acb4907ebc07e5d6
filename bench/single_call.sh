#!/usr/bin/env bash
# single_call: what one call costs above SELECT 1, one client, prepared, tiny model; against
# PL/Python with onnxruntime in the same server.
source "$(dirname "$0")/_lib.sh"

start_server
make_data
make_peer

declare -A best
names=(one fetch_tiny infer_tiny)
[ "$have_peer" = no ] || names+=(peer_tiny)
for ((round = 0; round < rounds; round++)); do
	for name in "${names[@]}"; do
		best[$name]=$(larger "${best[$name]:-0}" "$(rate "$name" 1)")
	done
done

sql -c "SELECT 'engine per call: compute ' || round((compute_time / nullif(batches, 0))::numeric * 1000, 2) || ' us, queue '
	|| round((queue_time / nullif(rows, 0))::numeric * 1000, 2) || ' us' FROM infer.stats WHERE model = 'tiny'"
awk -v one="${best[one]}" -v fetch="${best[fetch_tiny]}" -v infer="${best[infer_tiny]}" -v peer="${best[peer_tiny]:-0}" 'BEGIN {
	printf "SELECT 1                      %8.1f us\n", 1e6 / one
	printf "row fetch                     %8.1f us\n", 1e6 / fetch
	printf "infer.predict on the row      %8.1f us: %.1f us above SELECT 1, %.1f us above the fetch\n",
		1e6 / infer, 1e6 / infer - 1e6 / one, 1e6 / infer - 1e6 / fetch
	if (peer > 0) {
		printf "PL/Python + onnxruntime       %8.1f us: %.1f us above SELECT 1, %.1f us above the fetch\n",
			1e6 / peer, 1e6 / peer - 1e6 / one, 1e6 / peer - 1e6 / fetch
		printf "ratio peer / infer, above the fetch: %.2f\n", (1e6 / peer - 1e6 / fetch) / (1e6 / infer - 1e6 / fetch)
	}
}'
