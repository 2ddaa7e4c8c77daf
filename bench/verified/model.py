"""A decoder of Qwen2.5's shape with random weights: RMSNorm, rotary positions, grouped queries, SwiGLU.

Nothing in it is made to be independent of the batch. It calls what PyTorch has, and a row's last bits depend
on the shape of the pass that computed it. A CPU's kernels hardly differ between batches of two and more rows:
with `split_k` a decoding pass adds up the last product of each layer in parts, the more of them the smaller
the batch is, as GPUs' kernels do where the sum is long and the rows are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from passes import FixedShape, Member
from torch import Tensor
from torch.nn.functional import linear, silu

EPSILON = 1e-6
ROTARY_BASE = 1e6
# Rows of a batch, and into how many parts a product is split then. Larger batches are not split.
SPLITS = {8: 4, 16: 3, 32: 2}
# A decoding pass reads this many positions or a multiple of it, as many as its longest sequence has.
REACH = 32


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocab: int


SIZES = {
    "tiny": Size(2, 64, 4, 2, 16, 128, 1024),
    "small": Size(4, 256, 4, 2, 64, 704, 4096),
    "qwen2.5-1.5b": Size(28, 1536, 12, 2, 128, 8960, 151936),
}


@dataclass
class Layer:
    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    attention_out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class RandomWeights:
    """Scales at which random weights give text that neither repeats itself nor is noise.

    - Matrices keep the variance of what they multiply. Attention's last one has a fifth of that: else a row
      hardly depends on its own token.
    - The embedding of the token that is fed is small beside what the layers add, because the tied head
      favours this token: by less than two deviations of the logits.
    - Queries and keys are doubled: scores have a deviation of 4, and a row reads a few places, not all.
    - The last norm scales the logits to a deviation of sqrt(2 ln V), at which a few of V independent normal
      logits hold most of the probability.
    """

    ATTENTION = 0.2
    EMBEDDED = 0.3

    def __init__(self, size: Size, seed: int, device: torch.device, dtype: torch.dtype) -> None:
        self._generator = torch.Generator(device).manual_seed(seed)
        self._like = {"device": device, "dtype": dtype}
        self.embedding = self._normal(size.vocab, size.hidden, deviation=size.hidden**-0.5)
        # Each layer adds two vectors whose elements have deviations of about 1.
        self.embedding_scale = self.EMBEDDED * math.sqrt(2 * size.layers)
        self.layers = [self._layer(size) for _ in range(size.layers)]
        self.final_norm = torch.full((size.hidden,), math.sqrt(2 * math.log(size.vocab)), **self._like)

    def _layer(self, size: Size) -> Layer:
        queries, values = size.heads * size.head_size, size.kv_heads * size.head_size
        qkv = self._matrix(queries + 2 * values, size.hidden)
        qkv[: queries + values] *= 2
        return Layer(
            attention_norm=torch.ones(size.hidden, **self._like),
            qkv=qkv,
            qkv_bias=self._normal(queries + 2 * values, deviation=0.5),
            attention_out=self._matrix(size.hidden, queries) * self.ATTENTION,
            mlp_norm=torch.ones(size.hidden, **self._like),
            gate_up=self._matrix(2 * size.intermediate, size.hidden),
            down=self._matrix(size.hidden, size.intermediate),
        )

    def _matrix(self, rows: int, columns: int) -> Tensor:
        return self._normal(rows, columns, deviation=columns**-0.5)

    def _normal(self, *shape: int, deviation: float) -> Tensor:
        drawn = torch.randn(*shape, generator=self._generator, device=self._like["device"])
        return (drawn * deviation).to(self._like["dtype"])


class Decoder:
    def __init__(
        self,
        size: Size,
        *,
        slots: int,
        context: int,
        device: str = "cpu",
        dtype: torch.dtype = torch.bfloat16,
        seed: int = 1,
        split_k: bool = False,
    ) -> None:
        self.size, self.slots, self.context = size, slots, context
        self._split_k = split_k
        self._device = torch.device(device)
        self.weights = RandomWeights(size, seed, self._device, dtype)
        # One slot more, into which padding is written.
        shape = (size.layers, slots + 1, size.kv_heads, context, size.head_size)
        self._keys = torch.zeros(shape, device=self._device, dtype=dtype)
        self._values = torch.zeros_like(self._keys)
        halves = torch.arange(0, size.head_size, 2, device=self._device, dtype=torch.float32)
        angles = torch.outer(
            torch.arange(context, device=self._device, dtype=torch.float32),
            ROTARY_BASE ** (-halves / size.head_size),
        )
        self._cos, self._sin = angles.cos(), angles.sin()

    def decode(self, tokens: list[int], positions: list[int], slots: list[int]) -> Tensor:
        longest = max(positions) + 1
        reach = min(self.context, (longest + REACH - 1) // REACH * REACH)
        parts = self._parts(len(tokens)) if self._split_k else 1
        column = [[token] for token in tokens], [[position] for position in positions]
        return self._rows(*column, slots, [[slot] for slot in slots], reach, parts)

    def replay(self, shape: FixedShape, members: list[Member]) -> Tensor:
        tokens = [[0] * shape.width for _ in range(shape.groups)]
        positions = [[0] * shape.width for _ in range(shape.groups)]
        into = [[self.slots] * shape.width for _ in range(shape.groups)]
        slots = [self.slots] * shape.groups
        for row, member in enumerate(members):
            count = len(member.tokens)
            tokens[row][:count] = member.tokens
            positions[row][:count] = range(member.position, member.position + count)
            into[row][:count] = [member.slot] * count
            slots[row] = member.slot
        return self._rows(tokens, positions, slots, into, self.context, parts=1)

    def numbers(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self._device)

    def stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0

    @torch.inference_mode()
    def _rows(
        self,
        tokens: list[list[int]],
        positions: list[list[int]],
        slots: list[int],
        into: list[list[int]],
        reach: int,
        parts: int,
    ) -> Tensor:
        """A row for each token. Its keys and values go to the slot that `into` names. It reads those of its
        sequence's slot: of the first `reach` positions, those up to its own.
        """
        places = self._index(positions)
        read = self._index(slots)
        written = self._index(into).flatten()
        future = torch.arange(reach, device=self._device) > places.unsqueeze(-1)
        x = self.weights.embedding[self._index(tokens)] * self.weights.embedding_scale
        for number, layer in enumerate(self.weights.layers):
            normed = self._norm(x, layer.attention_norm)
            queries, keys, values = self._rotated(linear(normed, layer.qkv, layer.qkv_bias), places)
            self._keys[number][written, :, places.flatten()] = keys.flatten(0, 1)
            self._values[number][written, :, places.flatten()] = values.flatten(0, 1)
            attended = self._attend(
                queries,
                self._keys[number][:, :, :reach][read],
                self._values[number][:, :, :reach][read],
                future,
            )
            x = x + linear(attended, layer.attention_out)
            gate, up = linear(self._norm(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            x = x + split_product(silu(gate) * up, layer.down, parts)
        return linear(self._norm(x, self.weights.final_norm), self.weights.embedding).flatten(0, 1)

    def _index(self, values: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)

    @staticmethod
    def _parts(batch: int) -> int:
        return next((parts for rows, parts in SPLITS.items() if batch <= rows), 1)

    @staticmethod
    def _norm(x: Tensor, weight: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * weight

    def _rotated(self, qkv: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by sequence, token and head. Places turn the first two."""
        size = self.size
        heads = qkv.unflatten(-1, (size.heads + 2 * size.kv_heads, size.head_size))
        turned, values = heads.split((size.heads + size.kv_heads, size.kv_heads), 2)
        cos, sin = self._cos[places].unsqueeze(2), self._sin[places].unsqueeze(2)
        low, high = turned.float().chunk(2, -1)
        turned = torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(qkv.dtype)
        queries, keys = turned.split((size.heads, size.kv_heads), 2)
        return queries, keys, values

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, future: Tensor) -> Tensor:
        """The queries that share a head of keys are rows of one product."""
        size = self.size
        count, width = queries.shape[:2]
        shared = size.heads // size.kv_heads
        grouped = queries.unflatten(2, (size.kv_heads, shared)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        scores = (grouped @ keys.transpose(-1, -2)).float() * size.head_size**-0.5
        scores = scores.masked_fill(future.repeat(1, shared, 1).unsqueeze(1), -torch.inf)
        read = torch.softmax(scores, -1).to(values.dtype) @ values
        by_token = read.unflatten(2, (shared, width)).permute(0, 3, 1, 2, 4)
        return by_token.reshape(count, width, size.heads * size.head_size)


def split_product(x: Tensor, matrix: Tensor, parts: int) -> Tensor:
    return sum(linear(a, b) for a, b in zip(x.chunk(parts, -1), matrix.chunk(parts, -1), strict=True))
