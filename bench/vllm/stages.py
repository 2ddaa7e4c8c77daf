"""Where a private daemon's time goes while something runs: differences of what `croupier status` counts."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

_COUNTERS = ("columns_decided", "column_delay_ns", "block_requests")


def totals() -> Counter[str]:
    """Of all samplers and sessions of this user's private daemon; nothing where there is none."""
    from croupier._programs import program_path
    from croupier.serving.place import default_directory
    from croupier.serving.private_daemon import names_in

    found: Counter[str] = Counter()
    names = names_in(default_directory())
    if names is None:
        return found
    asked = [str(program_path("croupier")), "status", "--json", "-i", names.instance]
    said = subprocess.run([*asked, "--shm-dir", names.shm_dir], capture_output=True, text=True)
    if said.returncode != 0:
        return found
    status = json.loads(said.stdout)
    for sampler in status["samplers"]:
        for stage, of in sampler["stages"].items():
            found[f"{stage}_count"] += of["count"]
            found[f"{stage}_us"] += of["sum_seconds"] * 1e6
    for session in status["sessions"]:
        for name in _COUNTERS:
            found[name] += session["counters"][name]
    return found


def per_column(before: Counter[str], after: Counter[str]) -> dict[str, Any]:
    """Microseconds from the logits to the decision's begin and its length, and block requests, each a column.

    `step_us` is from the logits to the last sampler's last decision, a step.
    """
    passed = {name: after[name] - before[name] for name in after}
    columns = passed.get("columns_decided", 0)
    if not columns:
        return {}
    return {
        "delay_us": round(passed["column_delay_ns"] / 1000 / columns, 1),
        "decide_us": round(passed["decide_us"] / columns, 2),
        "block_requests": round(passed["block_requests"] / columns, 3),
        "step_us": round(passed["step_us"] / max(passed["step_count"], 1), 1),
    }
