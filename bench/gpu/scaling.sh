#!/usr/bin/env bash
# Measures how decisions scale with samplers on a GPU host's processor, with and without summaries. Run from the
# repository's root, with build/bundle made by `./dev bundle`.
#   OUT=FILE ROWS=FILE bench/gpu/scaling.sh [SAMPLERS...]     default: 1 2 4 8 14, into bench/results/scaling.json
# With ROWS, a file with bf16 rows, also measures the same decisions in independent processes, which shows the loss of
# the processor itself. Tokens are verified after serving, so that verifiers do not compete for cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-bench/results/scaling.json}
[ -x build/bundle/run ] || { echo "cannot find build/bundle: create it with ./dev bundle" >&2; exit 1; }
work=$(mktemp -d)
runs=$work/runs
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- 1 2 4 8 14
for summaries in "" --summaries; do
    for samplers in "$@"; do
        build/bundle/run croupier sim --samplers "$samplers" $summaries --mix fixed --batch 256 --steps 48 \
            --output-max 48 --prompt-max 512 --wait spin --verify after --timeout-s 120 --json | tail -n 1 >>"$runs"
    done
done
for processes in "$@"; do
    [ -n "${ROWS:-}" ] || break
    for one in $(seq "$processes"); do
        taskset -c $((one - 1)) build/bundle/run croupier bench decide --rows "$ROWS" --cases full --rounds 40 --json \
            >"$work/alone-$processes-$one" 2>"$work/errors" &
    done
    wait
done
python3 - "$work" >"$out" <<'END'
import glob, json, sys
work = sys.argv[1]
runs = [json.loads(line) for line in open(work + "/runs")]
apart = {}
for path in glob.glob(work + "/alone-*"):
    full = json.load(open(path))["cases"]["full"]
    times = apart.setdefault(path.split("-")[-2], {"plain_p50_us": [], "summaries_p50_us": []})
    times["plain_p50_us"].append(full["p50_us"])
    times["summaries_p50_us"].append(full["summaries"]["p50_us"])
model = next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
print(json.dumps({"what": "bench/gpu/scaling.sh", "processor": model, "runs": runs,
                  "processes_that_share_nothing": apart}))
END
echo "$out"
