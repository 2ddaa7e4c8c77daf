#!/usr/bin/env bash
# One H200: what of issue "vLLM decodes with Croupier" one GPU can show, in less than 570 seconds.
#     bench/vllm/gpu_one.sh OUT [a|b]
# a: decisions made again, and grammars, beside the compilation of kernels; then the table of the 7B shape, and greedy
#    tokens. b: arrivals at three loads, the 1.5B shape, the start. Without a letter it is all of it, b as far as time
#    is left. OUT gets results.tar.xz, flashinfer.tar.xz and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/gpu_one.sh >&2; exit 2; }
out=$1 which=${2:-ab} total=${TOTAL:-560}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of gpu_one.sh $which, $total seconds:
  a 1  up to 150 s  verify     1.5B shape of 4 layers, 10^5 decisions of mixed requests made again
       beside it    grammar    96 structured requests, greedy and seeded, both sides; kernels are compiled
       beside it    worker     a worker is killed: vLLM's error, and nothing left
  a 2  up to 230 s  table_7b   all kinds at 256, 64, 8 and 1 requests; greedy tokens of 256 sequences of 128
  b 1  up to 170 s  arrivals   7B shape, three loads, all controls
  b 2  up to  75 s  table_15b  1.5B shape: greedy tokens, and a few kinds at 256 and 64
  b 3  up to  60 s  start      a fresh venv to the first token
END
. bench/vllm/env.sh
say "unpacked"
grammar=()
[ -z "$tokenizer" ] || grammar=(--tokenizer "$tokenizer")
small=(--size 1.5b --layers 4 --memory 0.2 --cache-gib 8)
large=(--size 7b --layers 28 --memory 0.4 --cache-gib 24)

if [[ $which == *a* ]]; then
    compile_kernels 200 &
    kernels=$!
    structured=
    if [ -n "$tokenizer" ]; then
        part grammar 190 60 grammar.py "${small[@]}" "${grammar[@]}" --requests 96 --sides croupier,native &
        structured=$!
    fi
    part worker 190 60 kills.py --parts worker --size 1.5b --layers 4 --memory 0.1 --cache-gib 4 --samplers 2 &
    worker=$!
    part verify 150 60 decode.py "${small[@]}" --sides verify --equal 256 --batches 256 --decisions 100000
    wait "$kernels" "$worker" $structured
    part table_7b 230 90 decode.py "${large[@]}" "${grammar[@]}" --sides native,croupier \
        --batches 256,64,8,1 --steps 60 --runs 2 --equal 256 --equal-tokens 128
fi
if [[ $which == *b* ]]; then
    part arrivals 170 100 arrivals.py "${large[@]}" --loads 0.75,0.5,0.9 --seconds 10
    part table_15b 75 50 decode.py --size 1.5b --layers 28 --memory 0.2 --cache-gib 16 --sides native,croupier \
        --batches 256,64 --kinds greedy,topk_topp,full,full_unseeded,mixed --steps 60 --equal 256 --equal-tokens 128
    if [ "$(left 60)" -ge 45 ]; then
        say "start: at most $(left 60) s"
        timeout --kill-after=5 "$(left 60)" bench/vllm/start.sh "$work/start" 2>&1 | tail -n 12
    fi
fi
finish
