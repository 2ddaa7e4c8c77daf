"""What tests share: a daemon's process, an engine small enough for a test, rows of logits."""

import ctypes
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import croupier

VOCAB = 1000
# What a test waits at most for what other processes do.
PATIENCE = 20.0
_LIBC = ctypes.CDLL(None)


def eventually(holds: Callable[[], bool]) -> None:
    """Looks until it holds: for states that other processes reach and announce to nobody."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.002)


def die_with_parent() -> None:
    """In a child, before it becomes a program: a test that is killed leaves no daemon."""
    set_death_signal = 1
    _LIBC.prctl(set_death_signal, signal.SIGKILL)


class Daemon:
    def __init__(self, program: Path, folder: Path, instance: str, max_message: str = "64MiB") -> None:
        self.program, self.folder, self.instance = program, folder, instance
        self.max_message = max_message
        self.shm_folder = Path("/dev/shm/croupier-" + instance)
        self.endpoint = f"ipc://{folder}/control.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        config = self.folder / "croupierd.yaml"
        config.write_text(
            f"instance: {self.instance}\n"
            f"run_dir: {self.folder}\n"
            "samplers: {count: 2, wait: adaptive}\n"
            f"shm: {{dir: {self.shm_folder}}}\n"
            f'control: {{endpoint: "{self.endpoint}", max_message_bytes: {self.max_message}}}\n'
            'metrics: {listen: "off"}\n'
        )
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--config", config], stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        eventually(lambda: self.log().count("ready: ") > 0 or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None
        if how == signal.SIGKILL:
            (self.folder / "log").write_text("")

    def sampler_pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def open(self, name: str, **options: object) -> croupier.Session:
        given = {"vocab": VOCAB, "dtype": "fp32", "timeout": PATIENCE, "mask_rows": 64, "max_logprobs": 8}
        return croupier.Session(endpoint=self.endpoint, name=name, **(given | options))


def row(uid: int, position: int, vocab: int = VOCAB) -> np.ndarray:
    """The logits of a sequence at a position, the same whoever asks; float32, exact in bfloat16."""
    random = np.random.default_rng([uid, position])
    return bits_of_bf16(random.normal(0, 3, vocab).astype(np.float32))[1]


def bits_of_bf16(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As uint16, and what they stand for."""
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def in_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        return bits_of_bf16(values)[0]
    return values.astype(np.float16 if dtype == "fp16" else np.float32)


def mask_of(allowed: np.ndarray) -> np.ndarray:
    """Of a bool for each id."""
    words = np.zeros((len(allowed) + 31) // 32 * 32, bool)
    words[: len(allowed)] = allowed
    return np.packbits(words, bitorder="little").view(np.uint32)


GREEDY = croupier.Params(temperature=0)


def best(uid: int, position: int) -> int:
    return int(np.argmax(row(uid, position)))


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(croupier.Error) as failed:
        call()
    return failed.value.name


def fails(name: str, call: Callable[[], object], text: str = "") -> None:
    with pytest.raises(croupier.Error) as failed:
        call()
    assert failed.value.name == name, failed.value
    assert text in failed.value.text


class Engine:
    """A session, the writers of its ranks, and what each sequence was asked for."""

    def __init__(self, session: croupier.Session, dtype: str = "fp32") -> None:
        self.session, self.dtype = session, dtype
        self.writers = [croupier.Writer(session.segment_path)]
        for rank in range(1, self.writers[0].info.tp):
            self.writers.append(croupier.Writer(session.segment_path, rank=rank))
        self.asked: dict[int, dict] = {}
        self.seeds: dict[int, int] = {}
        self.outputs: dict[int, list[int]] = {}

    def add(self, uid: int, prompt: list[int] | None = None, **asked: object) -> None:
        asked["prompt"] = [uid, 2, 3] if prompt is None else prompt
        self.seeds[uid] = self.session.add(uid, **asked)
        if "params" in asked and (seed := asked["params"].seed) is not None:
            assert self.seeds[uid] == seed
        self.asked[uid] = asked
        self.outputs[uid] = list(asked.get("output", ()))

    def submit(self, uids: list[int], masks: list | None = None) -> int:
        return self.session.submit(uids, masks=masks)

    def write(self, step: int, rows: list[np.ndarray], **windows: np.ndarray) -> None:
        """Every rank's part of the rows."""
        whole = in_dtype(np.stack(rows), self.dtype)
        for writer in self.writers:
            first, ids = writer.info.first_id, writer.info.ids
            part = np.zeros((len(rows), ids), whole.dtype)
            known = whole[:, first : first + ids]
            part[:, : known.shape[1]] = known
            assert writer.begin(step)
            writer.enqueue(part, **windows)

    def in_process(self, uid: int, logits: np.ndarray, mask: np.ndarray | None = None) -> croupier.Answer:
        asked = {**self.asked[uid], "output": self.outputs[uid]}
        params = asked.pop("params", None) or croupier.Params()
        given, params.seed = params.seed, self.seeds.get(uid, params.seed)
        try:
            return croupier.decide(in_dtype(logits, self.dtype), mask=mask, params=params, **asked)
        finally:
            params.seed = given

    def step(self, masks: list | None = None) -> croupier.Step:
        """One step of all sequences, each decided in this process too."""
        uids = list(self.asked)
        rows = [row(uid, len(self.outputs[uid])) for uid in uids]
        step = self.submit(uids, masks)
        self.write(step, rows)
        decided = self.session.wait(PATIENCE)
        assert decided is not None
        assert decided.step == step
        for column, uid in enumerate(uids):
            mask = None if masks is None else masks[column]
            answer, decision = self.in_process(uid, rows[column], mask), decided.decisions[column]
            assert (decision.token, decision.error, decision.output_index) == (
                answer.token,
                answer.error,
                len(self.outputs[uid]),
            )
            assert decision.best == answer.best
            assert decision.rank == answer.rank
            assert decision.stopped == answer.stopped
            self.outputs[uid].append(decision.token)
        return decided
