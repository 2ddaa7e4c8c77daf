#!/usr/bin/env bash
# Compares two builds on a host with many cores. Run from the repository's root, with build/bundle made by
# `./dev bundle`, and croupier and croupierd of the previous build in build/bundle/old.
#   OUT=FOLDER bench/gpu/before_and_after.sh
set -uo pipefail
cd "$(dirname "$0")/../.."
run=$PWD/build/bundle/run
out=${OUT:-bench/results}
mkdir -p "$out"
exec > >(tee "$out/before-and-after.txt") 2>&1
date -u; nproc; grep -m1 'model name' /proc/cpuinfo
old=$PWD/build/bundle/old/croupier new=$PWD/build/bundle/bin/croupier

timeout 60 "$run" "$new" sim --tp 2 --batch 32 --steps 300 --vocab 4096 --samplers 3 --prompt-max 512 --chaos samplers --kills 5 --seed 7 --json \
    >/tmp/sim.json 2>/tmp/sim.err
echo "sim: status $?, $(grep -oE '"(ok|verified|mismatched|lost|duplicated|kills|wall_s)":[a-z0-9.]*' /tmp/sim.json | tr '\n' ' ')"
tr '\r' '\n' </tmp/sim.err | tail -n 3

middle() { python3 -c "
import json,sys
def walk(x, path=''):
    if isinstance(x, dict):
        for k, v in x.items(): yield from walk(v, path + '/' + k)
    elif isinstance(x, list):
        for i, v in enumerate(x): yield from walk(v, path + '/' + str(v.get('case', v.get('name', i)) if isinstance(v, dict) else i))
    elif isinstance(x, (int, float)): yield path, x
for path, x in walk(json.load(sys.stdin)):
    # Decisions relative to plain reads in the same run, because the host's clock varies.
    if path.endswith('/ratio') or 'p50' in path and 'cases' not in path: print(path, x)"; }
for round in 1 2 3 4 5 6 7 8 9 10; do
    for which in old new; do
        timeout 40 "$run" "${!which}" bench ipc --rounds 10000 --json 2>/dev/null | middle >"/tmp/ipc-$which-$round"
    done
done
for round in 1 2 3 4 5; do
    for which in old new; do
        timeout 60 "$run" "${!which}" bench decide --generated 8 --rounds 10 --json 2>/dev/null | middle >"/tmp/decide-$which-$round"
    done
done
python3 - <<'END'
import glob, statistics
for kind in ('ipc', 'decide'):
    runs = {}
    for which in ('old', 'new'):
        for name in glob.glob(f'/tmp/{kind}-{which}-*'):
            for line in open(name):
                path, x = line.rsplit(' ', 1)
                runs.setdefault(path, {}).setdefault(which, []).append(float(x))
    ratios = []
    for path, x in sorted(runs.items()):
        if not x.get('old') or not x.get('new') or statistics.median(x['old']) == 0: continue
        ratio = statistics.median(x['new']) / statistics.median(x['old'])
        ratios.append(ratio)
        print(kind, path, 'old', x['old'], 'new', x['new'], f'{ratio:.3f}')
    if ratios: print(kind, 'median ratio', statistics.median(ratios), 'largest', max(ratios))
END
