#!/usr/bin/env bash
# memory: what a million calls leave behind in the backend and in the engine.
source "$(dirname "$0")/_lib.sh"

calls=1000000
[ $quick = no ] || calls=50000
start_server
make_data

coproc session { psql -XqAt; }
say_to_session()
{
	printf '%s\n' "$1" >&"${session[1]}"
}
ask_session()
{
	say_to_session "$1"
	read -r answer <&"${session[0]}"
	printf '%s\n' "$answer"
}
call_many()
{
	ask_session "DO \$\$ DECLARE v real[]; r float8; BEGIN SELECT x INTO v FROM tiny_rows LIMIT 1; FOR i IN 1..$1 LOOP r := infer.predict('tiny', v); END LOOP; END \$\$; SELECT 'done';"
}
resident_kb()
{
	awk '/^Pss_Anon|^Private_Dirty/ { if ($1 == "Private_Dirty:") s = $2 } END { print s }' "/proc/$1/smaps_rollup"
}

backend=$(ask_session 'SELECT pg_backend_pid();')
call_many 10000 >/dev/null
engine=$(engine_pid)
backend_before=$(resident_kb "$backend")
engine_before=$(resident_kb "$engine")
call_many "$calls" >/dev/null
printf 'after the first 10,000 calls and after %s more, private memory: backend %s kB → %+d kB, engine %s kB → %+d kB\n' \
	"$calls" "$backend_before" $(($(resident_kb "$backend") - backend_before)) \
	"$engine_before" $(($(resident_kb "$engine") - engine_before))
say_to_session '\q'
