#!/usr/bin/env python3
"""planted.py BUILD: keeps what a copy of this tree promises, takes things away, and looks whether
frozen.py names each.

What programs say is renamed in a copy of the programs. python/tests/frozen_test.py does it for the package.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [
    "include",
    "proto",
    "shm",
    "event_log",
    "daemon",
    "fan_out",
    "tools",
    "config",
    "docs",
    "bench/results",
]
SOURCES += ["tests/frozen", "tests/web", "tests/sampler/golden", "CMakeLists.txt"]
LIBRARIES = ["client", "gpu_writer", "in_process", "fan_out"]

# Kind, file, what is there, what comes instead (of the same length in a program), and what has to be named.
PLANTED = [
    (
        "headers",
        "include/croupier/decide.h",
        r"void croupier_decider_close\([^;]*;",
        "",
        "croupier_decider_close",
    ),
    ("headers", "include/croupier/client.h", r"\bmax_batch\b", "most", "max_batch"),
    (
        "headers",
        "include/croupier/types.h",
        r"CROUPIER_ERROR_DRAINING = 12",
        "CROUPIER_ERROR_DRAINING = 112",
        "DRAINING",
    ),
    (
        "headers",
        "include/croupier/types.h",
        r"CROUPIER_MAX_STOP_IDS = 256",
        "CROUPIER_MAX_STOP_IDS = 255",
        "MAX_STOP_IDS was 256 and is only 255",
    ),
    (
        "headers",
        "include/croupier/fan_out.h",
        r"CROUPIER_FAN_OUT_MAX_RECORD \(64U",
        "CROUPIER_FAN_OUT_MAX_RECORD (63U",
        "FAN_OUT_MAX_RECORD",
    ),
    (
        "headers",
        "include/croupier/types.h",
        r"CROUPIER_MAX_ORDER = 12",
        "CROUPIER_MAX_ORDER = 13",
        "MAX_ORDER was 12 and is 13",
    ),
    ("segment", "proto/lean_part.h", r"kLeanGranule = 32", "kLeanGranule = 64", "kLeanGranule"),
    ("messages", "proto/messages.fbs", r"  max_batch: uint32;\n", "", "max_batch"),
    ("log_events", "event_log/events.cpp", r'"handed_over"', '"handed_on"', "handed_over"),
    (
        "log_events",
        "daemon/supervisor/supervisor.cpp",
        r'\{\{"sessions", count\}\}',
        '{{"number", count}}',
        "sessions",
    ),
    ("tokens", "tests/sampler/golden/draws.txt", r"\n(\S+) ", r"\n1\1 ", "golden draws"),
    ("configuration", "bin/croupierd", b"drain_timeout_ms", b"drain_timeouts_m", "drain_timeout_ms"),
    ("programs", "bin/croupierd", b"steps_taken", b"steps_token", "metric croupier_steps_taken_total"),
    ("programs", "bin/croupier", b"--patience", b"--patients", "--patience"),
    ("programs", "bin/croupier", b"--kubernetes", b"--kubernotes", "--kubernetes"),
    ("programs", "bin/croupier", b"--count", b"--coumt", "croupier stat has lost --count"),
    ("programs", "bin/croupier", b"chosen_by", b"chosen_in", "chosen_by"),
]

# What 1.x may do: none of it may be named.
FREE = [
    (
        "headers",
        "include/croupier/types.h",
        r"CROUPIER_MAX_STOP_STRINGS = 16",
        "CROUPIER_MAX_STOP_STRINGS = 17",
        "MAX_STOP_STRINGS",
    ),
    (
        "headers",
        "include/croupier/writer.h",
        r"CROUPIER_WRITER_MAX_STORE_BLOCKS = 1024",
        "CROUPIER_WRITER_MAX_STORE_BLOCKS = 2048",
        "STORE_BLOCKS",
    ),
    ("headers", "include/croupier/types.h", r"CROUPIER_ABI_MINOR = 0", "CROUPIER_ABI_MINOR = 1", "ABI_MINOR"),
    ("headers", "include/croupier/client.hpp", r"== 0x10000", "== 0x10001", "ABI_VERSION"),
    ("headers", "include/croupier/client.hpp", r"abi_1_0", "abi_1_1", "abi_1"),
]


def copied(build, place):
    tree, copy = place / "tree", place / "build"
    for name in SOURCES:
        source, to = ROOT / name, tree / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, to, ignore=shutil.ignore_patterns("kept", "__pycache__"))
        else:
            shutil.copy(source, to)
    (copy / "bin").mkdir(parents=True)
    for name in ("croupier", "croupierd", "croupier-sim"):
        shutil.copy(build / "bin" / name, copy / "bin" / name)
    for name in [*LIBRARIES, "proto"]:
        (copy / name).symlink_to(build / name)
    return tree, copy


def frozen(tree, copy, what, *kinds):
    command = [sys.executable, tree / "tests/frozen/frozen.py", what, copy, *kinds]
    return subprocess.run(command, capture_output=True, text=True)


def changed(text, was, now):
    if isinstance(text, bytes):
        assert len(was) == len(now)
        assert was in text, was
        return text.replace(was, now)
    text, count = re.subn(was, now, text)
    assert count, was
    return text


def unseen(tree, copy, kind):
    """What frozen.py gets wrong of the kind's breaches and free changes, which are all there together."""
    planted = [each[1:] for each in PLANTED if each[0] == kind]
    free = [each[1:] for each in FREE if each[0] == kind]
    for name, was, now, _ in planted + free:
        file = (copy if name.startswith("bin/") else tree) / name
        if isinstance(was, bytes):
            file.write_bytes(changed(file.read_bytes(), was, now))
        else:
            file.write_text(changed(file.read_text(), was, now))
    said = frozen(tree, copy, "check", kind)
    sentences = [line for line in said.stdout.splitlines() if line.startswith("  ")][:-1]
    missing = [wanted for *_, wanted in planted if not any(wanted in sentence for sentence in sentences)]
    wrong = [allowed for *_, allowed in free if any(allowed in sentence for sentence in sentences)]
    print(f"{kind}: {len(planted) - len(missing)} of {len(planted)} are named")
    if missing:
        print(f"UNSEEN: {', '.join(missing)}\n{said.stdout}{said.stderr}")
    if wrong:
        print(f"NAMED, and allowed: {', '.join(wrong)}\n{said.stdout}{said.stderr}")
    return missing + wrong


def main(build):
    with tempfile.TemporaryDirectory() as place:
        tree, copy = copied(build, pathlib.Path(place))
        kinds = sorted({kind for kind, *_ in PLANTED})
        for what in ("keep", "check"):
            said = frozen(tree, copy, what, *kinds)
            assert said.returncode == 0, said.stdout + said.stderr
        missing = [each for kind in kinds for each in unseen(tree, copy, kind)]
        return not missing


if __name__ == "__main__":
    sys.exit(0 if main(pathlib.Path(sys.argv[1]).resolve()) else 1)
