#!/usr/bin/env bash
# Kills processes on a GPU host and verifies every token. Run from the repository's root, with build/bundle made by
# `./dev bundle`.
#   OUT=FOLDER bench/gpu/kills.sh [TP]     raw results go to FOLDER (default: bench/results)
# The exit status is the number of failed runs.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
tp=${1:-1}
out=${OUT:-bench/results}
failures=0

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out/kills-tp$tp"
. bench/gpu/cublas.sh

# chaos WHAT KILLS STEPS
chaos() {
    local result=$out/kills-tp$tp/$1.json
    "$bundle/run" croupier sim --writer cuda --tp "$tp" --batch 32 --in-flight 2 --mix mixed --samplers 4 --summaries \
        --randoms ring --order random --prompt-max 512 --output-max 64 --steps "$3" --chaos "$1" --kills "$2" --json \
        >"$result" 2>"$result.err" || failures=$((failures + 1))
    python3 - "$result" "$1" <<'END' || tail -n 3 "$result.err"
import json, sys
r = json.load(open(sys.argv[1]))
print(f"{sys.argv[2]:>9}: {r['kills']} kills, {r['verified']} of {r['tokens']} tokens verified, {r['mismatched']} differ, "
      f"{r['lost']} lost, {r['duplicated']} doubled, {r['unfinished']} unfinished, {r['left_in_shm']} files left; {r.get('fault', 'sound')}")
END
}

chaos samplers 20 600
chaos writer 4 300
chaos client 6 300
chaos daemon 3 300
bench/gpu/collect.py "$out/kills-tp$tp" >"$out/kills-tp$tp.json"
echo "$failures run(s) failed; results are in $out"
exit "$failures"
