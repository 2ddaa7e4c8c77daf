#!/usr/bin/env bash
# The lean transport on a GPU host, beside whole rows: from the repository's root, with build/bundle made by
# `./dev bundle`.
#   OUT=FOLDER bench/gpu/lean_steps.sh [TP] [SAMPLERS]     raw results go to FOLDER (default: bench/results)
# First the writer's tests on the GPU and the kernels' own times, then steps from the logits in a GPU's memory to the
# tokens there: every token is verified against the reference after each run. PARTS: tests, kernels, steps, chaos.
# AWAIT=1: the stream waits for the tokens, as the plugin's does; else a thread of the engine's fetches them.
# TRANSPORTS: rows, lean, and copied: lean steps whose rows the writer copies and the engine writes over at once.
# CHAOS_TRANSPORT: of the kills (default: lean). OPTIONS: of all runs, such as --masked.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
bundle=${BUNDLE:-$PWD/build/bundle}
tp=${1:-1} samplers=${2:-14}
out=${OUT:-bench/results} steps=${STEPS:-160}
parts=${PARTS:-tests,kernels,steps,chaos}
failures=0

[ -x "$bundle/run" ] || { echo "there is no $bundle: make it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out/lean-steps-tp$tp"
. bench/gpu/cublas.sh
wants() { [[ ,$parts, == *,$1,* ]]; }
say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }

# line FILE NAME: of a run of the simulated engine.
line() {
    python3 - "$1" "$2" <<'END' || tail -n 3 "$1.err"
import json, sys
r = json.load(open(sys.argv[1]))
gpu = r.get("hbm_to_hbm_us") or {"p50": 0, "p99": 0}
print(f"{sys.argv[2]:>32}: GPU p50 {gpu['p50']:8.1f} p99 {gpu['p99']:8.1f} us, decisions p50 {r['decision_us']['p50']:7.1f} "
      f"p99 {r['decision_us']['p99']:7.1f}, {r['verified']} of {r['tokens']} verified, {r['mismatched']} differ, "
      f"{r['lost']} lost, {r['kills']} kills, {r['left_in_shm']} left; {r.get('fault', 'sound')}")
END
}
way_of() {
    case $1 in
        copied) echo --transport lean --rows copied ;;
        *) echo --transport "$1" ;;
    esac
}
# sim NAME SECONDS OPTIONS...
sim() {
    local result=$out/lean-steps-tp$tp/$1.json
    # shellcheck disable=SC2086
    timeout "$2" "$bundle/run" croupier sim --writer cuda --tp "$tp" --samplers "$samplers" --json ${OPTIONS:-} "${@:3}" >"$result" \
        2>"$result.err" || failures=$((failures + 1))
    line "$result" "$1"
}

if wants tests; then
    say "the writer's tests"
    CROUPIER_TEST_GPU=required timeout 100 "$bundle/run" test_gpu_writer "*lean*" >"$out/lean-steps-tp$tp/tests.log" 2>&1 ||
        failures=$((failures + 1))
    tail -n 12 "$out/lean-steps-tp$tp/tests.log"
fi
if wants kernels; then
    say "the kernels"
    timeout 80 "$bundle/run" croupier bench lean --json >"$out/lean-steps-tp$tp/kernels.log" 2>&1 || failures=$((failures + 1))
    tail -c 3000 "$out/lean-steps-tp$tp/kernels.log"
fi
if wants steps; then
    for mix in ${MIXES:-fixed fixed-temperature fixed-top-p}; do
        for batch in ${BATCHES:-1 8 64 256}; do
            for transport in ${TRANSPORTS:-rows lean}; do
                say "$mix, $batch columns, $transport"
                options=()
                [ "$transport" != rows ] || options=(--summaries)
                [ -z "${AWAIT:-}" ] || options+=(--await-tokens)
                read -ra way <<<"$(way_of "$transport")"
                sim "$mix-$batch-$transport" 60 --batch "$batch" --in-flight 1 --mix "$mix" --wait spin "${way[@]}" \
                    "${options[@]}" --prompt-max 1024 --output-max "$steps" --steps "$steps" --verify after
            done
        done
    done
fi
if wants chaos; then
    for what in "samplers 20 400" "writer 4 240" "client 6 240" "daemon 3 240"; do
        read -r kind kills some <<<"$what"
        say "$kills kills: $kind"
        read -ra way <<<"$(way_of "${CHAOS_TRANSPORT:-lean}")"
        # Supplied randoms and orders belong to whole rows.
        [ "${CHAOS_TRANSPORT:-lean}" != rows ] || way+=(--randoms ring --order random)
        sim "chaos-$kind" 60 "${way[@]}" --batch 32 --in-flight 2 --mix mixed \
            --prompt-max 512 --output-max 64 --steps "$some" --chaos "$kind" --kills "$kills"
    done
fi
bench/gpu/collect.py "$out/lean-steps-tp$tp" >"$out/lean-steps-tp$tp.json"
say "$failures part(s) failed; results are in $out"
exit "$failures"
