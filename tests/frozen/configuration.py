"""Keys of croupierd.yaml: a file that 1.0 took, every 1.x takes. Asked of croupierd itself."""

import pathlib
import re
import subprocess
import tempfile

import yaml
from facts import ROOT

RULE = "A file that 1.0 accepted has to be accepted, and mean the same."
# Where others look for it, who may come in, and what tokens depend on. Other defaults may become better ones.
FROZEN_DEFAULTS = [
    "instance",
    "run_dir",
    "shm.dir",
    "shm.mode",
    "shm.group",
    "control.endpoint",
    "control.ipc_mode",
    "metrics.listen",
    "metrics.explain",
    "hot_set.size",
    "hot_set.adapt",
    "log.level",
    "log.format",
]
OF_A_USER = ["run_dir", "shm.dir", "control.endpoint"]
# Values of the kinds whose range is no list.
OF_KIND = {
    "address": ["127.0.0.1:9464", "[::1]:9464", "off"],
    "endpoint": ["ipc:///run/elsewhere/control.sock"],
    "group": ["", "0"],
    "list of cores": ["auto", "0", "0-1", "0,1"],
    "host names": ["", "metrics.example.com", "croupier,croupier.monitoring.svc"],
    "name": ["a", "a-name-of-thirty-two-characters-"],
    "node": ["auto", "0", "1"],
    "path": ["/run/elsewhere"],
    "true or false": [True, False],
}
# Without which they would contradict another key.
BESIDE = {
    "sessions.max_segment_bytes": {"sessions.max_total_bytes": "1TiB"},
    "sessions.max_total_bytes": {"sessions.max_segment_bytes": "1MiB"},
    "control.curve.secret_key_file": {"control.curve.authorized_keys_file": "/run/elsewhere"},
    "control.curve.authorized_keys_file": {"control.curve.secret_key_file": "/run/elsewhere"},
}


def keys_of(tree, path=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def tree_of(values):
    tree = {}
    for path, value in values.items():
        *folders, key = path.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[key] = value
    return tree


def told_by_the_page(allowed):
    """The outermost values that docs/configuration.md says of a key, or all where they are words."""
    kind = re.match(r"[^:,]*", allowed)[0]
    if (bounds := re.search(r"(\w+)\.\.(\w+)", allowed)) and kind in ("whole number", "size in bytes"):
        return [int(b) if b.isdigit() else b for b in bounds.groups()]
    if kind in ("word", "file mode"):
        return re.split(r", | or ", allowed.rsplit(": ", 1)[1])
    return OF_KIND[kind]


class Asked:
    """croupierd --check-config, in a folder of its own."""

    def __init__(self, croupierd):
        self.croupierd, self.folder = croupierd, tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "croupierd.yaml"

    def run(self, what, values):
        self.file.write_text(yaml.safe_dump(tree_of(values)) if values else "")
        return subprocess.run([self.croupierd, what, "--config", self.file], capture_output=True, text=True)

    def takes(self, key, value):
        # A word of digits or such as `off` is no number and no truth value.
        if isinstance(value, str) and (value.isdigit() or value == "off"):
            self.file.write_text("".join(_lines(key, value)))
            return (
                subprocess.run(
                    [self.croupierd, "--check-config", "--config", self.file], capture_output=True
                ).returncode
                == 0
            )
        return self.run("--check-config", {**BESIDE.get(key, {}), key: value}).returncode == 0


def _lines(key, plain):
    *folders, last = key.split(".")
    for depth, folder in enumerate(folders):
        yield f"{'  ' * depth}{folder}:\n"
    yield f"{'  ' * len(folders)}{last}: {plain}\n"


def facts(programs, kept):
    asked = Asked(programs / "croupierd")
    defaults = dict(keys_of(yaml.safe_load(asked.run("--print-config", {}).stdout)))
    # The daemon of a user other than root has paths of its own; the example has the host's.
    example = dict(keys_of(yaml.safe_load((ROOT / "config/croupierd.yaml").read_text())))
    defaults |= {key: example[key] for key in OF_A_USER}
    page = dict(
        re.findall(r"^\| `([\w.]+)` \| (.*?) \|", (ROOT / "docs/configuration.md").read_text(), flags=re.M)
    )
    found = {f"default of {key}": defaults[key] for key in FROZEN_DEFAULTS if key in defaults}
    for key in defaults:
        of_old = kept.get(f"values of {key}", [])
        # A test of the schema says where the page lacks one.
        told = told_by_the_page(page[key]) if key in page else []
        values = of_old + [value for value in told if value not in of_old]
        found[f"values of {key}"] = [value for value in values if asked.takes(key, value)]
    return found
