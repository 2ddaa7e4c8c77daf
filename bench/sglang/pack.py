#!/usr/bin/env python3
"""Packs SGLang, and what it imports to decode text models, into one archive of about 25 MB for a GPU host
that reaches no package registry and has Python 3.12 with torch 2.11 (CUDA 13), triton, tokenizers and nvcc.

    pack.py OUT.tar.xz        (some minutes: downloads wheels of 0.5 GB, keeps one architecture's device code)

There:  tar xJf OUT.tar.xz -C DIR; export PYTHONPATH=DIR; env.sh has the other variables.
A model needs a config.json and no weights: --load-format dummy --skip-tokenizer-init. SGLang compiles some
small kernels there at first use, and FlashInfer its sampling kernels. Not in it: other attention than
Triton's and FlashInfer's, quantisation, diffusion, xgrammar (llguidance is), the servers' Rust parts.
"""

from __future__ import annotations

import collections
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RELEASE = "0.5.17"
ARCHITECTURE = 90  # Hopper
WHEELS = f"""sglang=={RELEASE} sglang-kernel==0.4.5 flashinfer-python==0.6.15.post1 apache-tvm-ffi==0.1.11
transformers==5.12.1 llguidance==1.7.6 compressed-tensors==0.17.0 gguf==0.19.0 orjson==3.13.0 dill==0.4.1
pybase64==1.5.1 setproctitle==1.3.8 ipython==9.18.1 traitlets==5.14.3 decorator==5.2.1 uvicorn==0.54.0
fastapi==0.136.3 starlette==1.10.0 pydantic==2.14.3 pydantic-core==2.50.4 annotated-types==0.8.0
typing-inspection==0.4.5 openai==2.6.1 openai-harmony==0.0.4 partial-json-parser interegular==0.3.3
msgspec==0.22.0 pyzmq==27.3.0 ninja==1.13.2 python-multipart==0.0.34 distro==1.9.0 sniffio==1.3.1
jiter==0.19.0 anyio==4.16.0 watchfiles==1.3.0 nvidia-ml-py==13.615.71 aiohttp==3.14.5 loguru==0.7.3
jsonschema==4.26.0 jsonschema-specifications==2025.9.1 referencing==0.37.0 rpds-py attrs==26.1.0""".split()
GLIBC = (28, 27, 26, 24, 17, 31, 34, 35, 12, 5)
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in GLIBC] + [
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
    "linux_x86_64",
]
LEFT_OUT = (
    "sglang/multimodal_gen/",
    "sglang/test/",
    "sglang/eval/",
    "sglang/benchmark/",
    "sglang/kernels/jit/benchmark/",
    "triton_kernels/",
    "tools/",
    "example.py",
    "build_backend.py",
    "build_utils.py",
    "flashinfer/data/cutlass/",
    "flashinfer/data/cccl/",
    "flashinfer/data/spdlog/",
    "flashinfer/data/csrc/fmha_v2/",
    "flashinfer/data/csrc/nv_internal/",
    "flashinfer/data/csrc/xqa/",
    "flashinfer/data/csrc/fused_moe/",
)
LIBRARIES = {
    "sgl_kernel": ("sm90/common_ops",),
    "sglang": (),
}
# Imported by name alone, and not used by text models with these flags.
_STUB = """def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    from pydantic_core import core_schema

    def schema(cls, source, handler):
        return core_schema.any_schema()

    return type(name, (), {"__get_pydantic_core_schema__": classmethod(schema)})
"""
STUBS = {"xgrammar/__init__.py": _STUB, "xgrammar/structural_tag.py": _STUB}
# transformers' own limit is below the tokenizers of the GPU hosts, with which it works.
PATCHES = {
    "transformers/dependency_versions_table.py": ("tokenizers>=0.22.0,<=0.23.0", "tokenizers>=0.22.0"),
}


def thin(path: Path) -> None:
    """Zeroes the device code of every other architecture in a CUDA library, so that it packs small."""
    library = bytearray(path.read_bytes())
    magic, kept = struct.pack("<I", 0xBA55ED50), collections.Counter()
    at = library.find(magic)
    while at >= 0:
        _, version, header, size = struct.unpack_from("<IHHQ", library, at)
        if version != 1 or header < 16 or at + header + size > len(library):
            at = library.find(magic, at + 4)
            continue
        end, parts = at + header + size, []
        place = at + header
        while place + 32 <= end:
            kind, _, length, payload = struct.unpack_from("<HHIQ", library, place)
            if length < 32:
                break
            architecture = struct.unpack_from("<I", library, place + 28)[0]
            parts.append((kind, architecture, place + length, payload))
            place += length + payload
        # Machine code of the architecture, or else the newest code that the driver can compile for it.
        exact = any(kind != 1 and found == ARCHITECTURE for kind, found, _, _ in parts)
        older = [found for kind, found, _, _ in parts if kind == 1 and found <= ARCHITECTURE]
        for kind, found, start, length in parts:
            wanted = found == ARCHITECTURE if kind != 1 else not exact and found == max(older)
            if wanted:
                kept[found] += length
            else:
                library[start : start + length] = bytes(length)
        at = library.find(magic, end)
    path.write_bytes(library)
    print(f"{path.name}: device code kept {sum(kept.values()) / 1e6:.0f} MB")


def is_wanted(name: str) -> bool:
    if name.startswith(LEFT_OUT) or name.endswith((".pyc", ".pyi", ".jpg", ".png", "/")):
        return False
    package, _, rest = name.partition("/")
    if ".so" in name and package in LIBRARIES:
        return rest.startswith(LIBRARIES[package])
    return True


def unpack(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not is_wanted(name):
                continue
            target = name
            if ".data/" in name:
                _, part, target = name.split("/", 2)
                if part not in ("purelib", "platlib"):
                    continue
            to = site / target
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(archive.read(name))


def download(to: Path) -> None:
    where = [flag for platform in PLATFORMS for flag in ("--platform", platform)]
    abis = [flag for abi in ("cp312", "abi3", "none") for flag in ("--abi", abi)]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.12", "--implementation", "cp", *abis, *where, "-d", str(to), *WHEELS]
    subprocess.run(command, check=True)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    work = Path(tempfile.mkdtemp(prefix="sglang-pack-"))
    site, wheels = work / "site", Path(os.environ.get("WHEELS_FOLDER", work / "wheels"))
    site.mkdir()
    print(f"downloading {len(WHEELS)} wheels")
    download(wheels)
    for wheel in sorted(wheels.glob("*.whl")):
        unpack(wheel, site)
    for name, text in STUBS.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(text)
    for name, (old, new) in PATCHES.items():
        text = (site / name).read_text()
        if old not in text:
            sys.exit(f"{name} has no {old!r}, which this script replaces: look at the new release")
        (site / name).write_text(text.replace(old, new))
    for library in site.glob("sgl_kernel/**/*.so"):
        thin(library)
    print("packing")
    filters = ["--x86", "--lzma2=preset=9e,dict=128MiB"]
    with open(sys.argv[1], "wb") as out:
        tar = subprocess.Popen(["tar", "c", "--sort=name", "-C", site, "."], stdout=subprocess.PIPE)
        subprocess.run(["xz", *filters], stdin=tar.stdout, stdout=out, check=True)
        if tar.wait():
            sys.exit("tar failed")
    print(f"{sys.argv[1]}: {os.path.getsize(sys.argv[1]) / 1e6:.1f} MB")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
