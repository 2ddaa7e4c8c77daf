"""Tests features of vLLM with Croupier against a native server: LoRA, sleep, connectors, images.

    gpu_features.py FOLDER --tokenizer tokenizer.json[.gz] [--only lora,sleep] [--budget 500]

Prints one line per feature: W (works, with what was compared), R (Croupier refuses it by name), S (skipped,
with the reason) or X (does not work). FOLDER/features.txt and FOLDER/features.json have the details,
FOLDER/*.log the logs of the servers. The servers are small and not compiled (compilation mode 0, CUDA graphs
for decoding); server_trial.py tests vLLM's defaults.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sides import Budget, end_by_signal, environment, write_json
from trial import checks, features
from trial.adapters import make_adapter, make_multimodal
from trial.arguments import parsed, parser_of
from trial.checks import Check, Row, Side
from trial.client import at_once
from trial.model import make_model
from trial.server import Host, Server, ServerFailedError, croupier_flags, gpu_used_mib
from trial.table import as_json, missing_modules, table

START = 200.0
# Below this no pair of servers is begun.
PART = 100.0
_SMALL = ["--max-num-seqs", "64", "--max-model-len", "8192", "--max-num-batched-tokens", "2048"]
_MEMORY = ["--gpu-memory-utilization", "0.12", "--kv-cache-memory-bytes", str(2 << 30)]
_GRAPHS = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}
_REFUSED = re.compile(r"Croupier cannot sample for this engine: (.*)")
_DEV = {"VLLM_SERVER_DEV_MODE": "1"}


@dataclass(frozen=True)
class Feature:
    name: str
    flags: Callable[[Place], list[str]]
    checks: list[Check]
    gpus: int = 1
    variables: dict[str, str] = field(default_factory=dict)
    multimodal: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Of Croupier, beyond its one flag."""
    needs: str = ""
    """A Python package without which it is left out."""


@dataclass(frozen=True)
class Place:
    """What the flags of one server are made of."""

    own: Path
    """A folder of this server alone."""
    files: Path
    """The folder of models and adapters, which no results are packed from."""


def _lora(place: Place) -> list[str]:
    named = [f"{kind}={place.files / kind}" for kind in features.ADAPTERS]
    return ["--enable-lora", "--max-lora-rank", "8", "--max-loras", "2", "--lora-modules", *named]


def _connector(place: Place) -> list[str]:
    told = {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(place.own / "kv")},
    }
    return ["--kv-transfer-config", json.dumps(told)]


FEATURES = [
    Feature("lora", _lora, features.LORA),
    Feature("sleep", lambda _: ["--enable-sleep-mode"], features.SLEEP, variables=_DEV),
    Feature("connector", _connector, features.CONNECTOR, variables=_DEV),
    Feature("offload", lambda _: ["--kv-offloading-size", "2"], features.OFFLOAD, variables=_DEV),
    Feature("images", lambda _: [], features.IMAGES, multimodal=True),
    Feature(
        "xgrammar",
        lambda _: ["--structured-outputs-config.backend", "xgrammar"],
        features.GRAMMARS,
        needs="xgrammar",
    ),
    Feature(
        "dp2", lambda _: ["--data-parallel-size", "2"], features.REPLICAS, gpus=2, options={"untested": True}
    ),
]


