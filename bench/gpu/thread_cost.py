#!/usr/bin/env python3
"""What the threads of a rank's writer cost beside a forward pass: processor time of each, in percent of a core.

bench/gpu/thread_cost.py BUNDLE [STAGE_MS] [OPTION...]      on a GPU host; options go to croupier sim
"""

import json
import os
import subprocess
import sys
import time

SECONDS = 4


def children_of(pid):
    found = [pid]
    for parent in found:
        with open(f"/proc/{parent}/task/{parent}/children") as children:
            found += [int(child) for child in children.read().split()]
    return found


def times_of(pid):
    """Of each thread, seconds of processor time."""
    times = {}
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
                times[int(thread)] = int(stat.read().split()[0]) / 1e9
    except OSError:
        pass
    return times


def uses_gpu(pid):
    try:
        return any("nvidia" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def main(bundle, stage="10", *options):
    command = f"{bundle}/run croupier sim --writer cuda --transport lean --batch 64 --in-flight 1 --await-tokens".split()
    command += f"--mix fixed --stage-ms {stage} --steps 1500 --output-max 1600 --prompt-max 64 --verify never".split()
    engine = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    writers, deadline = [], time.time() + 40
    while not writers and time.time() < deadline and engine.poll() is None:
        time.sleep(0.5)
        writers = [pid for pid in children_of(engine.pid) if uses_gpu(pid) and len(times_of(pid)) > 2]
    time.sleep(3)
    before = {pid: times_of(pid) for pid in writers}
    time.sleep(SECONDS)
    costs = {
        pid: sorted(
            (
                round(100 * (after - before[pid].get(thread, after)) / SECONDS, 2)
                for thread, after in times_of(pid).items()
            ),
            reverse=True,
        )
        for pid in writers
    }
    engine.terminate()
    engine.wait()
    print(
        json.dumps({"bundle": bundle, "stage_ms": stage, "percent_of_a_core_by_thread": list(costs.values())})
    )
    return 0 if writers else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
