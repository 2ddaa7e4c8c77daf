"""What the scripts of bench/vllm work out for themselves: groups, figures, pictures. No engine and no GPU."""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vllm"))
import cost_model  # noqa: E402
import decode  # noqa: E402
import engines  # noqa: E402
import kills  # noqa: E402
import kinds  # noqa: E402
import picture  # noqa: E402
import sides  # noqa: E402
import stops  # noqa: E402
import traffic  # noqa: E402
import watch  # noqa: E402


def asked(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"pp": 1, "groups": 0, "spare_batches": None, **given})


def test_with_stages_the_prompts_of_one_group_fill_a_step() -> None:
    assert engines.prefill_budget(asked(), "native", 256) is None
    assert engines.prefill_budget(asked(pp=2), "native", 256) == 128 * 32
    spare = asked(pp=2, spare_batches=1)
    assert engines.prefill_budget(spare, "native", 256) == 128 * 32
    assert engines.prefill_budget(spare, "croupier", 256) == 86 * 32
    assert engines.prompt_length(asked(pp=2), "croupier", 256, 256) == 32
    assert engines.prompt_length(asked(pp=2), "croupier", 256, 64) == 128
    assert engines.prompt_length(asked(), "croupier", 256, 64) == 32


def test_a_mixed_batch_has_what_the_table_says() -> None:
    batch = kinds.mixed_batch(200, grammar=True)
    assert sum("seed" in given for given in batch) == 100
    assert sum("logprobs" in given for given in batch) == 50
    assert sum("structured_outputs" in given for given in batch) == 20
    assert not any("structured_outputs" in given for given in kinds.mixed_batch(200, grammar=False))


@pytest.mark.parametrize(
    ("grammar", "text", "right"),
    [
        ("json", '{"name":"Ann","age":7,"tags":["red"],"alive":true}', True),
        ("json", '{"name":"Ann","age":700,"tags":[],"alive":true}', False),
        ("json", '{"name":"Ann"', False),
        ("regex", "1999-12-31 Monday", True),
        ("choice", "positive", True),
        ("choice", "positively", False),
    ],
)
def test_a_text_is_judged_by_its_grammar(grammar: str, text: str, right: bool) -> None:
    assert kinds.is_text_of(grammar, text) is right


