#!/usr/bin/env python3
"""The number of columns of the busiest sampler in full steps, from a file of `croupier trace`.

Usage: bench/plan/busiest.py TRACE.json. An even share is the batch over the samplers, rounded up. A
sampler that keeps its sequences may have 25 % more plus one (daemon/worker/step_shares.h), and takes over columns
of a late sampler.
"""

import collections
import json
import statistics
import sys

if len(sys.argv) != 2:
    sys.exit(__doc__)
by_step = collections.defaultdict(collections.Counter)
with open(sys.argv[1]) as file:
    for event in json.load(file)["traceEvents"]:
        if event.get("ph") == "X" and "column" in event.get("args", {}):
            by_step[event["args"]["step"]][event["tid"]] += 1
if not by_step:
    sys.exit(f"{sys.argv[1]} has no column")
batch = max(shares.total() for shares in by_step.values())
full = [shares for shares in by_step.values() if shares.total() == batch]
samplers = len({sampler for shares in full for sampler in shares})
busiest = [max(shares.values()) for shares in full]
even = -(-batch // samplers)
print(f"{len(full)} steps of {batch} columns, {samplers} samplers")
print(f"an even share is {even} columns; the largest share is {even + even // 4 + 1}")
print(f"the busiest sampler has {statistics.median(busiest):g} columns (median)")
for columns, steps in sorted(collections.Counter(busiest).items()):
    print(f"  {columns:4} columns in {steps} steps")
