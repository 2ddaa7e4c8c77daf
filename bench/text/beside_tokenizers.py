"""Times `croupier bench text` and Hugging Face's DecodeStream with the same tokens.

The tokens are random ids, or those of --text. `croupier` runs before and after `tokenizers`.
"""

import argparse
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

LENGTH = 512
TOKENS = 100_000


def ids_of(tokenizer: Tokenizer, text: Path | None) -> list[int]:
    if text is not None:
        return tokenizer.encode(text.read_text(), add_special_tokens=False).ids[:TOKENS]
    draw = random.Random(1)
    return [draw.randrange(tokenizer.get_vocab_size()) for _ in range(TOKENS)]


def ours(croupier: str, tokenizer: Path, ids: list[int]) -> dict:
    with tempfile.NamedTemporaryFile() as file:
        file.write(np.array(ids, np.int32).tobytes())
        file.flush()
        command = [croupier, "bench", "text", "--tokenizer", tokenizer, "--ids", file.name, "--json"]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def decode_stream(tokenizer: Tokenizer, ids: list[int]) -> None:
    stream = DecodeStream(skip_special_tokens=True)
    for token in ids:
        try:
            stream.step(tokenizer, token)
        except Exception:
            # Bytes that are not UTF-8: vLLM begins a new stream too.
            stream = DecodeStream(skip_special_tokens=True)


def theirs(tokenizer: Tokenizer, ids: list[int]) -> float:
    """Nanoseconds of CPU time a token, of the fastest of three rounds."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time_ns()
        for first in range(0, len(ids), LENGTH):
            decode_stream(tokenizer, ids[first : first + LENGTH])
        best = min(best, (time.process_time_ns() - begin) / len(ids))
    return best


def compare(croupier: str, path: Path, text: Path | None) -> dict:
    tokenizer = Tokenizer.from_file(str(path))
    ids = ids_of(tokenizer, text)
    before = ours(croupier, path, ids)
    tokenizers_ns = theirs(tokenizer, ids)
    result = ours(croupier, path, ids)
    for name, case in result["cases"].items():
        case["ns"] = min(case["ns"], before["cases"][name]["ns"])
        case["tokenizers_to_ours"] = tokenizers_ns / case["ns"]
    return {**result, "tokenizers_ns": tokenizers_ns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("croupier")
    parser.add_argument("tokenizers", nargs="+", type=Path, help="tokenizer.json files")
    parser.add_argument("--text", type=Path, help="a file whose tokens are decoded")
    options = parser.parse_args()
    results = {path.stem: compare(options.croupier, path, options.text) for path in options.tokenizers}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
