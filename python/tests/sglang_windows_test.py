"""Windows of random trees, decided by a real daemon from rows that are hashes of their histories.

The streams are those without drafts, whatever is drafted, retracted, ended within a window or failed.
"""

from __future__ import annotations

import functools
import random
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sglang")

import torch  # noqa: E402
from sglang.srt.speculative.eagle_info import EagleVerifyInput  # noqa: E402
from sglang_plane_test import MOST, VOCAB, Req, planes  # noqa: E402

from croupier.sglang import trees  # noqa: E402
from croupier.sglang.plane import Plane  # noqa: E402
from croupier.sglang.windows import WindowPlane  # noqa: E402

LENGTH = 24
KINDS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9, "min_p": 0.02, "frequency_penalty": 0.7, "repetition_penalty": 1.2},
    {"temperature": 1.1, "top_k": 12, "top_p": 0.9, "presence_penalty": 0.5},
    {"temperature": 1.0, "custom_params": {"dry_multiplier": 1.5, "dry_allowed_length": 1}},
    {"temperature": 1.0, "custom_params": {"mirostat": 2}},
    {"temperature": 0.7, "logit_bias": {"3": 4.0}},
]


def row_after(tokens: list[int], nan_at: int) -> np.ndarray:
    draws = np.random.Generator(np.random.PCG64(hash((*tokens[-2:], len(tokens))) & 0xFFFFFFFF))
    row = draws.normal(0, 2.5, VOCAB).astype(np.float32)
    if len(tokens) == nan_at:
        row[5] = np.nan
    return row


class Request(Req):
    grammar = None

    def __init__(self, number: int, chance: random.Random) -> None:
        kind = KINDS[number % len(KINDS)]
        super().__init__(f"request {number}", 2 + number % 3, returns_logprob=number % 4 == 0, **kind)
        self.sampling_params.sampling_seed = 1000 + number
        self.sampling_params.custom_params = {**(kind.get("custom_params") or {}), "logprob_mode": "raw"}
        self.stops = set(chance.sample(range(VOCAB), 3))
        self.most = chance.randrange(1, LENGTH)
        self.nan_at = 8 if number % 9 == 5 else -1
        self.found_logprobs: list[float] = []
        self.is_retracted = False
        self.tokens: list[int] = []
        """As the device knows them."""

    def take(self, tokens: list[int], logprobs: list[float]) -> None:
        """As SGLang's scheduler takes them, which stops within them."""
        if self.to_finish is not None:
            self.ended = self.to_finish
            return
        for token, logprob in zip(tokens, logprobs, strict=False):
            self.output_ids.append(token)
            self.found_logprobs.append(logprob)
            if token in self.stops or len(self.output_ids) == self.most:
                self.ended = SimpleNamespace(message="finished")
                return


