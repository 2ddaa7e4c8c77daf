"""Whether SGLang starts and generates: smoke.py OUT.json [SIDE], SIDE native (the default) or croupier.

Greedy tokens of 256 sequences go to OUT.json, for compare.py.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    out, side = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "native"
    from engines import engine, prompts

    start = time.monotonic()
    options = json.loads(os.environ.get("OPTIONS", "{}")) if side == "croupier" else None
    server = engine(os.environ.get("SHAPE", "small"), options)
    print(f"{side}: started after {time.monotonic() - start:.0f} s", flush=True)
    greedy = {"temperature": 0.0, "max_new_tokens": 64, "ignore_eos": True}
    start = time.monotonic()
    answers = server.generate(input_ids=prompts(256), sampling_params=greedy)
    print(f"{side}: 256 greedy sequences of 64 tokens in {time.monotonic() - start:.1f} s", flush=True)
    with open(out, "w") as file:
        json.dump([answer["output_ids"] for answer in answers], file)
    start = time.monotonic()
    mixed = {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "max_new_tokens": 16, "ignore_eos": True}
    server.generate(input_ids=prompts(8), sampling_params=mixed)
    print(f"{side}: top-k and top-p after {time.monotonic() - start:.1f} s", flush=True)
    if side == "croupier":
        try:
            server.generate(input_ids=[[1, 2, 3]], sampling_params={"custom_params": {"nonsense": 1}})
        except ValueError as error:
            print(f"croupier: refuses what it does not know: {str(error)[:60]}", flush=True)
        else:
            sys.exit("croupier: SGLang has started without the plugin")
    server.shutdown()


if __name__ == "__main__":
    main()
