#!/usr/bin/env bash
# Two hosts on one machine with two GPUs (with TP=2: four), a pipeline stage on each, by vLLM's own multi-node launch; as root.
#     bench/vllm/hosts.sh OUT
# Each host is a network namespace with its own /dev/shm; between them is a link with a delay of 0.2 ms each way (tc netem), which is
# cut for two seconds once. hosts.py says what is measured. SIZE is the model's (1.5b), TP the ranks of each stage, TOTAL the seconds.
# What the second host runs needs package.sh with SERVER=FOLDER, and bare machines IPROUTE=1. OUT gets results.tar.xz and plan.txt.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/hosts.sh >&2; exit 2; }
out=$1 total=${TOTAL:-560}
. bench/vllm/parts.sh
echo "The plan of hosts.sh, $total seconds: one host, two hosts, faults on two hosts, two hosts without Croupier" | tee "$out/plan.txt"
. bench/vllm/env.sh
say "unpacked: vLLM $release"
# Behind this host's own: package.sh may have brought `ip` and `tc` along.
PATH=$PATH:$here/croupier/croupier/bin
export NCCL_IB_DISABLE=1 NCCL_DEBUG=WARN
{ uname -a; nvidia-smi topo -m; command -v ip tc; } >"$work/host.txt" 2>&1
part hosts "$total" 180 hosts.py --pp 2 --tp "${TP:-1}" --size "${SIZE:-1.5b}" --layers 28 --memory 0.4 --cache-gib 6
finish
