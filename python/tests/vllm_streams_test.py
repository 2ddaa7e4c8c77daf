"""The last stage's step on vLLM's own sample_tokens(): on which stream each part of it is, and after what.

Streams are stood for by what they have waited for; whoever reads a token is asked whether its stream has.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
pytest.importorskip("host_engine", exc_type=ImportError)

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from vllm.v1.worker.gpu import async_utils, model_runner, pp_utils  # noqa: E402

from croupier.vllm import runner as runners  # noqa: E402
from croupier.vllm.order import Order  # noqa: E402

TOKENS = [11, 12, 13]
# They look at a tensor's shape alone.
SHAPE_ONLY = {"zeros_like", "ones_like", "empty_like", "view", "detach", "alias"}


class Stream:
    def __init__(self, name: str, number: int) -> None:
        self.name, self.cuda_stream = name, number
        self.after: set[str] = set()

    def wait_stream(self, other: Stream) -> None:
        self.after |= other.after


class Device(TorchDispatchMode):
    """A GPU with three streams: keeps which memory has tokens in it, and what was done where."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.side, self.copies = Stream("main", 1), Stream("side", 2), Stream("copies", 3)
        self.current = self.main
        self.done: list[tuple[str, str]] = []
        self.recorded: list[tuple[Any, str]] = []
        self._with_tokens: list[Any] = []

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def set_stream(self, stream: Stream) -> None:
        self.current = stream

    def has_tokens(self, tensor: Any) -> bool:
        kept = (held.untyped_storage().data_ptr() for held in self._with_tokens)
        return tensor.untyped_storage().data_ptr() in kept

    def note(self, what: str, *read: Any) -> None:
        self.done.append((what, self.current.name))
        assert "tokens" in self.current.after or not any(map(self.has_tokens, read)), what

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        read = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
        name = function.overloadpacket.__name__
        result = function(*args, **(kwargs or {}))
        if name == "empty" and result.dtype == torch.int32 and self.current is not self.copies:
            self.last_empty = result
        if any(map(self.has_tokens, read)) and name not in SHAPE_ONLY:
            self.note(f"aten.{name}", *read)
            self._with_tokens += [result] if isinstance(result, torch.Tensor) else []
        return result

    # The writer's functions.
    state = SimpleNamespace(late_steps=0)

    def begin(self, step: int) -> bool:
        return True

    def enqueue_pointer(self, address: int, stride: int, stream: int) -> None:
        assert stream == self.current.cuda_stream
        self.note("logits")
        self.current.after.add("logits")

    def enqueue_awaited_tokens_pointer(self, step: int, address: int, stream: int, timeout: float) -> None:
        assert stream == self.current.cuda_stream
        assert address == self.last_empty.data_ptr()
        self.note("await")
        assert "logits" in self.current.after
        self.current.after.add("tokens")
        self._with_tokens.append(self.last_empty)
        values = np.array(TOKENS[: len(self.last_empty)], dtype=np.int32)
        ctypes.memmove(address, values.ctypes.data, values.nbytes)


@pytest.fixture
def device(monkeypatch: Any) -> Device:
    device = Device()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: device.current)
    monkeypatch.setattr(torch.cuda, "stream", device.stream)
    monkeypatch.setattr(torch.cuda, "set_stream", device.set_stream)
    event = SimpleNamespace(record=lambda _: None, synchronize=lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: event)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda tensor, stream: device.recorded.append((tensor, stream.name))
    )

    def copy(tensor: Any) -> Any:
        device.note("copy", tensor)
        return tensor.numpy().copy()

    def broadcast(tensor: Any, src: int, group: Any) -> None:
        device.note("broadcast", tensor)
        device.sent.append(tensor.tolist())

    def post_update(*arguments: Any) -> None:
        device.note("post_update", arguments[4])
        device.counted = arguments[4].tolist(), arguments[5].tolist()

    monkeypatch.setattr(runners, "get_tensor_model_parallel_world_size", lambda: 1)
    device.sent = []
    monkeypatch.setattr(async_utils, "async_copy_to_np", copy)
    monkeypatch.setattr(torch.distributed, "broadcast", broadcast)
    monkeypatch.setattr(model_runner, "post_update", post_update)
    return device


def batch_of(names: list[str], ends: bool) -> SimpleNamespace:
    """All but c have their prompts behind them; with `ends`, none goes on after this step."""
    count = len(names)
    return SimpleNamespace(
        req_ids=names,
        num_reqs=count,
        logits_indices=torch.arange(count),
        idx_mapping=torch.arange(count),
        query_start_loc=torch.arange(count + 1),
        num_computed_tokens_np=np.full(count, 7),
        num_scheduled_tokens=np.ones(count, dtype=np.int32),
        # One that ends does so by the token behind its prompt: vLLM 0.33 foresees no other end.
        prefill_len_np=np.array([20 if name == "c" else 8 if ends else 5 for name in names]),
        is_prefilling_np=np.array([name == "c" or ends for name in names]),
        max_seq_len_np=np.full(count, 9 if ends else 99),
        num_draft_tokens=0,
    )


def state_of(batch: Any) -> Any:
    """What execute_model() leaves; what is not named is nothing, or none."""
    state = model_runner.ExecuteModelState
    given = dict.fromkeys(state._fields)
    given.update(input_batch=batch, hidden_states=torch.zeros(3, 8), finished_req_ids=set())
    if "num_spec_tokens_to_schedule" in given:
        given["num_spec_tokens_to_schedule"] = 0
    return state(**given)


