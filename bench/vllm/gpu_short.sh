#!/usr/bin/env bash
# Two H200s, for less than four minutes: what was changed last, in the kinds that need no kernel compiled.
#     bench/vllm/gpu_short.sh OUT
# OUT gets results.tar.xz and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,4p bench/vllm/gpu_short.sh >&2; exit 2; }
out=$1 total=${TOTAL:-215}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of gpu_short.sh, $total seconds:
  1  up to 110 s  table_pp2_spare  7B shape, two stages, a batch more in flight than vLLM has; greedy tokens
     beside it    verify           decisions of mixed requests made again, before the table's engines are up
  2  up to  95 s  table_tp1        7B shape, one rank
END
. bench/vllm/env.sh
say "unpacked"
large=(--size 7b --layers 28 --memory 0.35 --cache-gib 16 --sides native,croupier --runs 2)

part verify 62 50 decode.py --size 1.5b --layers 4 --memory 0.15 --cache-gib 6 --sides verify --equal 256 \
    --batches 256 --decisions 30000 &
verify=$!
part table_pp2_spare 110 80 decode.py "${large[@]}" --pp 2 --spare-batches 1 --batches 256 --steps 60 \
    --kinds greedy,full,penalties,temperature --equal 256 --equal-tokens 32
wait "$verify"
part table_tp1 95 60 decode.py "${large[@]}" --batches 256,64 --steps 60 \
    --kinds greedy,full,penalties,temperature --equal 256 --equal-tokens 32
pack
say "all ended"
