"""Mixed decisions made again by the reference: verify.py OUT.json, which gets verify mode's counts."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    out = sys.argv[1]
    import kinds
    from engines import engine, prompts

    options = {**json.loads(os.environ.get("OPTIONS", "{}")), "verify_every": 1, "verify_report": out}
    server = engine(os.environ.get("SHAPE", "small"), options)
    asked = kinds.of_requests("mixed", 256, int(os.environ.get("TOKENS", 400)))
    server.generate(input_ids=prompts(256), sampling_params=asked)
    server.shutdown()


if __name__ == "__main__":
    main()
