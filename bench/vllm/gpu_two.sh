#!/usr/bin/env bash
# Two H200s of one host: tensor and pipeline parallelism, decisions made again, kills; in less than 570 seconds.
#     bench/vllm/gpu_two.sh OUT
# KILLS are the parts of kills.py that are run, or none. BESIDE_PP and BESIDE_TP are JSON of the plugin's options
# that the third engine of the table with two stages, and of the one with two ranks, has, and the one whose
# decisions are made again. KINDS are the tables' (kinds.py), all of them unless given, RUNS how often each is timed.
# OUT gets results.tar.xz, flashinfer.tar.xz and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/gpu_two.sh >&2; exit 2; }
out=$1 total=${TOTAL:-560}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of gpu_two.sh, $total seconds:
  1  up to 200 s  kills        TP 2: 20 samplers and 5 daemons killed, a daemon that stays dead, a worker killed
     beside it    verify_tp2   5 x 10^4 decisions of mixed requests made again
     beside it    verify_pp2   the same with two stages; kernels are compiled
  2  up to 220 s  table_pp2    7B shape, two stages: all kinds at 256 and 64 requests
  3  up to 220 s  table_tp2    7B shape, two ranks: the same
END
. bench/vllm/env.sh
say "unpacked: vLLM $release"
# How the two reach each other decides what ranks cost, on both sides.
nvidia-smi topo -m >"$work/topology.txt" 2>&1
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH NCCL_DEBUG_FILE=$work/nccl.%p.txt
small=(--size 1.5b --layers 4 --memory 0.15 --cache-gib 6)
large=(--size 7b --layers 28 --memory 0.25 --cache-gib 10)
timed=(--kinds "${KINDS:-}" --batches "256,64" --steps 60 --runs "${RUNS:-2}" --equal 256 --equal-tokens 64)
again=(--sides verify --equal 256 --batches 256 --decisions 50000)
# sides JSON: the engines of a table, with a third one where there are options for it.
sides() {
    printf '%s\n' --sides "native,croupier${1:+,beside}"
    [ -z "$1" ] || printf '%s\n' --beside "$1"
}
mapfile -t sides_pp < <(sides "${BESIDE_PP:-}")
mapfile -t sides_tp < <(sides "${BESIDE_TP:-}")

compile_kernels 200 &
beside=($!)
part verify_tp2 200 60 decode.py "${small[@]}" --tp 2 "${again[@]}" --beside "${BESIDE_TP:-{\}}" &
beside+=($!)
part verify_pp2 200 60 decode.py "${small[@]}" --pp 2 "${again[@]}" --beside "${BESIDE_PP:-{\}}" &
beside+=($!)
[ "${KILLS:-}" = none ] ||
    part kills 200 90 kills.py --parts "${KILLS:-kills,dead,worker}" --size 1.5b --layers 28 --memory 0.15 --cache-gib 6 \
        --tp 2 --samplers 8
wait "${beside[@]}"

part table_pp2 220 80 decode.py "${large[@]}" --pp 2 "${sides_pp[@]}" "${timed[@]}"
part table_tp2 220 80 decode.py "${large[@]}" --tp 2 "${sides_tp[@]}" "${timed[@]}"
finish
