#!/usr/bin/env bash
# One H200: what of vLLM with Croupier one GPU can show, in less than 570 seconds.
#     bench/vllm/gpu_one.sh OUT [LETTERS]
# LETTERS are the parts, in the order of the plan below; all of them unless given, as far as time is left. BESIDE is
# JSON of the plugin's options that the third engine of the tables has, and the one whose decisions are made again. KINDS, BATCHES
# and EQUAL are of the first table, HOT_SPOTS=1 says where its steps' time goes, and LOGPROBS_MODE is vLLM's. OUT gets results.tar.xz, flashinfer.tar.xz
# and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,7p bench/vllm/gpu_one.sh >&2; exit 2; }
out=$1 which=${2:-vgwtasf} total=${TOTAL:-560}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of gpu_one.sh $which, $total seconds:
  v  up to 150 s  verify     7B shape, decisions of mixed requests made again
  g  beside it    grammar    96 structured requests, greedy and seeded, both sides
  w  beside it    worker     a worker is killed: vLLM's error, and nothing left
     beside it    kernels are compiled
  t  up to 280 s  table_7b   all kinds at 256, 64, 8 and 1 requests; greedy tokens of 256 sequences of 128
  c  up to 120 s  core       7B shape, the engine core in a process of its own, as a server has it: some kinds at 256 and 64
  a  up to 170 s  arrivals   7B shape, three loads, all controls
  s  up to  75 s  table_15b  1.5B shape: greedy tokens, and a few kinds at 256 and 64
  f  up to  60 s  start      a fresh venv to the first token
END
. bench/vllm/env.sh
say "unpacked: vLLM $release"
grammar=()
[ -z "$tokenizer" ] || grammar=(--tokenizer "$tokenizer")
small=(--size 1.5b --layers 4 --memory 0.2 --cache-gib 8)
large=(--size 7b --layers 28 --memory 0.3 --cache-gib 16)
sides=(--sides "native,croupier")
[ -z "${BESIDE:-}" ] || sides=(--sides "native,croupier,beside" --beside "$BESIDE")
wants() { [[ $which == *$1* ]]; }

beside=()
if wants v || wants t || wants c; then
    compile_kernels 200 &
    beside+=($!)
fi
if wants g && [ -n "$tokenizer" ]; then
    part grammar 190 60 grammar.py "${small[@]}" "${grammar[@]}" --requests 96 --sides croupier,native &
    beside+=($!)
fi
if wants w; then
    part worker 190 60 kills.py --parts worker --size 1.5b --layers 4 --memory 0.1 --cache-gib 4 --samplers 2 &
    beside+=($!)
fi
! wants v || part verify 150 60 decode.py "${large[@]}" --sides verify --beside "${BESIDE:-{\}}" --equal 256 --batches 256 --decisions 100000
[ ${#beside[@]} -eq 0 ] || wait "${beside[@]}"
! wants t || part table_7b 280 90 decode.py "${large[@]}" "${grammar[@]}" "${sides[@]}" \
    --batches "${BATCHES:-256,64,8,1}" ${KINDS:+--kinds "$KINDS"} --steps 60 --runs 2 --equal "${EQUAL:-256}" --equal-tokens 128 \
    ${HOT_SPOTS:+--hot-spots} ${LOGPROBS_MODE:+--logprobs-mode "$LOGPROBS_MODE"}
! wants c || part core_7b 120 60 decode.py "${large[@]}" "${sides[@]}" --core-process --batches 256,64 \
    --kinds greedy,logprobs20,mixed,top_n_sigma --steps 60 --runs 2 --equal 256 --equal-tokens 0
! wants a || part arrivals 170 100 arrivals.py "${large[@]}" --loads 0.75,0.5,0.9 --seconds 10
! wants s || part table_15b 75 50 decode.py --size 1.5b --layers 28 --memory 0.2 --cache-gib 16 "${sides[@]}" \
    --batches 256,64 --kinds greedy,topk_topp,full,full_unseeded,mixed --steps 60 --equal 256 --equal-tokens 128
if wants f && [ "$(left 60)" -ge 45 ]; then
    say "start: at most $(left 60) s"
    timeout --kill-after=5 "$(left 60)" bench/vllm/start.sh "$work/start" 2>&1 | tail -n 12
fi
finish