class Scheduler:
    """Batches of SGLang's: prompts or windows, one ahead where it overlaps, and retracted now and then."""

    def __init__(self, plane: Plane, width: int, overlaps: bool, chance: random.Random) -> None:
        self.plane, self.width, self.overlaps, self.chance = plane, width, overlaps, chance
        self.streams: dict[str, list[int]] = {}
        """What is drawn without drafts; empty: nothing is drafted."""
        self.accepted = self.retracted = 0

    def serve(self, requests: list[Request]) -> None:
        waiting, running, started = deque(requests), [], deque()
        while waiting or running or started:
            running = [request for request in running if not request.finished()]
            if len(running) > 1 and self.chance.random() < 0.3:
                retracted = running.pop(self.chance.randrange(len(running)))
                retracted.is_retracted = True
                self.retracted += 1
                waiting.append(retracted)
            room = MOST - len(running)
            # A retracted one's batch is over when its prompt is computed again.
            if waiting and room and not (waiting[0].is_retracted and started):
                coming = [waiting.popleft()]
                for request in coming:
                    request.is_retracted = False
                    request.tokens = [*request.origin_input_ids, *request.output_ids]
                started.append(self.prefill(coming))
                running += coming
            elif running:
                started.append(self.decode(list(running)))
            while started and (len(started) > 1 or not self.overlaps or not running):
                self.end(*started.popleft())

    def begin(self, requests: list[Request], is_decode: bool) -> SimpleNamespace:
        scheduled = SimpleNamespace(
            reqs=requests,
            forward_mode=SimpleNamespace(is_decode=lambda: is_decode),
            decoding_reqs=None,
            return_logprob=any(request.return_logprob for request in requests),
        )
        self.plane.begin(scheduled, None)
        return scheduled

    def prefill(self, requests: list[Request]) -> tuple[Any, Any]:
        return self.one_each(requests, is_decode=False)

    def one_each(self, requests: list[Request], is_decode: bool) -> tuple[Any, Any]:
        scheduled = self.begin(requests, is_decode)
        rows = torch.tensor(np.stack([row_after(one.tokens, one.nan_at) for one in requests]))
        output = SimpleNamespace(next_token_logits=rows, next_token_logprobs=None)
        info = SimpleNamespace(sampling_info=SimpleNamespace(grammars=None))
        tokens = self.plane.sample(output, info)
        for request, token in zip(requests, tokens.tolist(), strict=True):
            request.tokens.append(token)
        return scheduled, SimpleNamespace(next_token_ids=tokens, copy_done=None, logits_output=output)

    def decode(self, requests: list[Request]) -> tuple[Any, Any]:
        if not self.streams:
            return self.one_each(requests, is_decode=True)
        scheduled = self.begin(requests, is_decode=True)
        drafted = [self.tree_for(request) for request in requests]
        verified = verify_input([(tokens, parents) for tokens, parents, _ in drafted], requests, self.width)
        rows = torch.tensor(np.stack([row for *_, rows in drafted for row in rows]))
        output = SimpleNamespace(next_token_logits=rows, next_token_logprobs=None)
        predict, lens, index = self.plane.verify(verified, output, None)
        assert (predict.dtype, lens.dtype, index.dtype) == (torch.int32,) * 3
        assert index.shape == (len(requests), verified.max_tree_depth)
        # As SGLang brings what is accepted to the front.
        front = predict.view(-1, self.width).clone()
        for number, request in enumerate(requests):
            path = [int(node) for node in index[number] if node >= 0]
            assert len(path) == lens[number] >= 1
            assert path[0] == number * self.width
            front[number, : len(path)] = predict[path]
            request.tokens += predict[path].tolist()
            self.accepted += len(path) - 1
        result = SimpleNamespace(
            next_token_ids=front.flatten(), accept_lens=lens, copy_done=None, logits_output=output
        )
        return scheduled, result

    def tree_for(self, request: Request) -> tuple[list[int], list[int], list[np.ndarray]]:
        """The tokens and parents of its nodes, each computed from what leads to it."""
        chance, stream = self.chance, self.streams[request.rid]
        tokens, parents, paths = [request.tokens[-1]], [0], [list(request.tokens)]
        outputs = len(request.origin_input_ids)
        for node in range(1, self.width):
            parent = node - 1 if self.plane._is_chain else chance.choice([node - 1, chance.randrange(node)])
            known = paths[parent]
            place = len(known) - outputs
            right = stream[place] if known[outputs:] == stream[:place] and place < len(stream) else 0
            token = right if chance.random() < 0.75 else chance.randrange(VOCAB)
            tokens.append(token)
            parents.append(parent)
            paths.append([*known, token])
        return tokens, parents, [row_after(path, request.nan_at) for path in paths]

    def end(self, scheduled: Any, result: Any) -> None:
        self.plane.collect(scheduled, result)
        lens = getattr(result, "accept_lens", None)
        width = 1 if lens is None else self.width
        for number, request in enumerate(scheduled.reqs):
            if request.finished() or request.is_retracted:
                continue
            count = 1 if lens is None else int(lens[number])
            tokens = result.next_token_ids[number * width :][:count].tolist()
            logprobs = [0.0] * count
            if request.return_logprob:
                found = result.logits_output.next_token_logprobs[number]
                logprobs = [float(found)] if lens is None else found[:count].tolist()
            request.take(tokens, logprobs)
        self.plane.settle(scheduled)


