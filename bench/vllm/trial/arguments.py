"""What server_trial.py and gpu_features.py are both asked with."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from .model import SHAPES


def parser_of(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """`seconds`: the default budget."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json, or its gzip")
    parser.add_argument("--shape", default="small", choices=SHAPES)
    parser.add_argument("--budget", type=float, default=seconds, help="seconds; then nothing new begins")
    parser.add_argument(
        "--serve", default="", help="further arguments of all servers, as --serve='--a 1 --b 2'"
    )
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = parser.parse_args()
    arguments.more = shlex.split(arguments.serve)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    return arguments
