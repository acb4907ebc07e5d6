#!/usr/bin/env bash
# residency: 8 models whose weights are together twice infer.memory, called in turn by several
# sessions: failures, peak memory against the budget, and a load from the packed cache
# against the first one.
source "$(dirname "$0")/_lib.sh"

models=8
sessions=4
turns=10
size=4096						# of two square matrices in each model, in f32: 128 MB of weights
[ $quick = no ] || { size=2048; turns=3; }		# 32 MB

"$venv/bin/python" - "$work" $models $size <<'PYTHON'
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder, models, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sizes = [64, size, size, size, 1]
for m in range(models):
    rng = np.random.default_rng(m)
    nodes, weights, value = [], [], "x"
    for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
        weights.append(numpy_helper.from_array((rng.standard_normal((k, n), np.float32) / np.sqrt(k)).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"p{i}" if i < len(sizes) - 2 else "y"]))
        value = f"p{i}"
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", sizes[0]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{folder}/model{m}.onnx")
PYTHON
chmod 644 "$work"/*.onnx

bytes=$(stat -c %s "$work/model0.onnx")
budget=$((bytes * models / 2 / 1048576 + 8))	# MB: half of them, and what each needs beside its weights
start_server --set infer.memory="${budget}MB" --set infer.cache_size=20GB
for ((m = 0; m < models; m++)); do
	sql -c "SELECT infer.create_model('model$m', '$work/model$m.onnx')" >/dev/null
done
input="(SELECT array_agg((sin(k))::real) FROM generate_series(1, 64) k)"

call()
{
	sql -c "SELECT infer.predict('model$1', $input)"
}
# Of the model's last load, ms in the engine.
load_time()
{
	sql -c "SELECT round(load_time::numeric, 2) FROM infer.loaded_models WHERE model = 'model$1' AND from_cache = $2"
}
median()
{
	sort -n | awk '{ v[NR] = $1 } END { print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}
packed_models()
{
	find "$work/server/data/pg_infer/pgsql_tmp/models/packed" -type f ! -name writing | wc -l
}

# first loads, each alone
for ((m = 0; m < models; m++)); do
	call $m >"$work/result$m"
	load_time $m false >>"$work/first"
done
sql -c 'SELECT infer.unload_model(name) FROM infer.models' >/dev/null
[ "$(packed_models)" = $models ] || printf 'only %s of %s models are packed in the cache\n' "$(packed_models)" $models

# reloads, each alone
for ((m = 0; m < models; m++)); do
	call $m >"$work/again"
	cmp -s "$work/result$m" "$work/again" || printf 'model%s: another result from the packed cache\n' $m
	load_time $m true >>"$work/reload"
done

# in turn, from several sessions; memory is looked at meanwhile
turn()
{
	for ((i = 0; i < turns * models; i++)); do
		printf 'SELECT infer.predict('"'model%s'"', %s);\n' $(((i * (1 + 2 * ($1 % 2)) + $1) % models)) "$input"
	done
}
engine=$(engine_pid)
for ((s = 0; s < sessions; s++)); do
	turn $s | psql -XqAt >"$work/answers$s" 2>"$work/errors$s" &
	clients[s]=$!
done
peak=0
samples=0
while kill -0 "${clients[@]}" 2>/dev/null; do
	held=$(sql -c 'SELECT greatest((SELECT sum(bytes) FROM infer.loaded_models), (SELECT max(memory_used) FROM infer.devices))')
	peak=$(larger "$peak" "$held")
	samples=$((samples + 1))
done
wait "${clients[@]}"
failures=$(cat "$work"/errors* | grep -c ERROR || true)
answers=$(cat "$work"/answers* | wc -l)
wrong=0
for ((m = 0; m < models; m++)); do
	printf '%s\n' "$(cat "$work/result$m")"
done | sort -u >"$work/known"
wrong=$(cat "$work"/answers* | sort -u | comm -23 - "$work/known" | wc -l)
rss=$(awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$engine/status")
anonymous=$(awk '/^RssAnon/ { printf "%.0f", $2 / 1024 }' "/proc/$engine/status")

first=$(median <"$work/first")
reload=$(median <"$work/reload")
awk -v bytes="$bytes" -v models=$models -v budget="$budget" -v failures="$failures" -v answers="$answers" -v wrong="$wrong" \
	-v sessions=$sessions -v peak="$peak" -v samples=$samples -v first="$first" -v reload="$reload" -v rss="$rss" -v anonymous="$anonymous" 'BEGIN {
	printf "%d models of %.0f MB, infer.memory %d MB, %d sessions calling them in turn\n", models, bytes / 1e6, budget, sessions
	printf "calls answered                %8d   failures %d, results that differ %d\n", answers, failures, wrong
	printf "peak of models held           %8.0f MB of %d MB allowed (%.0f %%), %d samples; the process at most %d MB, %d MB of it anonymous now\n",
		peak / 1048576, budget, 100 * peak / 1048576 / budget, samples, rss, anonymous
	printf "first load, median            %8.1f ms\n", first
	printf "from the packed cache, median %8.1f ms\n", reload
	printf "ratio                         %8.1f\n", first / reload
	exit failures > 0 || wrong > 0 || peak > budget * 1048576
}'
