#!/usr/bin/env bash
# On a GPU host with Python 3.12 and torch: unpacks what bench/vllm/package.sh made, and runs a script.
#     [RELEASE=0.33.0] bench/vllm/run.sh FOLDER [decode.py|grammar.py|arrivals.py|hosts.py|kills.py|noise.py|speculation.py|stops.py] [ARGUMENTS OF THE SCRIPT]
# Without a script's name it is decode.py. Results are FOLDER/*.json, the whole log is FOLDER/log.txt, and
# FOLDER/flashinfer.tar.xz has the kernels that were compiled, unless KEEP_KERNELS=0: in build/vllm/ the next
# machine finds them.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/run.sh >&2; exit 2; }
folder=$1
shift
script=decode.py
if [ $# -ge 1 ] && [ "${1%.py}" != "$1" ]; then
    script=$1
    shift
fi
mkdir -p "$folder"
. bench/vllm/env.sh

python3 "bench/vllm/$script" "$folder" "$@" 2>&1 | tee "$folder/log.txt" | grep -vE '^\(?(INFO|DEBUG|.*\[Gloo\])'
status=${PIPESTATUS[0]}
cp "${XDG_RUNTIME_DIR:-/tmp}"/croupier-private*/croupierd.log "$folder/" 2>/dev/null
for log in "$folder"/runtime-*/croupier-private*/croupierd.log; do
    [ ! -e "$log" ] || cp "$log" "$folder/croupierd-$(cut -d- -f2 <<<"${log#"$folder"/}" | cut -d/ -f1).log"
done
rm -rf "$folder/model"
[ "${KEEP_KERNELS:-1}" = 0 ] || keep_kernels "$folder/flashinfer.tar.xz"
exit "$status"
