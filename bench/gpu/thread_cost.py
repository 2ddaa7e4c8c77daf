#!/usr/bin/env python3
"""What the two threads of a rank's writer cost beside a forward pass: processor time of each, in percent of a core.

bench/gpu/thread_cost.py BUNDLE [STAGE_MS] [OPTION...]      on a GPU host; options go to croupier sim
"""

import json
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 4
THREADS = ("croupier-watch", "croupier-tokens")


def children_of(pid):
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def threads_of(engine):
    """The writers' threads, as folders of /proc with their names."""
    found = {}
    for pid in children_of(engine):
        for task in Path(f"/proc/{pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            if name in THREADS:
                found[task] = name
    return found


def busy_seconds(task):
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def main(bundle, stage="10", *options):
    command = f"{bundle}/run croupier sim --writer cuda --transport lean --batch 64 --in-flight 1 --await-tokens".split()
    command += f"--mix fixed --stage-ms {stage} --steps 1500 --output-max 1600 --prompt-max 64 --verify never".split()
    engine = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.time() + 40
        while len(set(threads_of(engine.pid).values())) < len(THREADS):
            if time.time() > deadline or engine.poll() is not None:
                print("no writer's threads appeared", file=sys.stderr)
                return 1
            time.sleep(0.5)
        time.sleep(3)
        threads = threads_of(engine.pid)
        before = {task: busy_seconds(task) for task in threads}
        time.sleep(SECONDS)
        costs = [
            {"thread": name, "percent_of_a_core": round(100 * (busy_seconds(task) - before[task]) / SECONDS, 2)}
            for task, name in threads.items()
        ]
    finally:
        engine.terminate()
        engine.wait()
    print(json.dumps({"stage_ms": stage, "options": options, "threads": costs}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
