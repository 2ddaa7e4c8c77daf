import math
from pathlib import Path

import numpy as np
import pytest

import croupier


def test_every_field_of_the_page_of_parameters_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs/parameters.md").read_text()
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    # Each of its bits has a name of its own here.
    listed.remove("flags")
    assert len(listed) > 30
    flags = [
        "ignore_eos",
        "no_logprob",
        "stops_only_ban",
        "rank_counts_ties",
        "include_stop",
        "keep_special",
        "stop_at_json",
    ]
    assert list(croupier.PARAMETER_NAMES) == [*listed, *flags, "order"]
    for name in listed:
        value = getattr(croupier.Params(), name)
        assert getattr(croupier.Params(**{name: value}), name) == value
        assert "allowed: " in getattr(croupier.Params, name).__doc__


def test_choices_go_by_name_and_by_number() -> None:
    params = croupier.Params(rng="sglang", logprob_mode=1, order=["dry", "top_k"], ignore_eos=True)
    assert (params.rng, params.logprob_mode, params.order) == ("sglang", "processed", ["dry", "top_k"])
    params.no_logprob = True
    params.ignore_eos = False
    assert (params.ignore_eos, params.no_logprob) == (False, True)
    params.stops_only_ban = True
    assert (params.no_logprob, params.stops_only_ban, params.rank_counts_ties) == (True, True, False)
    params.rng = 0
    params.order = ()
    assert repr(params) == "Params(logprob_mode='processed', no_logprob=True, stops_only_ban=True)"
    with pytest.raises(croupier.Error, match="Params has no 'flags'"):
        croupier.Params(flags=2)


def test_a_seed_is_none_until_it_is_given() -> None:
    params = croupier.Params()
    assert params.seed is None
    assert repr(params) == "Params()"
    params.seed = 0
    assert params.seed == 0
    assert repr(params) == "Params(seed=0)"
    params.seed = None
    assert repr(params) == repr(croupier.Params(seed=None)) == "Params()"


def test_decisions_without_a_seed_tell_the_one_that_they_drew() -> None:
    row, params = np.zeros(1000, np.float32), croupier.Params()
    answers = [croupier.decide(row, params=params) for _ in range(8)]
    answers += [croupier.Decider(1000, max_length=8).decide(row) for _ in range(8)]
    assert len({answer.seed for answer in answers}) == 16
    assert len({answer.token for answer in answers}) > 8
    for answer in answers:
        again = croupier.decide(row, params=croupier.Params(seed=answer.seed))
        assert (again.token, again.seed) == (answer.token, answer.seed)
    assert params.seed is None


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temprature", 1, "did you mean 'temperature'"),
        ("top_p", 1.5, "top_p is 1.5; allowed: above 0, up to 1"),
        ("top_p", math.nan, "top_p is nan"),
        ("temperature", "hot", "temperature is 'hot'"),
        ("seed", -1, "seed is -1; allowed: 0 to 2"),
        ("seed", 1 << 64, "seed is"),
        ("top_k", 1 << 40, "top_k is"),
        ("top_k", 1.5, "top_k is 1.5"),
        ("rng", "philox", "allowed: race, shvs, sglang or vllm"),
        ("mirostat", 3, "mirostat is 3"),
        ("ignore_eos", 2, "allowed: True or False"),
        ("order", "dry", "which is no list"),
        ("order", ["dry", "dry"], "stands there again"),
        ("order", ["eos"], "'eos' is no step"),
    ],
)
def test_what_is_not_allowed_is_said(field: str, value: object, said: str) -> None:
    with pytest.raises(croupier.Error) as failed:
        croupier.Params(**{field: value})
    assert said in failed.value.text
    assert (failed.value.code, failed.value.name) == (14, "bad_argument")
    assert str(failed.value) == "bad_argument: " + failed.value.text
    if field != "temprature":
        params = croupier.Params()
        with pytest.raises(croupier.Error):
            setattr(params, field, value)
