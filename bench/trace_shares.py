#!/usr/bin/env python3
"""How well a hotness order from a few tokens covers the text that they come from.

    bench/trace_shares.py COUNTS.i64 RANKS.i32 [SAMPLE.i32] >result.json

COUNTS.i64 and RANKS.i32 say what a text holds: its ids, most frequent first, and how often each occurs. Traces of some
lengths are drawn from it. Of each: the true share of its hottest blocks of 64 ids, with blocks that no trace has (and
other ties) ascending, shuffled or descending; and how far the shares that `croupier hotset show` would tell lie from the
true ones, by smoothing. SAMPLE.i32 receives the trace of a million tokens.
"""

import array
import itertools
import json
import random
import sys

BLOCK = 64
LENGTHS = (10_000, 100_000, 1_000_000, 4_000_000)
HOT = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
SMOOTHINGS = (0, 0.01, 0.05, 0.1, 0.5, 1)


def read(path, kind):
    values = array.array(kind)
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def by_block(of_ids):
    return [
        sum(of_ids[first : first + BLOCK]) for first in range(0, len(of_ids), BLOCK)
    ]


def shares(order, of_blocks, total):
    running = list(
        itertools.accumulate((of_blocks[block] for block in order), initial=0)
    )
    return [running[(hot + BLOCK - 1) // BLOCK] / total for hot in HOT]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    counts, ids = read(sys.argv[1], "q"), read(sys.argv[2], "i")
    truth = [0] * len(ids)
    for token, count in zip(ids, counts):
        truth[token] = count
    total, vocab = sum(truth), len(truth)
    true_blocks = by_block(truth)
    cumulated = list(itertools.accumulate(truth))
    generator = random.Random(1)
    traces = []
    for length in LENGTHS:
        trace = generator.choices(range(vocab), cum_weights=cumulated, k=length)
        if length == 1_000_000 and len(sys.argv) > 3:
            with open(sys.argv[3], "wb") as file:
                array.array("i", trace).tofile(file)
        seen = [0] * vocab
        for token in trace:
            seen[token] += 1
        seen_blocks = by_block(seen)
        blocks = list(range(len(seen_blocks)))
        shuffled = generator.sample(blocks, len(blocks))
        orders = {"ascending": blocks, "shuffled": shuffled, "descending": blocks[::-1]}
        orders = {
            ties: sorted(order, key=lambda block: -seen_blocks[block])
            for ties, order in orders.items()
        }
        true = shares(orders["ascending"], true_blocks, total)
        told = shares(orders["ascending"], seen_blocks, 1)
        traces.append(
            {
                "tokens": length,
                "unseen": sum(
                    truth[token] for token in range(vocab) if seen[token] == 0
                )
                / total,
                "true_share": {
                    ties: shares(order, true_blocks, total)
                    for ties, order in orders.items()
                },
                "largest_error_by_smoothing": {
                    str(s): max(
                        abs((inside + s * hot) / (length + s * vocab) - share)
                        for inside, share, hot in zip(told, true, HOT)
                    )
                    for s in SMOOTHINGS
                },
            }
        )
    print(
        json.dumps(
            {"text_tokens": total, "vocab": vocab, "hot": HOT, "traces": traces},
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
