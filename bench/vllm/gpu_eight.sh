#!/usr/bin/env bash
# Eight GPUs of one host: the tables of gpu_four.sh with TP 8 and TP 4 x PP 2, in less than 570 seconds.
#     bench/vllm/gpu_eight.sh OUT [PARTS]
# PARTS are figures, large and verify, with commas and in this order: all of them unless given, as far as time is left.
# RANKS=4 rehearses it on four GPUs. LAYERS are of the 72B shape; TOTAL is of all, in seconds. OUT gets plan.txt,
# results.tar.xz and flashinfer.tar.xz.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/gpu_eight.sh >&2; exit 2; }
out=$1 which=${2:-figures,verify,large} total=${TOTAL:-560} ranks=${RANKS:-8}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of gpu_eight.sh $which, $total seconds, $ranks ranks:
  figures  up to 300 s  7B shape, all ranks tensor parallel, and half of them with two stages: steps and peaks; Croupier
                        with 12, 24 and 48 samplers
  verify   up to 170 s  greedy tokens of both sides, and 5 x 10^4 decisions of mixed requests made again
  large    up to 150 s  72B shape, both layouts
END
. bench/vllm/env.sh
. bench/vllm/paper.sh
say "unpacked: vLLM $release"
choose_sampler
wants() { [[ ,$which, == *,$1,* ]]; }
nvidia-smi topo -m >"$work/topology.txt" 2>&1
tensor=${ranks}x1 staged=$((ranks / 2))x2

! wants figures || figures figures 300 \
    "$tensor:native+croupier+samplers24+samplers48+sharded,$staged:native+croupier" "${small_shape[@]}" \
    --options '{"croupier": {"samplers": 12}, "samplers24": {"samplers": 24}, "samplers48": {"samplers": 48}}' \
    --kinds $kinds --batches 256,64 --runs 1 --peaks full_unseeded --loads ""
! wants verify || part verify 170 90 decode.py "${small_shape[@]}" --tp "$ranks" --sides native,croupier,verify --steps 0 \
    --equal 256 --equal-tokens 64 --batches 256 --decisions 50000
! wants large || figures large 150 "$tensor:native+croupier,$staged:native+croupier" "${large_shape[@]}" \
    --kinds $kinds --batches 256 --runs 1 --steps 40 --peaks full_unseeded --loads ""
finish
