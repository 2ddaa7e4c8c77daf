#!/usr/bin/env bash
# Shows what the slowest lean steps on a GPU host waited for. Run from the repository's root, with build/bundle made by
# `./dev bundle`.
#   [MIX=fixed-top-p] [BATCHES="32 64 256"] [STEPS=1000] [WAIT=spin] OUT=FOLDER bench/gpu/slow_steps.sh [SAMPLERS]
# Runs a daemon, the simulated engine and `croupier trace`; writes FOLDER/slow-steps.json and prints the slowest steps.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
bundle=$PWD/build/bundle samplers=${1:-12} out=${OUT:-bench/results} steps=${STEPS:-1000} mix=${MIX:-fixed-top-p}
[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
. bench/gpu/cublas.sh
mkdir -p "$out"
work=$(mktemp -d)
daemon=
end_daemon() {
    [ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; }
    daemon=
}
trap 'end_daemon; rm -rf "$work" "/dev/shm/slow-steps-$$"' EXIT
run() { "$bundle/run" "$bundle/bin/$1" "${@:2}"; }

cat >"$work/croupierd.yaml" <<END
instance: slow-steps
run_dir: $work
shm: {dir: /dev/shm/slow-steps-$$}
samplers: {count: $samplers, wait: ${WAIT:-spin}}
control: {endpoint: "ipc://$work/control.sock"}
metrics: {listen: "off"}
END
for batch in ${BATCHES:-32 64 256}; do
    "$bundle/run" "$bundle/bin/croupierd" --config "$work/croupierd.yaml" >"$work/log" 2>&1 &
    daemon=$!
    until grep -q 'ready: ' "$work/log"; do
        kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
        read -rt 0.1 <> <(:) || true
    done
    run croupier sim --endpoint "ipc://$work/control.sock" --writer cuda --json --verify never --wait spin --batch "$batch" \
        --in-flight 1 --mix "$mix" --transport lean --await-tokens --prompt-max 1024 --output-max "$steps" --steps "$steps" \
        >"$work/$batch.sim" 2>"$work/err" &
    engine=$!
    run croupier trace --instance slow-steps --shm-dir "/dev/shm/slow-steps-$$" --seconds "${SECONDS_TRACED:-9}" \
        -o "$work/$batch.trace" >/dev/null 2>&1
    wait "$engine" || { echo "$batch columns:" >&2; tail -n 3 "$work/err" >&2; }
    end_daemon
done
python3 bench/gpu/slow_steps.py "$work" "$out/slow-steps.json" "bench/gpu/slow_steps.sh $samplers"
