#!/usr/bin/env bash
# Windows on one GPU: from the repository's root, with build/bundle of `./dev bundle` and the wheel of `./dev wheel`.
#     bench/windows/gpu.sh OUT
# PARTS: tests (the writer's tests of windows), sim (the simulated engine, in both transports, with graphs, copied rows and
# kills: every token is verified, and the streams are those without drafts), python (the tests of python/tests/gpu_test.py), steps
# (microseconds from logits to tokens, steps-WAIT.json) and sanitizer (the tests of windows under compute-sanitizer).
# WINDOWS, DRAFTS, KINDS, SAMPLERS, WAITS, ROUNDS and PYTHON change what is measured and how. The status is how many parts failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -eq 1 ] || { sed -n 2,9p bench/windows/gpu.sh >&2; exit 2; }
out=$1 parts=${PARTS:-tests,sim,python,steps,sanitizer} samplers=${SAMPLERS:-12}
run=$PWD/build/bundle/run failures=0
mkdir -p "$out"
. bench/gpu/cublas.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
readonly TESTS='*windows*,what a GPU sends of a window*,a window*row*'

wants() { [[ ,$parts, == *,$1,* ]]; }
say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
# part NAME SECONDS COMMAND...: with its output in OUT/NAME.log.
part() {
    timeout "$2" "${@:3}" >"$out/$1.log" 2>&1 && return
    failures=$((failures + 1))
    say "$1 failed"
    tail -n 12 "$out/$1.log"
}
# sim NAME OPTIONS...: its streams must be those of the transport's first run: lean steps lack an rng that some requests have
# with whole rows.
sim() {
    part "$1" 90 "$run" croupier sim --writer cuda --samplers "$samplers" --batch 32 --in-flight 1 --prompt-max 512 \
        --output-max 64 --steps 120 --json --streams-out "$place/$1" "${@:2}"
    python3 - "$out/$1.log" "$place/$1" <<'END' || tail -n 3 "$out/$1.log"
import hashlib, json, pathlib, sys
r = json.loads(pathlib.Path(sys.argv[1]).read_text().splitlines()[-1])
streams = hashlib.sha256(pathlib.Path(sys.argv[2]).read_bytes()).hexdigest()[:12]
print(f"    {pathlib.Path(sys.argv[1]).stem:>24}: {streams}, {r['verified']} of {r['tokens']} verified, {r['mismatched']} differ, "
      f"{r['lost']} lost, {r['duplicated']} doubled, {r['kills']} kills; {r.get('fault', 'sound')}")
END
    [ -e "$place/${1%%-*}" ] || cp "$place/$1" "$place/${1%%-*}"
    cmp -s "$place/$1" "$place/${1%%-*}" && return
    failures=$((failures + 1))
    say "$1: other streams"
}

if wants tests; then
    say "the writer's tests of windows"
    CROUPIER_TEST_GPU=required part tests 200 "$run" test_gpu_writer "$TESTS"
    tail -n 3 "$out/tests.log"
fi
if wants sim; then
    for transport in rows lean; do
        say "the simulated engine, $transport"
        options=(--transport "$transport")
        sim "$transport-plain" "${options[@]}"
        sim "$transport-draft" "${options[@]}" --draft 5
        sim "$transport-graphs" "${options[@]}" --draft 5 --graphs
        sim "$transport-kills" "${options[@]}" --draft 5 --chaos writer --kills 4
        sim "$transport-samplers" "${options[@]}" --draft 5 --chaos samplers --kills 12
    done
    sim lean-copied --transport lean --draft 5 --rows copied
fi
if wants python || wants steps; then
    . bench/gpu/venv.sh
fi
if wants python; then
    say "python/tests/gpu_test.py"
    CROUPIER_TEST_GPU=required part python 200 "$venv_python" -m pytest -q python/tests/gpu_test.py
    tail -n 2 "$out/python.log"
fi
if wants steps; then
    for wait in ${WAITS:-spin adaptive}; do
        say "microseconds, samplers.wait: $wait"
        PYTHONPATH=bench/vllm:bench/verified part "steps-$wait" 200 "$venv_python" bench/windows/gpu_steps.py \
            "$out/steps-$wait.json" --windows "${WINDOWS:-1,8,64,256}" --drafts "${DRAFTS:-4}" --kinds "${KINDS:-full}" \
            --samplers "$samplers" --wait "$wait" --rounds "${ROUNDS:-14}"
        cat "$out/steps-$wait.log"
    done
fi
if wants sanitizer; then
    say "compute-sanitizer"
    checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    CROUPIER_TEST_GPU=required part sanitizer 400 "$run" "$checker" --error-exitcode 9 build/bundle/bin/test_gpu_writer \
        "*windows*"
    tail -n 3 "$out/sanitizer.log"
fi
say "$failures part(s) failed; results are in $out"
exit "$failures"
