#!/usr/bin/env bash
# One GPU: whether the plugin works with a release of vLLM, in less than 400 seconds.
#     [RELEASE=0.33.0] bench/vllm/release_proof.sh OUT
# Needs build/vllm/croupier.tar.xz and build/vllm/vllm-RELEASE.tar.xz (package.sh), and no tokenizer. Ends with 1 where
# a part failed or found a difference. OUT gets plan.txt, noise.json, summary.json of both engines, and
# results.tar.xz with all logs.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/release_proof.sh >&2; exit 2; }
out=$1 total=${TOTAL:-400}
. bench/vllm/parts.sh
cat <<END | tee "$out/plan.txt"
The plan of release_proof.sh, $total seconds:
  1  up to 100 s  noise    10^5 seeded draws of vLLM's kernel, and by rng vllm: 0 differ but by rounding (0.33 on)
  2  up to 130 s  engine   1.5B shape, 4 layers: 64 greedy sequences equal to native's, five kinds timed beside it,
                           and 20,000 decisions of mixed requests made again: 0 differ
  3  up to 150 s  apart    the same engine with its core and its worker in processes of their own, as a server has it
END
. bench/vllm/env.sh
say "unpacked: vLLM $release"
small=(--size 1.5b --layers 4 --memory 0.25 --cache-gib 6)
failed=0

# proven NAME: the part has ended by itself with 0, or it is named.
proven() {
    grep -q "$1: ended with 0$" "$out/plan.txt" && return
    say "NOT PROVEN: $1"
    failed=1
}

if [ "$release" != 0.26.0 ]; then
    part noise 100 40 noise.py --allow-near
    cp "$work/noise/noise.json" "$out/" 2>/dev/null
    proven noise
fi
part engine 130 60 decode.py "${small[@]}" --batches 64 --kinds greedy,full,full_unseeded,logprobs20,mixed --steps 40 \
    --equal 64 --equal-tokens 64 --decisions 20000
cp "$work/engine/summary.json" "$out/summary.json" 2>/dev/null
proven engine
part apart 150 90 decode.py "${small[@]}" --core-process --worker-process --batches 64 --kinds greedy,mixed --steps 40 \
    --equal 64 --equal-tokens 32 --sides native,croupier --one-at-a-time
cp "$work/apart/summary.json" "$out/summary-apart.json" 2>/dev/null
proven apart
python3 - "$out" <<'END' || failed=1
import json, pathlib, sys

folder, wrong = pathlib.Path(sys.argv[1]), 0
for name in ("summary.json", "summary-apart.json"):
    file = folder / name
    found = json.loads(file.read_text()) if file.exists() else {}
    verify = found.get("verify") or {}
    counts = {
        "errors": len(found.get("errors") or ()) if found else "no summary",
        "greedy sequences": found.get("greedy_sequences"),
        "that differ": found.get("greedy_sequences_that_differ"),
        "decisions made again": verify.get("verified"),
        "decisions that differ": verify.get("differ"),
    }
    print(f"{name}: {counts}")
    wrong += counts["errors"] != 0 or bool(verify.get("differ")) or not found.get("greedy_sequences")
    wrong += bool(found.get("greedy_sequences_that_differ"))
    wrong += name == "summary.json" and not verify.get("verified")
sys.exit(1 if wrong else 0)
END
finish
[ "$failed" = 0 ] && say "PROVEN: the plugin with vLLM $release"
exit "$failed"
