#!/usr/bin/env bash
# A GPU that could send lean steps beside one that has no memory for them, in a session that asks for no transport: from
# the repository's root on a host with two GPUs, with build/bundle made by `./dev bundle`, and with PyTorch, which takes
# the second GPU's memory but for 2.2 GB. Every token is verified, and no `wishes` beside them say that both send rows.
#   OUT=FOLDER bench/gpu/differing_ranks.sh [SAMPLERS]     raw results go to FOLDER (default: bench/results)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
bundle=${BUNDLE:-$PWD/build/bundle} samplers=${1:-12} out=${OUT:-bench/results}/differing-ranks failures=0
[ -x "$bundle/run" ] || { echo "there is no $bundle: make it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"
# shellcheck source=bench/gpu/cublas.sh
. bench/gpu/cublas.sh

coproc holder {
    exec python3 - <<'END'
import signal, torch
free = torch.cuda.mem_get_info(1)[0]
held = torch.empty(free - 2_200_000_000, dtype=torch.uint8, device="cuda:1")
print(len(held), flush=True)
signal.pause()
END
}
read -r held <&"${holder[0]}" || { echo "PyTorch holds no memory of a second GPU" >&2; exit 1; }
echo "of the second GPU $held bytes are held"

# sim NAME OPTIONS...
sim() {
    timeout 90 "$bundle/run" croupier sim --writer cuda --tp 2 --samplers "$samplers" --json --transport auto \
        --rows copied --batch 512 --verify after "${@:2}" >"$out/$1.json" 2>"$out/$1.err" || failures=$((failures + 1))
    python3 - "$out/$1.json" "$1" <<'END' || tail -n 3 "$out/$1.err"
import json, sys
r = json.load(open(sys.argv[1]))
print(f"{sys.argv[2]:>16}: {r['verified']} of {r['tokens']} verified, {r['mismatched']} differ, {r['lost']} lost, "
      f"{r['kills']} kills, {r['wishes']} wishes; {r.get('fault', 'sound')}")
END
}
sim fixed --in-flight 1 --mix fixed --steps 30 --output-max 30 --prompt-max 300
sim mixed --in-flight 1 --mix mixed --steps 20 --output-max 20 --prompt-max 300
sim killed-writers --in-flight 1 --mix mixed --steps 40 --output-max 20 --prompt-max 200 --chaos writer --kills 4
sim killed-samplers --in-flight 1 --mix mixed --steps 40 --output-max 20 --prompt-max 200 --chaos samplers --kills 12
# shellcheck disable=SC2154
kill "$holder_PID"
wait
bench/gpu/collect.py "$out" >"$out.json"
echo "$failures part(s) failed; results are in $out"
exit "$failures"
