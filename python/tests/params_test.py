import math
from pathlib import Path

import pytest

import croupier


def test_every_field_of_the_page_of_parameters_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs/parameters.md").read_text()
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
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
    assert params.flags == 1
    params.no_logprob = True
    params.ignore_eos = False
    assert (params.flags, params.ignore_eos, params.no_logprob) == (2, False, True)
    params.stops_only_ban = True
    assert (params.flags, params.stops_only_ban, params.rank_counts_ties) == (6, True, False)
    params.rank_counts_ties, params.stops_only_ban = True, False
    assert params.flags == 10
    params.rank_counts_ties = False
    params.rng = 0
    params.order = ()
    assert repr(params) == "Params(flags=2, logprob_mode='processed')"


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
