#!/usr/bin/env bash
# single_call: what one call costs above SELECT 1, one client, prepared, tiny model; against
# PL/Python with onnxruntime in the same server.
#
# Two views: statements of a client (pgbench), where a core that falls asleep between two
# messages costs more than the call; and calls in a loop inside the server, where it cannot.
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

# loop EXPRESSION: microseconds per evaluation in a loop inside the server, best of three
loop()
{
	sql -c "DO \$\$ DECLARE v real[]; r float8; t timestamptz; best float8 := 1e9; n int := 20000; BEGIN
		SELECT x INTO v FROM tiny_rows LIMIT 1;
		FOR k IN 1..4 LOOP
			t := clock_timestamp();
			FOR i IN 1..n LOOP r := $1; END LOOP;
			best := least(best, extract(epoch FROM clock_timestamp() - t) * 1e6 / n);
		END LOOP;
		RAISE NOTICE '%', best; END \$\$" 2>&1 | sed -n 's/.*NOTICE:  //p'
}
empty=$(loop 'v[1]')
infer_loop=$(loop "infer.predict('tiny', v)")
[ "$have_peer" = no ] || peer_loop=$(loop '(peer_tiny(v))[1]')

sql -c "SELECT 'engine per call: compute ' || round((compute_time / nullif(batches, 0))::numeric * 1000, 2) || ' us, queue '
	|| round((queue_time / nullif(rows, 0))::numeric * 1000, 2) || ' us' FROM infer.stats WHERE model = 'tiny'"
awk -v one="${best[one]}" -v fetch="${best[fetch_tiny]}" -v infer="${best[infer_tiny]}" -v peer="${best[peer_tiny]:-0}" \
	-v empty="$empty" -v infer_loop="$infer_loop" -v peer_loop="${peer_loop:-0}" 'BEGIN {
	printf "in a loop inside the server: infer.predict %.1f us, PL/Python + onnxruntime %.1f us a call; ratio %.2f\n",
		infer_loop - empty, peer_loop - empty, (peer_loop - empty) / (infer_loop - empty)
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
