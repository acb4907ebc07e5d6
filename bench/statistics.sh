#!/usr/bin/env bash
# statistics: what counters, histograms and the record of predictions cost of a tiny call (one
# row of an MLP 28-64-1, in a loop inside the server): below 1 % of it.
source "$(dirname "$0")/_lib.sh"

start_server
make_data

# Microseconds of a call, the best of several thousands.
call()
{
	sql -c "DO \$\$ DECLARE v real[]; r float8; t timestamptz; best float8 := 1e9; BEGIN
		SELECT x INTO v FROM tiny_rows LIMIT 1;
		FOR k IN 1..$((rounds * 100)) LOOP
			t := clock_timestamp();
			FOR i IN 1..1000 LOOP r := infer.predict('tiny', v); END LOOP;
			best := least(best, extract(epoch FROM clock_timestamp() - t) * 1e3);
		END LOOP;
		RAISE NOTICE '%', best; END \$\$" 2>&1 | sed -n 's/.*NOTICE:  //p'
}

awk -v call="$(call)" -v counting="$("$build/engine/bench/_statistics")" 'BEGIN {
	share = counting / call / 10
	printf "a tiny call                   %8.1f ns\n", call * 1000
	printf "statistics of it              %8.1f ns\n", counting
	printf "share                         %8.2f %%   goal below 1 %%: %s\n", share, share < 1 ? "met" : "MISSED"
}'
