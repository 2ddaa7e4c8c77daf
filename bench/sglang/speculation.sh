#!/usr/bin/env bash
# SGLang's speculation on one GPU, native and ours, in less than TOTAL seconds (speculation.py).
#     PACKED=FOLDER bench/sglang/speculation.sh OUT
# OUT gets speculation.json, what each part found, its log, and kernels.tar.xz with what was compiled here.
# PARTS, separated by commas, are all unless given; results of the others may lie in OUT already.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
out=$1 begun=$(date +%s) total=${TOTAL:-270}
mkdir -p "$out"
# shellcheck source=bench/sglang/env.sh
source bench/sglang/env.sh
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
end=$((begun + total - 12))
export LOCK=$here/lock START_BY=$((begun + total * 6 / 10)) DEADLINE=$((end - 15))
IFS=, read -ra parts <<<"${PARTS:-draws croupier,draws native,plain native,eagle native,eagle croupier}"
started=()
for part in "${parts[@]}"; do
    # shellcheck disable=SC2086
    timeout -k 5 $((end - $(date +%s))) python3 bench/sglang/speculation.py $part "$out" >"$out/${part/ /-}.log" 2>&1 &
    started+=($!)
done
for i in "${!parts[@]}"; do
    part=${parts[i]} status=0
    wait "${started[i]}" || status=$?
    grep -hE "^$part: " "$out/${part/ /-}.log"
    [ "$status" -eq 0 ] || { echo "$part: status $status" && tail -n 25 "$out/${part/ /-}.log"; }
done
python3 bench/sglang/speculation.py compare "$out"
status=$?
keep_kernels "$out/kernels.tar.xz"
exit $status