def runner_of(device: Device, batch: Any, stages: int) -> Any:
    """A last stage's runner as vLLM leaves it after execute_model(), of what sample_tokens() looks at."""
    runner = runners.CroupierModelRunner.__new__(runners.CroupierModelRunner)
    handler = pp_utils.PPHandler.__new__(pp_utils.PPHandler)
    handler.is_last_rank, handler.last_rank, handler.broadcast_group = True, 1, None
    handler.max_sample_len = 1
    handler.main_stream, handler.broadcast_stream, handler.queue = device.main, device.side, deque()
    on_gpu = SimpleNamespace(gpu=torch.zeros(4), np=np.zeros(4))
    runner.__dict__.update(
        device=torch.device("cpu"),
        is_last_pp_rank=True,
        max_num_reqs=4,
        croupier_scheduled=batch.req_ids,
        main_stream=device.main,
        output_copy_stream=device.copies,
        pp_handler=handler if stages > 1 else None,
        pcp_manager=None,
        speculator=None,
        num_speculative_steps=0,
        croupier_writer=device,
        lora_config=None,
        croupier_timeout=1.0,
        eplb=SimpleNamespace(step=lambda *_, **__: None),
        kv_connector=SimpleNamespace(post_forward=lambda *_, **__: None),
        aux_output_connector=None,
        check_ep_fault=False,
        model=SimpleNamespace(compute_logits=lambda hidden: hidden * 2),
        model_state=SimpleNamespace(postprocess_state=lambda *_: None),
        prompt_logprobs_worker=SimpleNamespace(
            compute_prompt_logprobs=lambda *_: {}, compute_prompt_token_id_logprobs=lambda *_: {}
        ),
        sampler=SimpleNamespace(penalties_state=SimpleNamespace(output_bin_counts=None)),
        req_states=SimpleNamespace(
            all_token_ids=on_gpu,
            num_computed_tokens=on_gpu,
            prompt_len=on_gpu,
            total_len=on_gpu,
            last_sampled_tokens=None,
            draft_tokens=None,
        ),
        execute_model_state=state_of(batch),
    )
    return runner


def step(device: Device, names: list[str], drawing: list[str], stages: int, ends: bool = False) -> Any:
    runner = runner_of(device, batch_of(names, ends), stages)
    runner.croupier_order = Order(5, None if drawing == names else [names.index(name) for name in drawing])
    with device:
        output = runner.sample_tokens(None)
    assert device.current is device.main
    assert runner.croupier_under_way is None
    return output.get_output().sampled_token_ids


@pytest.mark.parametrize(
    ("names", "drawing", "tokens"),
    [(["a", "b"], ["a", "b"], [[11], [12]]), (["a", "c", "b"], ["b", "a"], [[12], [], [11]])],
    ids=["all draw", "some draw"],
)
def test_the_next_batch_of_the_last_stage_waits_for_no_token(
    device: Device, names: list[str], drawing: list[str], tokens: list[list[int]]
) -> None:
    assert step(device, names, drawing, stages=2) == tokens
    assert device.main.after == {"logits"}
    counts = [len(row) for row in tokens]
    assert device.sent == [[row or [0] for row in tokens], [counts, [0] * len(names)]]
    assert device.counted == ([[0]] * len(names), counts)
    where = dict(device.done)
    assert where["logits"] == where["post_update"] == "main"
    assert where["await"] == where["broadcast"] == "side"
    assert where["copy"] == "copies"
    order = [what for what, _ in device.done]
    assert order.index("logits") < order.index("await") < order.index("broadcast") < order.index("copy")
    assert {stream for what, stream in device.done if what.startswith("aten.")} == {"side", "copies"}
    # Samplers read the logits until the tokens are there, and nobody else keeps them that long.
    assert any(name == "side" and tensor.shape == (len(drawing), 8) for tensor, name in device.recorded)
    if len(drawing) < len(names):
        # The rows' places are the main stream's memory.
        assert any(
            name == "side" and tensor.dtype == torch.int64 and tensor.dim() == 1 and len(tensor) == 2
            for tensor, name in device.recorded
        )


def test_tokens_that_no_other_stage_needs_are_copied_all_the_same(device: Device) -> None:
    assert step(device, ["a", "b"], ["a", "b"], stages=2, ends=True) == [[11], [12]]
    assert device.sent == []
    assert device.main.after == {"logits"}
    assert ("copy", "copies") in device.done


def test_with_one_stage_all_is_on_the_models_stream(device: Device) -> None:
    assert step(device, ["a", "c", "b"], ["b", "a"], stages=1) == [[12], [], [11]]
    assert {stream for _, stream in device.done} == {"main", "copies"}
    assert device.done.index(("await", "main")) < device.done.index(("copy", "copies"))
    # The next batch's first tokens.
    assert device.counted == ([[12], [0], [11]], [1, 0, 1])
    assert device.recorded == []


def test_a_batch_without_a_token_to_come_waits_for_nothing(device: Device) -> None:
    runner = runner_of(device, batch_of(["c", "c"], ends=False), stages=2)
    runner.croupier_order = Order(None)
    with device:
        output = runner.sample_tokens(None)
    assert output.get_output().sampled_token_ids == [[], []]
    assert {what for what, _ in device.done} == {"copy", "post_update"}
