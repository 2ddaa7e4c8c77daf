#!/usr/bin/env bash
# How a step's decisions scale with samplers on a GPU host's processor, with the writers' summaries and without:
# from the repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FILE bench/gpu/scaling.sh [SAMPLERS...]     default: 1 2 4 8 14, into bench/results/scaling.json
# Decisions are verified after the serving, so that nothing but the scheduler and the writer shares the cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-bench/results/scaling.json}
[ -x build/bundle/run ] || { echo "there is no build/bundle: make it with ./dev bundle" >&2; exit 1; }
runs=$(mktemp)
trap 'rm -f "$runs"' EXIT
[ $# -gt 0 ] || set -- 1 2 4 8 14
for summaries in "" --summaries; do
    for samplers in "$@"; do
        build/bundle/run croupier sim --samplers "$samplers" $summaries --mix fixed --batch 256 --steps 48 \
            --output-max 48 --prompt-max 512 --wait spin --verify after --timeout-s 120 --json | tail -n 1 >>"$runs"
    done
done
python3 - "$runs" >"$out" <<'END'
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
model = next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
print(json.dumps({"what": "bench/gpu/scaling.sh", "processor": model, "runs": runs}))
END
echo "$out"
