#!/usr/bin/env python3
"""deploy/grafana: the dashboard is well formed, and each of its queries returns data from a real Prometheus
that reads a real daemon while engines decode.

    tests/web/grafana_test.py BIN_FOLDER
"""

import json
import math
import re
import sys

from real_processes import ROOT, Daemon, Prometheus, eventually

DASHBOARD = json.loads((ROOT / "deploy/grafana/croupier.json").read_text())
# Of these panels all may be 0 where nothing is wrong; of the others some number must be above it.
MAY_BE_ZERO = {
    "Samplers missing",
    "Errors a second",
    "Late ranks",
    "Columns without a token",
    "Refused and given up",
    "Deaths around the session",
    "Restarts",
    "Memory of derived states",
    "Derived states",
    "Hot set's size",
}
# As Grafana at a scrape interval of a second.
RATE_INTERVAL = "5s"


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def the_panels_are_well_formed():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)), "two panels have one id"
    taken = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, f"{panel['title']} is beyond the right edge"
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                assert other == panel["title"], f"{other} and {panel['title']} overlap"
    for panel in panels():
        title = panel["title"]
        assert panel["description"], f"{title} says nothing of itself"
        unit = panel["fieldConfig"]["defaults"].get("unit") or panel["options"].get("yAxis", {}).get("unit")
        assert unit, f"{title} has no unit"
        for part in [panel, *panel["targets"]]:
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, title
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)), f"two queries of {title} have one refId"
    assert len(panels()) == len({(p["title"], p["type"]) for p in panels()}), "two panels have one title"
    assert panels_by_title().keys() >= MAY_BE_ZERO, MAY_BE_ZERO - panels_by_title().keys()


def panels_by_title():
    return {panel["title"]: panel for panel in panels()}


def expand(text, values):
    """As Grafana: several values of a variable are a regular expression."""
    for name, value in values.items():
        chosen = "|".join(re.sub(r"([\\^$.*+?()[\]{}|/-])", r"\\\\\1", v) for v in value)
        text = re.sub(rf"\$(?:{name}\b|{{{name}[^}}]*}})", lambda _, chosen=chosen: f"({chosen})", text)
    text = text.replace("$__rate_interval", RATE_INTERVAL)
    assert "$" not in text, f"a variable that the dashboard does not have: {text}"
    return text


def values_of_variables(prometheus):
    values = {}
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            found = prometheus.ask(f"label/{label}/values", **{"match[]": expand(selector, values)})
            assert found, f"${variable['name']}: no value of {variable['definition']}"
            values[variable["name"]] = found
    return values


def numbers(prometheus, expression):
    series = prometheus.series(expression, 15)
    return [(labels, [v for v in line if not math.isnan(v)]) for labels, line in series]


def each_query_returns_data(prometheus, values):
    count = 0
    for panel in panels():
        above_zero = False
        for target in panel["targets"]:
            expression = expand(target["expr"], values)
            found = numbers(prometheus, expression)
            assert any(line for _, line in found), f"{panel['title']}: nothing for {expression}"
            for name in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert all(name in labels for labels, _ in found), f"{panel['title']}: no label {name}"
            above_zero |= any(v > 0 for _, line in found for v in line)
            count += 1
        if panel["title"] not in MAY_BE_ZERO:
            assert above_zero, f"{panel['title']}: all is 0"
    return count


def main(programs):
    the_panels_are_well_formed()
    with Daemon(programs, samplers=2) as daemon, Prometheus([f"127.0.0.1:{daemon.port}"]) as prometheus:
        work = ("--vocab", 8192, "--steps", 1000000, "--prompt-max", 64, "--output-max", 32, "--stage-ms", 10)
        # What one kind of engine does not do, another does.
        daemon.engine(*work, "--batch", 8, "--tp", 2, "--summaries", "--decisions", "zmq")
        daemon.engine(*work, "--batch", 4, "--transport", "lean")
        daemon.engine(*work, "--batch", 4, "--summaries", "--order", "random")
        eventually(
            lambda: len(prometheus.series("rate(croupier_columns_decided_total[10s]) > 0", 3)) == 3,
            60,
            "tokens of three engines, in Prometheus",
        )
        values = values_of_variables(prometheus)
        assert len(values["session"]) == 3, values
        # Rates over some seconds need some seconds.
        count = eventually_whole(lambda: each_query_returns_data(prometheus, values))
        alerts = expand(DASHBOARD["annotations"]["list"][0]["expr"], values)
        prometheus.series(alerts, 5)
    print(f"  {len(panels())} panels, {count} queries: each returned data")


def eventually_whole(question):
    missing = []

    def attempt():
        try:
            return question()
        except AssertionError as error:
            missing[:] = [error]
            return None

    try:
        return eventually(attempt, 60, "")
    except AssertionError:
        raise missing[0] from None


if __name__ == "__main__":
    main(sys.argv[1])
