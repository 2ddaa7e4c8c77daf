"""The options that all engines have, as a plugin finds them in its engine's configuration."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

_METRICS_PORT = "1 to 65535 would be right, or None (null in JSON), the default, for no port"
# A call of a worker by vLLM ends after 300 seconds, and SGLang's watchdog an engine.
_LONGEST = 240
TRANSPORTS = ("rows", "lean")
# How alike a mistyped option and the one that was meant are: 'relay_port' and 'transport' are at 0.6.
_NEAR = 0.7


@dataclass(frozen=True)
class Options:
    """Of one engine; all have a default. Each plugin has a class of its own, with what its engine adds."""

    engine: ClassVar[str] = ""
    """In the names of sessions."""
    where: ClassVar[str] = "options"
    """What messages call the place where these options are given."""

    endpoint: str = ""
    """Of the daemon's control socket; none: the host's daemon if it answers, else a private one."""
    private: bool = False
    """Without an endpoint: a private daemon, whether the host has one or not."""
    stand_in: bool = True
    """A process waits beside this engine and decides while there is no daemon."""
    name: str = ""
    """Of the session; none: one made of this engine's process."""
    timeout: float = 60.0
    """Seconds that a worker waits for a step's tokens before it ends the engine."""
    max_bias: int = 1024
    max_stop_ids: int = 128
    max_list_tokens: int = 4096
    """Words of the allowed ids, bad words and DRY breakers of one request together."""
    hotness_file: str = ""
    summaries: bool = True
    """Ranks send the largest logit of each tile too, and samplers read less of a row."""
    transport: str = ""
    """How ranks send their logits: rows, or lean (what can matter of each row, and more on request); none:
    lean where the workers are on CUDA devices, else rows. A hotness_file needs rows."""
    shm_dir: str = ""
    """Of a private daemon: where its segments lie."""
    metrics_port: int | None = None
    """Of a private daemon: the port of 127.0.0.1 where it serves metrics and its page; None: it does not."""
    samplers: int = 0
    """Of a private daemon and of a stand-in; 0: three quarters of the cores that this process may use; for
    lean steps a third, or four if that is more, and a dozen at the most."""
    verify_every: int = 0
    """Each so many steps are decided a second time in this process, and differences are counted; 0: none."""
    verify_report: str = ""
    """The file of verify mode's counts: zeros from the session's start on, then as of the last step."""
    untested: bool = False
    """Lets a release of the engine start that Croupier does not support."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """The options, or a ValueError that names the key and what would be right."""
        defaults = {field.name: field.default for field in fields(cls)}
        for key, value in given.items():
            if key not in defaults:
                near = difflib.get_close_matches(key, defaults, 1, _NEAR)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(defaults)}"
                raise ValueError(f"{cls.where} has no option {key!r}{hint}")
            _check_type(cls.where, key, value, defaults[key])
            # Of a free port that a private daemon took, only its log would tell the number.
            if key == "metrics_port" and value is not None and not 0 < value < 65536:
                raise ValueError(f"{cls.where}[{key!r}] is {value}; {_METRICS_PORT}")
            if key == "relay_port" and value > 65535:
                raise ValueError(f"{cls.where}[{key!r}] is {value}; up to 65535 would be right")
        timeout = given.get("timeout", cls.timeout)
        if not 0 < timeout <= _LONGEST:
            raise ValueError(
                f"{cls.where}['timeout'] is {timeout}; seconds above 0, up to {_LONGEST} would be right"
            )
        transport = given.get("transport", cls.transport)
        if "transport" in given and transport not in TRANSPORTS:
            raise ValueError(
                f"{cls.where}['transport'] is {transport!r}; {', '.join(TRANSPORTS)} would be right"
            )
        if transport == "lean" and given.get("hotness_file"):
            raise ValueError(f"{cls.where}['hotness_file'] needs 'transport': 'rows', not 'lean'")
        return cls(**given)

    def transport_from(self, device_type: str) -> str:
        """The transport of the session. A hotness order is of rows, so that whoever gives one has those."""
        if self.transport:
            return self.transport
        return "lean" if device_type == "cuda" and not self.hotness_file else "rows"

    def ignored_by_another_daemon(self) -> list[str]:
        """Of a daemon that this engine does not start itself: what is given and has no effect there."""
        ignored = [
            f"'{name}' ({value}) is not used"
            for name in ("shm_dir", "metrics_port")
            if (value := getattr(self, name))
        ]
        if self.samplers and self.stand_in:
            ignored.append(f"'samplers' ({self.samplers}) is the stand-in's alone")
        elif self.samplers:
            ignored.append(f"'samplers' ({self.samplers}) is not used")
        return ignored

    def session_name(self, replica: int) -> str:
        """Process ids are not unique among containers that share a daemon."""
        name = self.name or f"{self.engine}-{os.getpid()}-{secrets.token_hex(4)}"
        return f"{name}-{replica}" if replica else name


def _check_type(where: str, key: str, value: Any, default: Any) -> None:
    if default is None and value is None:
        return
    wanted = int if default is None else type(default)
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = whole if wanted is int else isinstance(value, float) or whole if wanted is float else None
    if fits is None:
        fits = isinstance(value, wanted)
    if not fits:
        right = _METRICS_PORT if default is None else f"a {wanted.__name__} would be right"
        raise ValueError(f"{where}[{key!r}] is {value!r}; {right}")
    if default is not None and wanted in (int, float) and value < 0:
        raise ValueError(f"{where}[{key!r}] is {value}; 0 or more would be right")
