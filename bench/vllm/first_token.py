"""What docs/vllm.md shows, from Python: an engine with Croupier and no option, and its first token.

    first_token.py FOLDER

start.sh runs it, with its own times (date +%s.%N) in the environment as BEGUN, MADE and INSTALLED.
The model is one of Qwen2.5-1.5B's shape with random weights, for a host that can load none.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from shapes import make_model
from sides import write_json


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    folder = Path(sys.argv[1])
    begun, made, installed = (float(os.environ[name]) for name in ("BEGUN", "MADE", "INSTALLED"))
    model = make_model(folder / "model", "1.5b", 28)
    from vllm import LLM, SamplingParams

    import croupier

    imported = time.time()
    llm = LLM(
        model=model,
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=2048,
        gpu_memory_utilization=0.4,
        compilation_config={"mode": 0},
        additional_config={"croupier": {}},
    )
    started = time.time()
    asked = SamplingParams(max_tokens=1, temperature=0.8, seed=1, detokenize=False)
    outputs = llm.generate([{"prompt_token_ids": list(range(100, 132))}], asked, use_tqdm=False)
    found = {
        "croupier": str(Path(croupier.__file__).parent).replace(str(folder), "FOLDER"),
        "seconds": {
            "venv": round(made - begun, 1),
            "pip install": round(installed - made, 1),
            "imports": round(imported - installed, 1),
            "engine": round(started - imported, 1),
            "first token": round(time.time() - started, 2),
            "all": round(time.time() - begun, 1),
        },
        "token": outputs[0].outputs[0].token_ids[0],
    }
    write_json(folder / "start.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
