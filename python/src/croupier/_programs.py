"""The programs that the package carries, under their own names."""

import os
import sys
from pathlib import Path
from typing import NoReturn

_FOLDER = Path(__file__).parent / "bin"


def program_path(name: str) -> Path:
    """Where a program of the package lies, such as "croupierd"."""
    path = _FOLDER / name
    if not path.exists():
        raise FileNotFoundError(
            f"this build of the package has no {name} in {_FOLDER}; a wheel of './dev wheel' has"
        )
    return path


def _become(name: str) -> NoReturn:
    try:
        path = program_path(name)
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execv(path, [str(path), *sys.argv[1:]])


def croupier() -> NoReturn:
    _become("croupier")


def croupierd() -> NoReturn:
    _become("croupierd")
