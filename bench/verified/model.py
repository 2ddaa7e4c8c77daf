"""A decoder of Qwen2.5's shape with random weights: RMSNorm, rotary positions, grouped queries, SwiGLU.

Nothing in it is made to be independent of the batch. It calls what PyTorch has, and a row's last bits depend
on the shape of the pass that computed it. A CPU's kernels hardly differ between batches of two and more rows:
with `split_k` a decoding pass adds up the last product of each layer in parts, the more of them the smaller
the batch is, as GPUs' kernels do where the sum is long and the rows are few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from passes import FixedShape, Member
from static_pass import StaticPass, on_host
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

EPSILON = 1e-6
ROTARY_BASE = 1e6
# Rows of a batch, and into how many parts a product is split then. Larger batches are not split.
SPLITS = {8: 4, 16: 3, 32: 2}
# A decoding pass reads this many positions or a multiple of it, as many as its longest sequence has.
REACH = 64
# Sizes of small decoding batches on a GPU. Larger ones are multiples of 8.
SMALL_BATCHES = (1, 2, 4)
# The first that takes a mask, as the second does on a GPU. cuDNN's is left out, as it chooses among kernels.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# The token that a token favours has an id that is larger by this.
FOLLOWING = 41


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
    - Queries and keys are doubled: scores have a deviation of 4, and a row reads a few places, not all.
    - The last norm scales the logits to a deviation of sqrt(2 ln V), at which a few of V independent normal
      logits hold most of the probability. The two best of them are as close as 1 on average, in every row.
    - A trained model's are not: most of its rows have a clear best token, which no rounding changes. So each
      token favours the one that follows it by FOLLOWING: the embedding that is fed is this one's, and the
      head is tied. FAVOUR says how much. At 0.69 the favoured logit is on average 1.05 to 1.15 times as high
      as the largest other one, and varies as they do: it is the best in about four fifths of the rows, and
      the entropy is about 1 nat. On an H100 a verifying pass still changed about 4 % of the tokens then.
    """

    ATTENTION = 0.2
    FAVOUR = 0.77

    def __init__(self, size: Size, seed: int, device: torch.device, dtype: torch.dtype) -> None:
        self._generator = torch.Generator(device).manual_seed(seed)
        self._like = {"device": device, "dtype": dtype}
        self.embedding = self._normal(size.vocab, size.hidden, deviation=size.hidden**-0.5)
        # What the layers add has a deviation that grows with the root of their number.
        self.embedding_scale = self.FAVOUR * math.sqrt(2 * math.log(size.vocab) * size.layers)
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
        # Keys, then values. One slot more, into which padding is written.
        self._cache = torch.zeros(
            (size.layers, slots + 1, 2 * size.kv_heads, context, size.head_size),
            device=self._device,
            dtype=dtype,
        )
        half = torch.arange(0, size.head_size, 2, device=self._device, dtype=torch.float32)
        angles = torch.outer(
            torch.arange(context, device=self._device, dtype=torch.float32),
            ROTARY_BASE ** (-half / size.head_size),
        )
        self._cos = torch.cat((angles.cos(), angles.cos()), -1)
        self._sin = torch.cat((-angles.sin(), angles.sin()), -1)
        self._passes: dict[tuple[FixedShape, int, int], StaticPass] = {}
        self._graphs = self._device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if self._graphs else None

    def decode(self, tokens: list[int], positions: list[int], slots: list[int]) -> Tensor:
        longest = max(positions) + 1
        reach = min(self.context, (longest + REACH - 1) // REACH * REACH)
        count = len(tokens)
        batch = padded_batch(count) if self._graphs else count
        parts = self._parts(batch) if self._split_k else 1
        padding = batch - count
        tokens, positions = tokens + [0] * padding, positions + [0] * padding
        slots = slots + [self.slots] * padding
        return self._rows(FixedShape(batch, 1), tokens, positions, slots, slots, reach, parts)[:count]

    def replay(self, shape: FixedShape, members: list[Member]) -> Tensor:
        rows = shape.groups * shape.width
        tokens, positions, into = [0] * rows, [0] * rows, [self.slots] * rows
        read = [self.slots] * shape.groups
        for number, member in enumerate(members):
            count = len(member.tokens)
            place = slice(number * shape.width, number * shape.width + count)
            tokens[place] = member.tokens
            positions[place] = range(member.position, member.position + count)
            into[place] = [member.slot] * count
            read[number] = member.slot
        return self._rows(shape, tokens, positions, into, read, self.context, parts=1)

    def prepare(self, batch: int, shapes: list[FixedShape]) -> None:
        """On a GPU: captures the passes of these shapes, and those that decode up to so many sequences."""
        if not self._graphs:
            return
        for shape in shapes:
            self.replay(shape, [])
        for count in sorted({padded_batch(count) for count in range(1, batch + 1)}):
            for reach in range(REACH, self.context + REACH, REACH):
                self.decode([0] * count, [min(reach, self.context) - 1] * count, [self.slots] * count)

    def numbers(self, values: list[int]) -> Tensor:
        return on_host(values, torch.int32, self._device).to(self._device, non_blocking=True)

    def stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream if self._graphs else 0

    @torch.inference_mode()
    def _rows(
        self,
        shape: FixedShape,
        tokens: list[int],
        positions: list[int],
        into: list[int],
        read: list[int],
        reach: int,
        parts: int,
    ) -> Tensor:
        """A row for each token. Its keys and values go to the slot that `into` names. It reads those of its
        sequence's slot: of the first `reach` positions, those up to its own.
        """
        key = shape, reach, parts
        if key not in self._passes:
            compute = partial(self._states, shape=shape, reach=reach, parts=parts)
            inputs = 3 * len(tokens) + len(read)
            self._passes[key] = StaticPass(compute, inputs, self._device, self._pool)
        with sdpa_kernel(ATTENTION):
            states = self._passes[key].run([*tokens, *positions, *into, *read])
        # Not part of a graph: so the rows are new memory, which no pass overwrites while they are lent.
        return linear(states, self.weights.embedding)

    def _states(self, numbers: Tensor, *, shape: FixedShape, reach: int, parts: int) -> Tensor:
        """What the head multiplies, for each token."""
        weights, eps = self.weights, EPSILON
        rows = shape.groups * shape.width
        tokens, places, into, read = numbers.split((rows, rows, rows, shape.groups))
        cos, sin = self._cos[places].unsqueeze(1), self._sin[places].unsqueeze(1)
        x = weights.embedding[(tokens + FOLLOWING) % self.size.vocab] * weights.embedding_scale
        mask = self._mask(places, shape, reach, x.dtype)
        for layer, cache in zip(weights.layers, self._cache, strict=True):
            normed = rms_norm(x, x.shape[-1:], layer.attention_norm, eps)
            queries, stored = self._rotated(linear(normed, layer.qkv, layer.qkv_bias), cos, sin)
            cache[into, :, places] = stored
            attended = self._attend(queries, cache[:, :, :reach][read], mask, shape)
            x.addmm_(attended, layer.attention_out.t())
            normed = rms_norm(x, x.shape[-1:], layer.mlp_norm, eps)
            gate, up = linear(normed, layer.gate_up).chunk(2, -1)
            for part, matrix in split(silu(gate) * up, layer.down, parts):
                x.addmm_(part, matrix.t())
        return rms_norm(x, x.shape[-1:], weights.final_norm, eps)

    @staticmethod
    def _parts(batch: int) -> int:
        return next((parts for rows, parts in SPLITS.items() if batch <= rows), 1)

    def _rotated(self, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Queries, and keys with values, by token and head. Places turn queries and keys."""
        size = self.size
        heads = qkv.unflatten(-1, (-1, size.head_size))
        turned = heads[:, : size.heads + size.kv_heads]
        torch.addcmul(turned * cos, turned.roll(size.head_size // 2, -1), sin, out=turned)
        return heads.split((size.heads, 2 * size.kv_heads), 1)

    def _mask(self, places: Tensor, shape: FixedShape, reach: int, dtype: torch.dtype) -> Tensor:
        """Minus infinity where a position comes after a query's own."""
        future = torch.arange(reach, device=self._device) > places.unsqueeze(-1)
        mask = torch.zeros(future.shape, dtype=dtype, device=self._device).masked_fill(future, -torch.inf)
        shared = self.size.heads // self.size.kv_heads
        return mask.view(shape.groups, 1, shape.width, reach).repeat(1, 1, shared, 1)

    def _attend(self, queries: Tensor, read: Tensor, mask: Tensor, shape: FixedShape) -> Tensor:
        """The queries that share a head of keys are rows of one product."""
        size = self.size
        keys, values = read.chunk(2, 1)
        by_head = queries.view(shape.groups, shape.width, size.kv_heads, -1, size.head_size)
        grouped = by_head.permute(0, 2, 3, 1, 4).flatten(2, 3)
        attended = scaled_dot_product_attention(
            grouped, keys, values, attn_mask=mask.expand(-1, size.kv_heads, -1, -1)
        )
        by_token = attended.unflatten(2, (-1, shape.width)).permute(0, 3, 1, 2, 4)
        return by_token.reshape(len(queries), -1)


def padded_batch(count: int) -> int:
    """Of a decoding pass on a GPU, which has a graph for each batch size."""
    return next((size for size in SMALL_BATCHES if count <= size), (count + 7) // 8 * 8)


def split(x: Tensor, matrix: Tensor, parts: int) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(x.chunk(parts, -1), matrix.chunk(parts, -1), strict=True)
