"""compare.py A.json B.json: how many sequences of two runs of smoke.py are equal; 1 unless all are."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    first, second = (json.loads(Path(name).read_text()) for name in sys.argv[1:])
    differ = [place for place, (one, other) in enumerate(zip(first, second, strict=True)) if one != other]
    print(f"{len(first) - len(differ)} of {len(first)} sequences are equal")
    for place in differ[:5]:
        at = next(at for at, (a, b) in enumerate(zip(first[place], second[place], strict=True)) if a != b)
        print(f"sequence {place} at token {at}: {first[place][at]}, {second[place][at]}")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