def verify_input(drafted: list[Any], requests: list[Request], width: int) -> EagleVerifyInput:
    next_token = torch.full((len(drafted), width), -1)
    next_sibling = next_token.clone()
    positions = []
    for number, (_, parents) in enumerate(drafted):
        depths = [0]
        for node in range(1, width):
            depths.append(depths[parents[node]] + 1)
        positions += [len(requests[number].tokens) - 1 + depth for depth in depths]
        for node in range(width - 1, 0, -1):
            next_sibling[number, node] = next_token[number, parents[node]]
            next_token[number, parents[node]] = node
    return EagleVerifyInput(
        draft_token=torch.tensor([token for tokens, _ in drafted for token in tokens]),
        custom_mask=None,
        positions=torch.tensor(positions),
        retrieve_index=torch.arange(len(drafted) * width).view(-1, width),
        retrieve_next_token=next_token,
        retrieve_next_sibling=next_sibling,
        retrieve_cum_len=None,
        spec_steps=width - 1,
        topk=1,
        draft_token_num=width,
        capture_hidden_mode=None,
        seq_lens_sum=0,
        seq_lens_cpu=None,
    )


def requests_of(count: int, seed: int) -> list[Request]:
    chance = random.Random(seed)
    return [Request(number, chance) for number in range(count)]


def results_of(requests: list[Request]) -> list[Any]:
    """Of a request that fails: only that, as it may be the last of a window."""
    return [one.output_ids if one.ended.message == "finished" else [one.rid] for one in requests]


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("is_chain", [True, False])
def test_streams_are_those_without_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_chain: bool, overlaps: bool
) -> None:
    width = 5 if is_chain else 8
    make = functools.partial(WindowPlane, vocab=VOCAB, is_chain=is_chain)
    [plane] = planes(tmp_path, monkeypatch, [lambda value: value], width, make)
    retracted = accepted = 0
    try:
        for seed in range(4):
            # The longest alone says what would have been drafted rightly behind a stop.
            endless = requests_of(27, seed)
            for one in endless:
                one.stops, one.most, one.nan_at = set(), LENGTH + width, -1
            Scheduler(plane, width, False, random.Random(seed)).serve(endless)
            plain, ours = requests_of(27, seed), requests_of(27, seed)
            Scheduler(plane, width, overlaps, random.Random(seed)).serve(plain)
            speculating = Scheduler(plane, width, overlaps, random.Random(seed + 100))
            speculating.streams = {one.rid: one.output_ids for one in endless}
            speculating.serve(ours)
            assert results_of(ours) == results_of(plain)
            for mine, theirs in zip(ours, plain, strict=True):
                if mine.ended.message != "finished":
                    continue
                assert mine.found_logprobs == pytest.approx(theirs.found_logprobs, abs=1e-6)
            retracted += speculating.retracted
            accepted += speculating.accepted
        assert retracted > 10
        assert accepted > 100
        assert any("NaN" in one.ended.message for one in plain)
    finally:
        plane.close()


def test_parents_follow_from_the_links() -> None:
    chance = random.Random(5)
    for _ in range(300):
        width, count = chance.randrange(1, 20), chance.randrange(1, 4)
        parents = [[0] + [chance.randrange(node) for node in range(1, width)] for _ in range(count)]
        requests = [Request(number, chance) for number in range(count)]
        for request in requests:
            request.tokens = [1]
        made = verify_input([([0] * width, each) for each in parents], requests, width)
        found = trees.parents_of(made.retrieve_next_token, made.retrieve_next_sibling)
        assert found.tolist() == parents


def test_what_is_accepted_is_as_sglang_has_it() -> None:
    """Its own verification of greedy drafts, as a loop, accepts the same."""
    layout = trees.Layout(torch.tensor([2, 0]), torch.zeros(2, dtype=torch.int64), 3)
    tokens = torch.tensor([7, -1, 9, -1, -1, -1, -1, -1], dtype=torch.int32)
    predict, count, index = trees.accepted_of(layout, tokens, width=4, depth=3)
    assert predict.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 9, 0]
    # Nobody reads the token of a request without a decision, or without a column.
    assert count.tolist() == [1, 1, 2]
    assert index.tolist() == [[0, -1, -1], [4, -1, -1], [8, 10, -1]]
