#!/usr/bin/env python3
"""The table of bench/gpu/beside_sampler.sh: beside_table.py FOLDER OUT.json SAMPLERS

FOLDER has lean-steps-tp1/ of the simulated engine and sampler.json of vLLM's.
"""

import json
import pathlib
import sys

import collect

work, out, samplers = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
native = {
    (each["mix"], each["columns"]): each["us"]
    for each in json.loads((work / "sampler.json").read_text())["results"]
}
rows = []
for path in sorted((work / "lean-steps-tp1").glob("fixed*-lean.json")):
    mix, columns, _ = path.stem.rsplit("-", 2)
    run = json.loads(path.read_text())
    row = {
        "mix": mix,
        "columns": int(columns),
        "croupier_us": run["hbm_to_hbm_us"],
        "decision_us": run["decision_us"],
        "verified": run["verified"],
        "mismatched": run["mismatched"],
        "vllm_us": native.get((mix, int(columns))),
    }
    if mix == "fixed":
        row["vllm_unseeded_us"] = native.get(("fixed-unseeded", int(columns)))
    rows.append(row)
print(
    "| requests | columns | Croupier, p50 / p99 us | vLLM | vLLM, unseeded |\n| --- | --- | --- | --- | --- |"
)
for row in sorted(rows, key=lambda row: (row["mix"], row["columns"])):
    words = [
        f"{us['p50']:.0f} / {us['p99']:.0f}" if us else ""
        for us in (row["croupier_us"], row["vllm_us"], row.get("vllm_unseeded_us"))
    ]
    print(f"| {row['mix']} | {row['columns']} | " + " | ".join(words) + " |")
result = {
    "command": f"bench/gpu/beside_sampler.sh {samplers}",
    "environment": collect.environment(),
    "results": rows,
}
pathlib.Path(out).write_text(json.dumps(result, indent=1))
