#!/usr/bin/env bash
# slots_turns.sh NATIVE OURS MODEL.gguf OUT.txt: both builds of slots.cpp by turns, three rounds, in lines of JSON; then the
# median of each kind's milliseconds of sampling a step. KINDS and SLOTS choose, CROUPIER_SLOT_THREADS limits our pool.
set -euo pipefail
native=$1 ours=$2 model=$3 out=$4
for slots in ${SLOTS:-1 8 32}; do
    for kind in ${KINDS:-greedy default all all-no-top-k mirostat mixed}; do
        for _ in 1 2 3; do
            for which in native ours; do
                "${!which}" "$model" "$kind" "$slots" "${STEPS:-12}" | sed "s/^{/{\"which\": \"$which\", /" >>"$out"
            done
        done
    done
done
python3 - "$out" <<'END'
import collections, json, statistics, sys

runs = collections.defaultdict(list)
for line in map(json.loads, open(sys.argv[1])):
    runs[line["slots"], line["kind"], line["which"]].append(line)
for slots, kind, which in list(runs):
    if which == "ours":
        continue
    native, ours = (runs[slots, kind, each] for each in ("native", "ours"))
    sampling = [statistics.median(line["sampling_ms"] for line in lines) for lines in (native, ours)]
    rates = [statistics.median(line["tokens_per_second"] for line in lines) for lines in (native, ours)]
    same = len({line["hash"] for line in ours}) == 1
    print(f"{slots:2} slots, {kind:12}: sampling {sampling[0]:8.2f} -> {sampling[1]:6.2f} ms a step, "
          f"{rates[0]:6.1f} -> {rates[1]:6.1f} tokens/s; tokens of ours in each round: {'equal' if same else 'DIFFER'}")
END