class Features:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._folder: Path = arguments.folder
        self._files = arguments.folder / "model"
        self._budget = Budget(arguments.budget)
        self._begun = time.monotonic()
        self._before = Host.now()
        self.rows: list[Row] = []
        self.lines: dict[str, str] = {}
        self._facts: dict[str, Any] = {"environment": environment(), "features": self.lines}

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begun:5.1f} s] {text}", flush=True)

    def write(self) -> None:
        self._facts["seconds"] = round(time.monotonic() - self._begun, 1)
        write_json(self._folder / "features.json", as_json(self.rows, self._facts))
        lines = "\n".join(f"{line[:1]} {name}: {line[2:]}" for name, line in self.lines.items())
        (self._folder / "features.txt").write_text(f"{lines}\n\n{table(self.rows)}\n")

    def tell(self, feature: Feature, line: str) -> None:
        self.lines[feature.name] = line
        self.say(f"{line[:1]} {feature.name}: {line[2:]}"[:400])
        self.write()

    def run(self) -> None:
        if missing := missing_modules():
            self.say("missing: " + ", ".join(missing))
        files, tokenizer, shape = self._files, self._arguments.tokenizer, self._arguments.shape
        self._model = make_model(files / "text", tokenizer, shape, llama=True)
        for place, kind in enumerate(features.ADAPTERS):
            make_adapter(files / kind, self._model, kind, 70 + place)
        wanted = [one for one in FEATURES if one.name in self._arguments.only.split(",")]
        if any(one.multimodal for one in wanted):
            self._multimodal = make_multimodal(files / "multimodal", tokenizer, shape)
        able = [one for one in wanted if self._able(one)]
        width = max(1, self._arguments.at_once)
        for first in range(0, len(able), width):
            wave = able[first : first + width]
            if self._budget.over(PART):
                for one in wave:
                    self.tell(one, f"S left out: {self._budget.left():.0f} s are left")
                continue
            for found in at_once([lambda one=one: self._one(one) for one in wave], self._budget.left() + 60):
                if isinstance(found, Exception):
                    self.say(f"{type(found).__name__}: {found}")
        self._facts["left_at_the_end"] = Host.now().left_since(self._before, {})

    def _able(self, feature: Feature) -> bool:
        if feature.gpus > self._arguments.gpus:
            self.tell(feature, f"S needs {feature.gpus} GPUs, and here are {self._arguments.gpus}")
            return False
        spec = importlib.util.find_spec(feature.needs) if feature.needs else None
        if feature.needs and (spec is None or spec.origin is None):
            self.tell(feature, f"S needs the package {feature.needs}, which is not here")
            return False
        return True

    def _one(self, feature: Feature) -> None:
        """With a pair of servers; whatever happens is told in the feature's line."""
        servers: list[Server] = []
        try:
            self._pair(feature, servers)
        except ServerFailedError as error:
            refused = _REFUSED.search(servers[-1].log.read_text(errors="replace"))
            native = servers[-1].name.endswith("native")
            if refused and not native:
                self.tell(feature, f"R {refused[1][:300]}")
            else:
                self.tell(feature, f"X {error}"[:1500])
        except Exception as error:
            self.tell(feature, f"X {type(error).__name__}: {error}"[:600])
        finally:
            at_once([server.close for server in servers], 60)

    def _pair(self, feature: Feature, servers: list[Server]) -> None:
        model = self._multimodal if feature.multimodal else self._model
        sides = []
        for name, own in (("native", []), ("croupier", croupier_flags(**feature.options))):
            folder = self._files / f"{feature.name}-{name}"
            folder.mkdir(parents=True, exist_ok=True)
            flags = feature.flags(Place(folder, self._files))
            graphs = ["--compilation-config", json.dumps(_GRAPHS)] if not self._arguments.eager else []
            more = [*self._arguments.more, *_SMALL, *(_MEMORY if self._arguments.gpus else []), *graphs]
            servers.append(
                Server(folder.name, self._folder, model.folder, [*more, *flags, *own], feature.variables)
            )
            sides.append(Side(name, servers[-1].client, model))
        for server in list(servers):
            # The one that is waited for is the last of the list: it is the one that an error is about.
            servers.remove(server)
            servers.append(server)
            server.await_ready(max(5.0, min(START, self._budget.left())))
        seconds = [server.seconds_to_ready for server in servers]
        self.say(f"{feature.name}: both are ready, {seconds} s; {gpu_used_mib()} MiB in use")
        rows = []
        for check in feature.checks:
            row = checks.run(check, *sides)
            row.check = f"{feature.name}: {row.check}"
            rows.append(row)
            self.rows.append(row)
        bad = [row for row in rows if not row.verdict.good]
        if bad:
            notes = "; ".join([bad[0].verdict.native, bad[0].verdict.croupier, *bad[0].verdict.notes[:3]])
            self.tell(feature, f"X {bad[0].check}: {notes}"[:1500])
        else:
            said = [f"{row.check.split(': ', 1)[1]} {row.verdict.how}" for row in rows]
            self.tell(feature, f"W {'; '.join(said)}")


def visible_gpus() -> int:
    try:
        import torch

        return torch.cuda.device_count()
    except Exception:
        return 0


def main() -> int:
    parser = parser_of(__doc__, 500)
    parser.add_argument("--only", default=",".join(one.name for one in FEATURES))
    parser.add_argument("--at-once", type=int, default=2, help="features whose servers are up together")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    arguments = parsed(parser)
    arguments.gpus = visible_gpus()
    end_by_signal()
    os.environ.pop("VLLM_ALLOW_INSECURE_SERIALIZATION", None)
    found = Features(arguments)
    try:
        found.run()
    finally:
        found.write()
    print((arguments.folder / "features.txt").read_text())
    return 0 if found.lines and not any(line.startswith("X") for line in found.lines.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
