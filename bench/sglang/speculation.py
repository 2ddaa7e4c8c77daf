"""SGLang's speculation, with its own verification and with Croupier's: tokens, times and distributions.

    speculation.py PART SIDE OUT     PART plain, eagle or draws; SIDE native or croupier
    speculation.py compare OUT

plain: greedy tokens without drafts. eagle: the same with the drafts of a random EAGLE head, and step times.
draws: the second and third token of many requests with penalties or a min-p, over a vocabulary of 64, whose
drafts are by the target's own weights; Croupier's side writes the model's raw log-probs too, from which
compare computes the exact distribution.

Parts that are started together take turns (turns.py), eagle last. DEADLINE, in seconds since the epoch, is
when to begin no further measurement.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from turns import alone_when_started

SHORT, GREEDY_TOKENS, VOCAB = 16, 48, 64
SEQUENCES = int(os.environ.get("SEQUENCES", 64))
PARTS = {"plain": ("native",), "eagle": ("native", "croupier"), "draws": ("native", "croupier")}
PROMPT = [20, 33, 47, 11, 58, 26, 39, 14]
SETTINGS: dict[str, dict[str, float]] = {
    "temperature": {"temperature": 1.0},
    "penalties": {"temperature": 1.0, "frequency_penalty": 1.5, "presence_penalty": 1.0},
    "min_p": {"temperature": 1.3, "min_p": 0.1},
}
CHAIN = {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
# Several engines share the GPU.
FLAGS = {
    "max_running_requests": 64,
    "cuda_graph_bs_decode": [1, 8, 64],
    "mem_fraction_static": 0.5,
    "max_total_tokens": 60000,
}


def engine_of(part: str, side: str) -> Any:
    shape = os.environ.get("SHAPE", "small")
    flags: dict[str, Any] = dict(FLAGS)
    options = None if side == "native" else json.loads(os.environ.get("OPTIONS", "{}"))
    if part == "draws":
        os.environ["VOCAB"] = str(VOCAB)
    from engines import eagle_draft, engine, model

    if part == "eagle":
        flags |= {**CHAIN, "speculative_algorithm": "EAGLE"}
        flags["speculative_draft_model_path"] = str(eagle_draft(shape))
    if part == "draws":
        # Few log-probs are all of so few ids; a row of them has no blocks to leave out.
        options = None if options is None else {**options, "transport": "rows"}
        path = str(model(shape, Path(os.environ.get("TMPDIR", "/tmp")) / f"draws-{os.getpid()}"))
        flags |= {**CHAIN, "speculative_algorithm": "STANDALONE"}
        flags |= {"model_path": path, "speculative_draft_model_path": path}
    return engine(shape, options, **flags)


class Results:
    """Written whenever there is more of them."""

    def __init__(self, folder: Path, part: str, side: str) -> None:
        self.name, self.path, self.found = f"{part} {side}", folder / f"{part}-{side}.json", dict[str, Any]()
        self.deadline = float(os.environ.get("DEADLINE", "inf"))

    def has_time(self, what: str) -> bool:
        if time.time() < self.deadline:
            return True
        self.say(f"no time for {what}")
        return False

    def put(self, what: str, value: Any) -> None:
        self.found[what] = value
        self.path.write_text(json.dumps(self.found))

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", flush=True)


def ids_of(answers: list[Any]) -> list[list[int]]:
    return [answer["output_ids"] for answer in answers]


def greedy(server: Any, results: Results) -> None:
    from engines import prompts

    if not results.has_time("greedy tokens"):
        return
    asked = {"temperature": 0.0, "max_new_tokens": GREEDY_TOKENS, "ignore_eos": True}
    results.put("greedy", ids_of(server.generate(input_ids=prompts(SEQUENCES), sampling_params=asked)))
    results.say("greedy tokens are there")


def times(server: Any, results: Results) -> None:
    """Of a step, which verifies a window of each request; and how many tokens it brings each."""
    import kinds
    from engines import prompts

    steps, runs = int(os.environ.get("STEPS", 48)), int(os.environ.get("RUNS", 2))
    names = os.environ.get("KINDS", "greedy,temperature,topk_topp,penalties,full,mixed").split(",")

    def served(kind: str, count: int, tokens: int) -> tuple[float, float]:
        asked = kinds.of_requests(kind, count, tokens)
        start = time.perf_counter()
        answers = server.generate(input_ids=prompts(count), sampling_params=asked)
        passed = time.perf_counter() - start
        # The request that takes most steps has them all.
        return passed, max(answer["meta_info"]["spec_verify_ct"] for answer in answers)

    found: dict[str, Any] = {}
    for count in map(int, os.environ.get("BATCHES", "64,8,1").split(",")):
        for kind in names:
            if not results.has_time(f"{kind} at {count}"):
                continue
            served(kind, count, 4)
            # Each by itself, as in steps.py.
            long, many = min(served(kind, count, SHORT + steps) for _ in range(runs))
            short, few = min(served(kind, count, SHORT) for _ in range(runs))
            verified = max(1, many - few)
            found.setdefault(kind, {})[count] = [
                round(1e6 * (long - short) / verified, 2),
                round(steps / verified, 2),
            ]
            results.put("times", found)
    for kind, each in found.items():
        results.say(f"{kind}: µs a step and tokens a step {each}")


def draws(server: Any, results: Results) -> None:
    count = int(os.environ.get("DRAWS", 2000))
    for name, setting in SETTINGS.items():
        if not results.has_time(name):
            continue
        asked = {**setting, "max_new_tokens": 5, "ignore_eos": True}
        start = time.perf_counter()
        answers = server.generate(input_ids=[PROMPT] * count, sampling_params=asked)
        pairs = collections.Counter((tokens[1], tokens[2]) for tokens in ids_of(answers))
        accepted = sum(answer["meta_info"].get("spec_num_correct_drafts", 0) for answer in answers)
        results.put(name, {"pairs": [[*pair, many] for pair, many in pairs.items()], "accepted": accepted})
        results.say(
            f"{name}: {count} requests, {accepted} drafts accepted, {time.perf_counter() - start:.1f} s"
        )


def raw_logprobs(server: Any, results: Results) -> None:
    """After the prompt, and after each one and two further tokens: [history][id]."""
    if not results.has_time("raw log-probs"):
        return
    ids = range(VOCAB)
    histories = [[], *([one] for one in ids), *([one, other] for one in ids for other in ids)]
    asked = {"temperature": 0.0, "max_new_tokens": 1, "custom_params": {"logprob_mode": "raw"}}
    answers = server.generate(
        input_ids=[PROMPT + history for history in histories],
        sampling_params=asked,
        return_logprob=True,
        top_logprobs_num=VOCAB,
    )
    rows = []
    for answer in answers:
        row = [float("-inf")] * VOCAB
        for value, token, *_ in answer["meta_info"]["output_top_logprobs"][0]:
            row[token] = max(row[token], value)
        rows.append(row)
    results.put("raw", rows)
    results.say(f"raw log-probs after {len(rows)} histories")


def exact(raw: Any, setting: dict[str, float]) -> Any:
    """The distribution of the second and third output token together: [id][id]."""
    import numpy as np

    raw = np.asarray(raw, dtype=np.float64)

    def probabilities(rows: Any, counts: Any) -> Any:
        rows = rows - setting.get("frequency_penalty", 0.0) * counts
        rows = (rows - setting.get("presence_penalty", 0.0) * (counts > 0)) / setting["temperature"]
        found = np.exp(rows - rows.max(axis=-1, keepdims=True))
        found[found < setting.get("min_p", 0.0)] = 0
        return found / found.sum(axis=-1, keepdims=True)

    one = np.eye(VOCAB)
    first = probabilities(raw[0], np.zeros(VOCAB))
    second = probabilities(raw[1 : 1 + VOCAB], one)
    counts = one[:, None, :] + one[None, :, :]
    third = probabilities(raw[1 + VOCAB :].reshape(VOCAB, VOCAB, VOCAB), counts)
    return np.einsum("a,ab,abc->bc", first, second, third)


def compare(folder: Path) -> int:
    import numpy as np

    found = {}
    for part, sides in PARTS.items():
        for side in sides:
            path = folder / f"{part}-{side}.json"
            found[part, side] = json.loads(path.read_text()) if path.exists() else {}
            if not found[part, side]:
                print(f"{part} {side}: there are no results")
    summary: dict[str, Any] = {}
    plain = found["plain", "native"].get("greedy")
    for side in PARTS["eagle"]:
        own = found["eagle", side].get("greedy")
        if plain and own:
            summary[f"greedy {side}"] = same = sum(a == b for a, b in zip(plain, own, strict=True))
            print(f"greedy tokens, {side}: {same} of {len(plain)} sequences are those without drafts")
        summary[f"times {side}"] = found["eagle", side].get("times")
    raw = found["draws", "croupier"].get("raw")
    for name, setting in SETTINGS.items() if raw else ():
        right, draws_of = exact(raw, setting), np.random.default_rng(1)
        for side in PARTS["draws"]:
            if not (drawn := found["draws", side].get(name)):
                continue
            pairs = np.zeros_like(right)
            for second, third, many in drawn["pairs"]:
                pairs[second, third] = many
            total = int(pairs.sum())
            again = [
                distances(draws_of.multinomial(total, right.ravel()).reshape(right.shape), right)
                for _ in range(50)
            ]
            # Of so many draws of the exact distribution itself: the mean, and the deviation.
            line: dict[str, Any] = {"draws": total, "drafts accepted": drawn["accepted"] / total}
            for what, value in distances(pairs, right).items():
                same = [one[what] for one in again]
                line[what] = [value, float(np.mean(same)), float(np.std(same))]
            summary[f"{name} {side}"] = line = json.loads(json.dumps(line), parse_float=four_digits)
            print(f"{name}, {side}: total variation from the exact one, and that of exact draws: {line}")
    (folder / "speculation.json").write_text(json.dumps(summary, indent=1))
    return 0 if all(found.values()) else 1


def four_digits(text: str) -> float:
    return round(float(text), 4)


def distances(pairs: Any, right: Any) -> dict[str, float]:
    """Total variations, and how many are impossible."""

    def variation(counts: Any, exactly: Any) -> float:
        return float(abs(counts / counts.sum() - exactly).sum() / 2)

    return {
        "of pairs": variation(pairs, right),
        "of the third token": variation(pairs.sum(axis=0), right.sum(axis=0)),
        "impossible": float(pairs[right == 0].sum() / pairs.sum()),
    }


def check_plugin(server: Any, results: Results) -> None:
    try:
        server.generate(input_ids=[[1, 2, 3]], sampling_params={"custom_params": {"nonsense": 1}})
    except ValueError:
        results.say("the plugin refuses what it does not know")
    else:
        sys.exit(f"{results.name}: SGLang has started without the plugin")


def main() -> int:
    if sys.argv[1] == "compare":
        return compare(Path(sys.argv[2]))
    part, side, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    results = Results(folder, part, side)
    with alone_when_started(part, is_last=part == "eagle") as wait_for_others:
        start = time.monotonic()
        server = engine_of(part, side)
        results.say(f"started after {time.monotonic() - start:.0f} s")
        if side == "croupier":
            check_plugin(server, results)
        wait_for_others()
        if part == "draws":
            if side == "croupier":
                raw_logprobs(server, results)
            draws(server, results)
        else:
            greedy(server, results)
        if part == "eagle":
            times(server, results)
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
