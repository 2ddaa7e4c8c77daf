"""The transformer of bench/verified: its rows, and how they depend on the shape of a pass. Needs torch."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support import Daemon  # noqa: E402

sys.path.append(str(Path(__file__).parents[2] / "bench" / "verified"))
from batchings import batchings  # noqa: E402
from model import EPSILON, FOLLOWING, ROTARY_BASE, SIZES, Decoder  # noqa: E402
from passes import FixedShape, Member  # noqa: E402
from row_bits import compare_rows  # noqa: E402
from served import Place, serve  # noqa: E402
from workload import requests, unverified  # noqa: E402

SIZE = SIZES["tiny"]
CONTEXT = 96
SHAPE = FixedShape(4, 16)
TOKENS = np.random.default_rng(2).integers(0, SIZE.vocab, 70).tolist()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def decoder(dtype: "torch.dtype" = torch.bfloat16, **options: object) -> Decoder:
    return Decoder(SIZE, slots=12, context=CONTEXT, dtype=dtype, **options)


def rows_of_reference(model: Decoder, tokens: list[int]) -> np.ndarray:
    """Of a whole sequence, one head after another, without a cache, in float64."""
    weights, half = model.weights, SIZE.head_size // 2

    def wide(tensor: "torch.Tensor") -> np.ndarray:
        return tensor.double().numpy()

    def norm(x: np.ndarray, weight: "torch.Tensor") -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * wide(weight)

    def turned(x: np.ndarray) -> np.ndarray:
        places = np.arange(len(x))[:, None] * ROTARY_BASE ** (-np.arange(half) / half)
        low, high = x[:, :half], x[:, half:]
        sin, cos = np.sin(places), np.cos(places)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)

    followed = (np.array(tokens) + FOLLOWING) % SIZE.vocab
    x = wide(weights.embedding)[followed] * weights.embedding_scale
    for layer in weights.layers:
        parts = norm(x, layer.attention_norm) @ wide(layer.qkv).T + wide(layer.qkv_bias)
        heads = np.split(parts, SIZE.heads + 2 * SIZE.kv_heads, -1)
        read = []
        for head in range(SIZE.heads):
            shared = head // (SIZE.heads // SIZE.kv_heads)
            queries, keys = turned(heads[head]), turned(heads[SIZE.heads + shared])
            scores = queries @ keys.T / np.sqrt(SIZE.head_size)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            chances = np.exp(scores - scores.max(-1, keepdims=True))
            chances /= chances.sum(-1, keepdims=True)
            read.append(chances @ heads[SIZE.heads + SIZE.kv_heads + shared])
        x = x + np.concatenate(read, -1) @ wide(layer.attention_out).T
        gate, up = np.split(norm(x, layer.mlp_norm) @ wide(layer.gate_up).T, 2, -1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ wide(layer.down).T
    return norm(x, weights.final_norm) @ wide(weights.embedding).T


def replayed(model: Decoder) -> "torch.Tensor":
    """The rows of TOKENS, from one window after another."""
    starts = range(0, len(TOKENS), SHAPE.width)
    chunks = [(start, TOKENS[start : start + SHAPE.width]) for start in starts]
    return torch.cat(
        [model.replay(SHAPE, [Member(0, chunk, start)])[: len(chunk)] for start, chunk in chunks]
    )


def test_both_passes_compute_the_rows_of_a_reference() -> None:
    model = decoder(torch.float32)
    expected = rows_of_reference(model, TOKENS)
    assert np.abs(replayed(model).numpy() - expected).max() < 1e-3
    for position, token in enumerate(TOKENS):
        # Beside another sequence, which is some tokens ahead.
        rows = model.decode([7, token], [position + 9, position], [2, 3])
        assert np.abs(rows[1].numpy() - expected[position]).max() < 1e-3


on_each_device = pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])


@on_each_device
def test_a_row_of_a_fixed_shape_depends_on_its_own_history_alone(device: str) -> None:
    lines = list(compare_rows(decoder(device=device, split_k=True), SHAPE, [1, 12]))
    assert [line["different"] for line in lines[: SHAPE.groups]] == [0] * SHAPE.groups
    # Of a small batch, products are split.
    assert lines[SHAPE.groups]["different"] > 0


@on_each_device
def test_no_pass_overwrites_rows_that_are_still_lent(device: str) -> None:
    model = decoder(device=device)
    model.prepare(2, [SHAPE])
    lent = [model.replay(SHAPE, [Member(0, TOKENS[:10], 0)]), model.decode([5, 6], [10, 0], [0, 1])]
    kept = [rows.clone() for rows in lent]
    model.replay(SHAPE, [Member(2, TOKENS[20:30], 0)])
    model.decode([8, 9], [11, 1], [0, 1])
    assert all(torch.equal(rows, copy) for rows, copy in zip(lent, kept, strict=True))
    model.replay(SHAPE, [Member(2, TOKENS[:10], 0)])
    assert torch.equal(model.replay(SHAPE, [Member(3, TOKENS[:10], 0)])[:10], kept[0][:10])


def test_a_replay_replaces_what_decoding_stored() -> None:
    model = decoder(split_k=True)
    expected = replayed(model)
    model.replay(SHAPE, [Member(5, TOKENS[:10], 0)])
    differing = 0
    for position in range(10, 40):
        row = model.decode([TOKENS[position]], [position], [5])
        differing += not torch.equal(row[0], expected[position])
    assert differing > 0
    for start in (10, 25):
        rows = model.replay(SHAPE, [Member(5, TOKENS[start : start + 15], start)])
        assert torch.equal(rows[:15], expected[start : start + 15])


def test_verified_texts_are_the_same_in_ten_batchings_and_others_are_not(daemon: Daemon, name: str) -> None:
    model = decoder(split_k=True)
    asked = requests(10, vocab=SIZE.vocab, tokens=32, prompt=(1, 40))
    place = Place(daemon, model, SIZE.vocab, "bf16", "rows", -1, prompts=FixedShape(2, 16))
    verified = [serve(place, each, SHAPE) for each in batchings(asked)]
    assert all(served.texts == verified[0].texts for served in verified)
    assert sum(served.counts.rollbacks for served in verified) > 0
    plain = [serve(place, each, SHAPE) for each in batchings([unverified(each) for each in asked])]
    assert any(served.texts != plain[0].texts for served in plain)
    assert all(served.counts.window_passes == 0 for served in plain)
