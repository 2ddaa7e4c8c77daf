"""The releases of SGLang that Croupier supports.

`croupier doctor` runs this file alone: it imports nothing of the package, nor of SGLang.
"""

from __future__ import annotations

import importlib.metadata

RELEASES = ("0.5.17",)


def installed_release() -> str:
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown release"


def supported(release: str) -> bool:
    return release in RELEASES


def names() -> str:
    """The supported releases, as messages list them."""
    return " and ".join(RELEASES)
