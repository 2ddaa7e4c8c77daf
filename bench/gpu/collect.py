#!/usr/bin/env python3
"""Combines the results of step_latency.sh or kills.sh with a description of the machine.

bench/gpu/collect.py FOLDER [torch.json] >result.json      FOLDER holds the runs' JSON, one file each
"""

import json
import os
import pathlib
import subprocess
import sys


def said(*command):
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def stolen_core_seconds():
    """CPU time stolen by the hypervisor since boot, which delays steps."""
    with open("/proc/stat") as stat:
        ticks = int(stat.readline().split()[8])
    return ticks / os.sysconf("SC_CLK_TCK")


def environment():
    processor = [
        line.split(":", 1)[1].strip()
        for line in open("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    return {
        "processor": processor[0],
        "cores": len(processor),
        "kernel": said("uname", "-r"),
        "stolen_core_seconds": stolen_core_seconds(),
        "gpus": (
            said(
                "nvidia-smi",
                "--query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max",
                "--format=csv,noheader",
            )
            or ""
        ).splitlines(),
    }


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    runs = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        runs[path.stem] = json.loads(path.read_text())
    result = {"environment": environment(), "runs": runs}
    if len(sys.argv) > 2 and pathlib.Path(sys.argv[2]).exists():
        result["torch"] = json.loads(pathlib.Path(sys.argv[2]).read_text())
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
