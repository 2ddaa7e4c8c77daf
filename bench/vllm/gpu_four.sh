#!/usr/bin/env bash
# Four GPUs of one host: the SIMPLE paper's throughput, times per token, utilisation and memory (docs/paper.md), in less
# than 570 seconds.
#     [RANKS=4] bench/vllm/gpu_four.sh OUT [PARTS]
# PARTS are figures, large, ranks and verify, with commas and in this order: all of them unless given, as far as time is
# left. RANKS=2 is for two GPUs, without TP 2 x PP 2; LAYOUTS replaces those of figures (arrivals.py). LAYERS are of the
# 72B shape; TOTAL is of all, in seconds. OUT gets plan.txt, results.tar.xz and flashinfer.tar.xz.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,7p bench/vllm/gpu_four.sh >&2; exit 2; }
out=$1 which=${2:-figures,large,ranks,verify} total=${TOTAL:-560} ranks=${RANKS:-4}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of gpu_four.sh $which, $total seconds, $ranks ranks:
  figures  up to 370 s  7B shape, TP 4, PP 4, TP 2 x PP 2: steps, peaks, random arrivals; vLLM, vLLM with batch-sharded
                        sampling, Croupier with lean steps, and with whole rows, as the paper has it
  large    up to 150 s  72B shape, TP 4: steps and peaks
  ranks    up to 150 s  7B shape, TP 1 and 2: steps of up to 1,024 requests, for cost_model.py
  verify   up to  90 s  7B shape, TP 4: 5 x 10^4 decisions of mixed requests made again
END
. bench/vllm/env.sh
. bench/vllm/paper.sh
say "unpacked: vLLM $release"
choose_sampler
wants() { [[ ,$which, == *,$1,* ]]; }
nvidia-smi topo -m >"$work/topology.txt" 2>&1
layouts="${ranks}x1:native+croupier+rows+sharded,1x$ranks:native+croupier"
[ "$ranks" = 2 ] || layouts+=",2x2:native+croupier"
layouts=${LAYOUTS:-$layouts}

after=0
! wants large || after=140
! wants figures || figures figures $(($(left 510) - after)) \
    "$layouts" "${small_shape[@]}" \
    --options '{"rows": {"transport": "rows", "samplers": 16}}' --kinds $kinds --batches 256,64 --runs 1 \
    --peaks full_unseeded --loads 0.9,0.5 --seconds 5
! wants large || figures large 150 "${ranks}x1:native+croupier" "${large_shape[@]}" \
    --kinds $kinds --batches 256 --runs 1 --steps 40 --peaks full_unseeded --loads ""
most=$((memory > 100000 ? 1024 : 512))
! wants ranks || figures ranks 150 1x1:native+croupier,2x1:native+croupier "${small_shape[@]}" \
    --cache-gib $((most / 170)) --concurrent $most --kinds full_unseeded,greedy --batches $most,256,64 --runs 1 --peaks "" --loads ""
! wants verify || part verify 90 75 decode.py "${small_shape[@]}" --tp "$ranks" --sides verify --equal 256 --batches 256 --decisions 50000
finish