class FakeCore:
    """Of an engine: each step gives every request a token, and takes no time that counts."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.output_processor = SimpleNamespace(request_states=self.states)

    def add_request(self, name: str, prompt: Any, sampling: Any) -> None:
        tokens: list[int] = []
        self.states[name] = SimpleNamespace(
            detokenizer=SimpleNamespace(tokens=tokens, num_output_tokens=lambda: len(tokens)), most=sampling
        )

    def has_unfinished_requests(self) -> bool:
        return bool(self.states)

    def step(self) -> list[Any]:
        done = []
        for name, state in list(self.states.items()):
            state.detokenizer.tokens.append(len(state.detokenizer.tokens))
            if state.detokenizer.num_output_tokens() == state.most:
                output = SimpleNamespace(token_ids=state.detokenizer.tokens)
                done.append(SimpleNamespace(finished=True, request_id=name, outputs=[output]))
                del self.states[name]
        return done


def fake_llm() -> Any:
    return SimpleNamespace(llm_engine=FakeCore(), sleep=lambda level: None, wake_up=lambda tags: None)


def test_a_run_times_the_steps_behind_the_first_ones(monkeypatch: Any) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(engines, "sampling_of", lambda given, place, tokens: tokens)
    monkeypatch.setattr(engines.time, "perf_counter", lambda: float(next(clock)))
    run = engines.Run(fake_llm(), [{}] * 3, 24)
    assert [output.token_ids for output in run.outputs()] == [list(range(24))] * 3
    assert run.us_per_step() == 1e6


def test_what_both_sides_have_is_compared(tmp_path: Path) -> None:
    timed = {"1/greedy": {"best": 10.0}, "1/full": {"best": 30.0}}
    sides.write_json(tmp_path / "native.json", {"greedy": [[1, 2, 3], [4]], "us_per_step": timed})
    ours = {"greedy": [[1, 2, 9], [4]], "us_per_step": {"1/full": {"best": 20.0}}, "error": "it ended"}
    sides.write_json(tmp_path / "croupier.json", ours)
    found = decode.compare(tmp_path)
    assert found["native_over_croupier"] == {"1/full": 1.5}
    assert found["greedy_sequences_that_differ"] == 1
    assert found["differing"] == [{"request": 0, "first_difference": 2, "native": 3, "croupier": 9}]
    assert found["errors"] == {"croupier": "it ended"}


def make_counter(start: int) -> list[int]:
    return [start]


def end_counter(counter: list[int]) -> None:
    counter.clear()


def count(counter: list[int], by: int) -> int:
    counter[0] += by
    return 100 // counter[0]


def test_a_side_answers_and_survives_an_error_and_its_end_is_told() -> None:
    side = sides.Side("counter", make_counter, end_counter, 1)
    assert side.answer() >= 0
    assert side.ask(count, 4) == 20
    with pytest.raises(sides.SideFailedError, match="ZeroDivisionError"):
        side.ask(count, -5)
    assert side.ask(count, 10) == 10
    side.close()
    with pytest.raises(sides.SideFailedError):
        side.ask(count, 1)


def test_arrivals_are_the_same_for_both_sides_and_come_at_their_rate() -> None:
    requests = traffic.requests_of(4000, 50.0, 9)
    assert requests == traffic.requests_of(4000, 50.0, 9)
    assert requests[-1]["at"] == pytest.approx(80.0, rel=0.1)
    assert all(16 <= one["tokens"] <= 512 and 16 <= one["prompt"] <= 256 for one in requests)


def load_of(gap: float) -> dict[str, Any]:
    answers = [
        {"name": f"request-{place}", "at": place * 0.1, "tokens": 5, "drawn": 5, "place": place}
        for place in range(4)
    ]
    came = {
        f"request-{place}-0123abcd": [(10.0 + place * 0.1 + 0.02 + gap * i, 1) for i in range(5)]
        for place in range(4)
    }
    return traffic.summed(10.0, answers, came)


def test_times_between_tokens_are_summed_up() -> None:
    found = load_of(0.005)
    assert found["ttft_ms"]["p50"] == pytest.approx(20.0)
    assert found["itl_ms"]["p99"] == pytest.approx(5.0)
    assert found["tpot_ms"]["p50"] == pytest.approx(5.0)
    assert found["tokens"] == 20
    assert found["short"] == 0
    assert len(found["tpot_quantiles_ms"]) == traffic.QUANTILES


def found_of(layout: tuple[int, int], **sides: float) -> dict[str, Any]:
    """As arrivals.py leaves it, of sides with these gaps between tokens."""
    host = {"host_busy_cores": 4.0, "gpu_percent": [80.0, 90.0, 99.0]}
    loads = {side: {**load_of(gap), "host": host} for side, gap in sides.items()}
    return {
        "arguments": {"size": "7b", "tp": str(layout[0]), "pp": str(layout[1])},
        "environment": {"cores": 64},
        "peaks": {"full": loads},
        "loads": [{"fraction": part, "sides": loads} for part in (0.5, 0.9)],
    }


def test_a_picture_has_each_layout_and_side() -> None:
    found = [found_of((4, 1), native=0.006, croupier=0.005), found_of((2, 2), native=0.006)]
    svg = "{http://www.w3.org/2000/svg}"
    marks = {"times": ("polyline", 3), "loads": ("polyline", 3), "peaks": ("rect", 4), "use": ("rect", 7)}
    for name, (mark, count) in marks.items():
        root = xml.etree.ElementTree.fromstring(picture.PICTURES[name](found))
        assert len(root.findall(svg + mark)) == count
        texts = [text.text for text in root.findall(svg + "text")]
        assert "7B, TP 4" in texts
        assert "7B, TP 2 × PP 2" in texts
        assert "Croupier" in texts


def test_a_step_is_timed_where_all_requests_decode() -> None:
    late = [0.5, 0.7, 0.9, 1.1]
    assert traffic.step_of([[0.0, 0.1, 0.5, 0.7, 0.9], late]) == pytest.approx(2e5)
    assert traffic.step_of([[0.0, 0.1], late]) == 0.0
    assert traffic.step_of([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7], late]) == 0.0
    assert traffic.step_of([]) == 0.0


def test_equal_requests_come_at_once_and_are_equally_long() -> None:
    requests = traffic.equal_requests(3, 32, 60)
    assert {(one["at"], one["prompt"], one["tokens"]) for one in requests} == {(0.0, 32, 64)}


def test_a_gpu_that_does_not_tell_is_left_out() -> None:
    rows = [["10", " 100.5"], ["30", " [N/A]"], ["20", " 300.5"], ["4"]]
    found = watch.gpu_quartiles(rows)
    assert found == {"gpu_percent": [10.0, 20.0, 20.0], "gpu_watts": [100.5, 100.5, 300.5]}
    assert watch.gpu_quartiles([]) == {}


def test_a_cost_model_finds_the_factors_of_a_step() -> None:
    factors = [3000.0, 15.0, 2500.0, 0.0, 1.0]
    layouts = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)]
    points = [
        cost_model.Point(tp, pp, batch, cost_model.predicted(factors, tp, pp, batch))
        for tp, pp in layouts
        for batch in (64, 256)
    ]
    assert cost_model.fitted(points) == pytest.approx(factors, rel=1e-3, abs=1.0)


def test_a_cost_model_reads_tables_and_layouts() -> None:
    table = {
        "arguments": {"tp": "2", "pp": "1"},
        "steps": {"native": {"64/full": {"best": 5.0}, "64/greedy": {"best": 4.0}}},
    }
    assert cost_model.points_of(table, "full") == {"native": [(2, 1, 64, 5.0)]}
    runs = [{"us_per_step": 7.0}, {"us_per_step": 6.0}, {"us_per_step": 0.0}]
    layout = {"arguments": {"tp": "1", "pp": "4"}, "equal": {"64/full": {"native": runs, "rows": runs[2:]}}}
    assert cost_model.points_of(layout, "full") == {"native": [(1, 4, 64, 6.0)]}


def test_kills_come_in_turns_and_what_differs_is_told(tmp_path: Path) -> None:
    killer = kills.Killer(tmp_path, 20, 5, 0.01)
    assert killer.left.count("sampler") == 20
    assert killer.left.count("daemon") == 5
    assert killer.left[:5] == ["sampler"] * 4 + ["daemon"]
    killer.end()
    assert killer.counts() == {
        "samplers_killed": 0,
        "samplers_back": 0,
        "daemons_killed": 0,
        "daemons_back": 0,
    }
    assert kills.differing([[1, 2], [3]], [[1, 5], [3]]) == [{"request": 0, "at": 1, "lengths": [2, 2]}]


def test_steps_for_ended_requests_are_what_was_computed_beyond_what_is_needed() -> None:
    answers = [
        {"tokens": [1] * 7, "end": "stop", "stop": "ab"},
        {"tokens": [1], "end": "length", "stop": None},
    ]
    # Of a request with one token of output only the prompt is needed.
    found = stops.summed({"answers": answers, "computed": engines.PROMPT * 2 + 6 + 3, "seconds": 1.0})
    assert found["steps_for_ended_requests"] == 3
    assert (found["ended_by_a_stop_string"], found["ended_otherwise"]) == (1, ["length"])
    pairs = {"answers": [{**one, "text": "x"} for one in answers]}
    other = {"answers": [pairs["answers"][0], {**pairs["answers"][1], "tokens": [2]}]}
    assert stops.compared(pairs, other) == {
        "requests": 2,
        "equal_tokens": 1,
        "equal_answers_of_equal_tokens": 1,
        "equal_texts": 2,
    }


def test_answers_are_compared_with_vllms_own_detokenizer(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    from transformers import AutoTokenizer

    stops.make_tokenizer(tmp_path, 151000)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    answers = []
    for place in range(3):
        wanted = stops.stops_of(place)
        tokens = [place, *(token for token in range(300, 400))]
        texts = [tokenizer.decode(tokens[:count]) for count in range(len(tokens) + 1)]
        count, stop = next(
            ((count, stop) for count, text in enumerate(texts) for stop in wanted if stop in text),
            (len(tokens), None),
        )
        text = texts[count].split(stop)[0] if stop else texts[count]
        answers.append({"tokens": tokens[:count], "text": text, "stop": stop})
    assert any(answer["stop"] for answer in answers)
    assert stops.alone(tokenizer, answers, "greedy", 256) == 3
    answers[0]["tokens"].append(300)
    answers[1]["text"] += "x"
    assert stops.alone(tokenizer, answers, "greedy", 256) == 1
