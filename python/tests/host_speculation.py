"""The model of host_engine with drafts: its worker is the plugin's own runner, on the host."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import host_engine
import numpy as np
import torch
from host_engine import HostExecutorWithSession
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput

from croupier import Writer
from croupier.vllm.order import Order
from croupier.vllm.runner import CroupierModelRunner

Drafter = Callable[[list[int], int], list[int]]
DRAFTS = 3
NGRAM = {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_max": 3, "prompt_lookup_min": 2}


def right(stream: Callable[[list[int]], list[int]]) -> Drafter:
    """Drafts what will be drawn; `stream` has a request's prompt and output."""

    def draft(tokens: list[int], count: int) -> list[int]:
        following = stream(tokens)[len(tokens) : len(tokens) + count]
        return following + [0] * (count - len(following))

    return draft


def mixed(stream: Callable[[list[int]], list[int]], seed: int = 1, *, beyond: bool = True) -> Drafter:
    """Right, wrong from some place on, wrong, or none. `beyond`: some ids are none of the model's.

    vLLM ends a grammar that is given such an id.
    """
    draft_right, chance = right(stream), random.Random(seed)

    def draft(tokens: list[int], count: int) -> list[int]:
        drafts, wrong = draft_right(tokens, count), chance.randrange(2 * count + 2)
        if wrong < count:
            others = [chance.randrange(host_engine.VOCAB)]
            if beyond:
                others.append(host_engine.VOCAB + 9)
            other = chance.choice(others)
            drafts[wrong] = chance.choice([-1, drafts[wrong] ^ 1, other])
        return [-1] * count if wrong == 2 * count else drafts

    return draft


class HostRunner(CroupierModelRunner):
    """Of what sample() looks at. A hidden state is the row of logits itself."""

    def __init__(self, drafts: int) -> None:
        self.device = torch.device("cpu")
        self.max_num_reqs = 64
        self.pp_handler = self.lora_config = None
        self.num_speculative_steps = drafts
        self.req_states = SimpleNamespace(prefill_len=SimpleNamespace(gpu=torch.zeros(0)))

    def _part(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden

    def _stream(self) -> int:
        return 0

    def _keep_rows(self, logits: torch.Tensor) -> None:
        self.croupier_rows = logits.numpy()


class SpeculatingExecutor(HostExecutorWithSession):
    """Keeps of vLLM's runner how it lays a batch's tokens, and what it does with those that are accepted."""

    drafter: Drafter
    trims: random.Random | None = None
    """Verifies fewer drafts than are scheduled, now and then, as adaptive verification does."""

    def _init_executor(self) -> None:
        super()._init_executor()
        self.most = self.vllm_config.num_speculative_tokens
        self.runner = HostRunner(self.most)
        self.drafter = lambda tokens, count: [-1] * count
        self.proposed = DraftTokenIds([], [])
        self.windows: list[tuple[int, int]] = []
        """Of each that drew: its rows, and its tokens."""

    def rank_croupier_attach(
        self, segment_path: str, timeout: float, verify_every: int, gathers: bool
    ) -> None:
        self.runner.croupier_writer = self.writer = Writer(segment_path)
        self.runner.croupier_timeout = 20.0
        self.runner.croupier_verify_every = verify_every

    def rank_execute_model(self, scheduled: Any) -> Any:
        before = {name: request.computed for name, request in self.requests.items()}
        output = super().rank_execute_model(scheduled)
        for name in scheduled.scheduled_cached_reqs.req_ids:
            # The scheduler counts drafts that may be rejected, and the runner corrects that on its device.
            request = self.requests[name]
            assert before[name] <= request.computed
            request.computed = before[name]
        self.scheduled = scheduled
        self.runner.croupier_scheduled = scheduled.num_scheduled_tokens
        return output

    def rank_sample_tokens(self, order: Any) -> ModelRunnerOutput:
        assert isinstance(order, Order)
        names, counts = self.batch
        batch, lengths = self._batch_of(names, counts)
        self.runner.croupier_order = order
        output, sampled, rejected = self.runner.sample(batch.hidden, batch, None)
        tokens = output.sampled_token_ids.tolist()
        for row, name in enumerate(names):
            del tokens[row][int(sampled[row]) :]
            request = self.requests[name]
            request.tokens += tokens[row]
            request.computed += lengths[row] - int(rejected[row])
            assert request.computed <= len(request.tokens)
            if tokens[row]:
                self.windows.append((int(batch.cu_num_logits.diff()[row]), len(tokens[row])))
                assert request.computed == len(request.tokens) - 1
            request.drafts = self.drafter(request.tokens, self.most)
        knows = self.scheduled.has_structured_output_requests
        drafts = [self.requests[name].drafts if knows else [-1] * self.most for name in names]
        self.proposed = DraftTokenIds(list(names), [list(each) for each in drafts])
        answer = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: row for row, name in enumerate(names)},
            sampled_token_ids=tokens,
            prompt_logprobs_dict={},
        )
        rows, self.runner.croupier_rows = self.runner.croupier_rows, None
        if rows is not None:
            answer.croupier_rows = rows
        return answer

    def rank_take_draft_token_ids(self) -> DraftTokenIds:
        return self.proposed

    def _batch_of(self, names: list[str], counts: dict[str, int]) -> tuple[Any, list[int]]:
        """vLLM's InputBatch, as far as the plugin looks at it, and how many tokens each request has in it."""
        scheduled = self.scheduled.scheduled_spec_decode_tokens
        # Requests' states have another order than the batch.
        states = list(self.requests)
        ids: list[int] = []
        positions: list[int] = []
        logits_indices: list[int] = []
        starts, lengths, hidden = [0], [], []
        blank = np.zeros(host_engine.VOCAB, np.float32)
        for name in names:
            request, drafts = self.requests[name], len(scheduled.get(name, ()))
            cut = self.trims.randrange(drafts + 1) if self.trims is not None and drafts else 0
            length = counts[name] - cut
            rows = 1 + drafts - cut
            known = request.tokens + getattr(request, "drafts", [0] * self.most)[: drafts - cut]
            known = known[: request.computed + length]
            assert len(known) == request.computed + length
            for place in range(request.computed, len(known)):
                is_read = place >= len(known) - rows
                if is_read:
                    logits_indices.append(len(ids))
                ids.append(known[place])
                positions.append(place)
                hidden.append(self._row_of(known[: place + 1]) if is_read else blank)
            starts.append(len(logits_indices))
            lengths.append(length)
        prefill = [self.requests[name].prefill for name in states]
        self.runner.req_states.prefill_len.gpu = torch.tensor(prefill, dtype=torch.int32)
        batch = SimpleNamespace(
            req_ids=names,
            num_reqs=len(names),
            hidden=torch.from_numpy(np.stack(hidden)),
            input_ids=torch.tensor(ids, dtype=torch.int32),
            positions=torch.tensor(positions),
            logits_indices=torch.tensor(logits_indices),
            cu_num_logits=torch.tensor(starts, dtype=torch.int32),
            idx_mapping=torch.tensor([states.index(name) for name in names]),
        )
        return batch, lengths

    def _row_of(self, tokens: list[int]) -> np.ndarray:
        row = host_engine.row_after(tokens)
        if len(tokens) == self.nan_at:
            row[3] = np.nan
        return row
