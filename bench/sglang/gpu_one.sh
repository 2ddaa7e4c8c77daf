#!/usr/bin/env bash
# SGLang on one GPU or more, native and with Croupier: tokens, and times of steps.
#     [PARTS=tokens,steps,seeds] [FLAGS=JSON] PACKED=FOLDER bench/sglang/gpu_one.sh OUT
# tokens: mixed decisions made again by the reference, and greedy tokens of both sides. steps: times of all kinds.
# seeds: those of requests with seeds, natively with --enable-deterministic-inference. FLAGS are SGLang's, as
# {"tp_size": 2}. OUT gets kernels.tar.xz with what was compiled here. STEPS_TIME is what a side's times may take.
# The status is how many runs failed or found a difference.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
out=$1 parts=${PARTS:-tokens,steps} flags=${FLAGS:-'{}'} failures=0
mkdir -p "$out"
# shellcheck source=bench/sglang/env.sh
source bench/sglang/env.sh
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

wants() { [[ ,$parts, == *,$1,* ]]; }
# start NAME SECONDS COMMAND...: in the background, its output in OUT/NAME.log.
declare -A started=()
start() {
    timeout -k 5 "$2" "${@:3}" >"$out/$1.log" 2>&1 &
    started[$1]=$!
}
# ended NAME PATTERN: waits for it, and shows the lines that match.
ended() {
    local status=0
    wait "${started[$1]}" || status=$?
    printf '[%3d s] %s: %d\n' "$SECONDS" "$1" "$status"
    grep -hE "$2" "$out/$1.log"
    [ "$status" -eq 0 ] && return
    failures=$((failures + 1))
    tail -n 25 "$out/$1.log"
}
with() { python3 -c 'import json, sys; print(json.dumps({k: v for text in sys.argv[1:] for k, v in json.loads(text).items()}))' "$@"; }
# both NAME [VARIABLE=VALUE...]: the times of both sides, whose engines start at the same time.
both() {
    local name=$1 side
    shift
    export LOCK=$here/lock-$name START_BY=$(($(date +%s) + ${STEPS_TIME:-80} + 100)) TOTAL=${STEPS_TIME:-80}
    FLAGS=$(with "$small" '{"mem_fraction_static": 0.6, "max_total_tokens": 60000}' "$flags" "$1") start "$name-native" 270 \
        env "${@:2}" python3 bench/sglang/steps.py native "$out/$name-native.json"
    FLAGS=$(with "$small" '{"mem_fraction_static": 0.6, "max_total_tokens": 60000}' "$flags") start "$name-croupier" 270 \
        env "${@:2}" python3 bench/sglang/steps.py croupier "$out/$name-croupier.json"
    for side in native croupier; do ended "$name-$side" "^$side"; done
}
small='{"max_running_requests": 256}'
if wants tokens; then
    # Three engines at once, so each takes little memory.
    export FLAGS
    FLAGS=$(with "$small" '{"mem_fraction_static": 0.5, "max_total_tokens": 120000}' "$flags")
    start verify "${VERIFY_TIME:-150}" env VOCAB="${VERIFY_VOCAB:-32000}" python3 bench/sglang/verify.py "$out/verify.json"
    for side in native croupier; do start "$side" 150 python3 bench/sglang/smoke.py "$out/$side.json" $side; done
    for side in native croupier; do ended $side "^$side:|Croupier decides"; done
    python3 bench/sglang/compare.py "$out/native.json" "$out/croupier.json" || failures=$((failures + 1))
    ended verify 'Croupier decides'
    head -c 400 "$out/verify.json"
    python3 -c 'import json, sys; found = json.load(open(sys.argv[1])); sys.exit(not found["verified"] or found["differ"] > 0)' \
        "$out/verify.json" || failures=$((failures + 1))
fi
! wants steps || both steps '{}'
! wants seeds || both seeds '{"enable_deterministic_inference": true}' KINDS=seeded
keep_kernels "$out/kernels.tar.xz"
exit "$failures"
