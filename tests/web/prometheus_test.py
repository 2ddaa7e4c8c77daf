#!/usr/bin/env python3
"""deploy/prometheus: the rules are sound, each alert is tried both ways and explained, and a real
Prometheus that reads a real daemon raises them when samplers and the daemon are killed, and none before.

    tests/web/prometheus_test.py BIN_FOLDER
"""

import re
import subprocess
import sys

import yaml
from real_processes import ROOT, Daemon, Prometheus, eventually, fetch

FOLDER = ROOT / "deploy/prometheus"
# Where the package installs the page: Alertmanager shows the address as it is.
RUNBOOK = "file:///usr/share/doc/croupier/alerts.md"


def promtool(*arguments, given=None):
    ended = subprocess.run(["promtool", *map(str, arguments)], input=given, capture_output=True, text=True)
    assert ended.returncode == 0, f"promtool {arguments}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


def rules():
    groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts():
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def the_rules_and_their_series_are_sound():
    promtool("check", "rules", FOLDER / "rules.yaml")
    promtool("check", "config", FOLDER / "prometheus.yaml")
    promtool("test", "rules", FOLDER / "rules_test.yaml")


def each_alert_is_raised_by_one_series_and_not_by_another():
    raised = {}
    for case in yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]:
        names = [s["series"] for s in case["input_series"]]
        asked = [t["exp_samples"] for t in case["promql_expr_test"] if t["expr"].startswith("ALERTS")]
        assert [] in asked, f"{case['name']}: no time at which nothing is raised"
        assert any("good" in name for name in names), f"{case['name']}: no series that raises nothing"
        for sample in (sample for samples in asked for sample in samples):
            raised.setdefault(re.search(r'alertname="(\w+)"', sample["labels"])[1], case["name"])
    assert raised.keys() == alerts().keys(), f"without a case: {alerts().keys() ^ raised.keys()}"


def each_alert_is_explained():
    explained = set(re.findall(r"^### (\w+)$", (ROOT / "docs/alerts.md").read_text(), re.M))
    assert explained == alerts().keys(), f"docs/alerts.md: {explained ^ alerts().keys()}"
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOK}#{name.lower()}", name


def the_metrics_that_rules_ask_for_are_there(page):
    families = set(re.findall(r"^# TYPE (\S+)", page, re.M))
    for rule in rules():
        asked = set(re.findall(r"\bcroupier_\w+", rule["expr"]))
        assert asked <= families, f"{rule}: the daemon has no {asked - families}"


def a_real_prometheus_raises_them(programs):
    with Daemon(programs) as daemon, Prometheus([f"127.0.0.1:{daemon.port}"]) as prometheus:
        work = ("--vocab", 4096, "--batch", 4, "--stage-ms", 5, "--mix", "plain", "--prompt-max", 64)
        daemon.engine(*work, "--steps", 1000000)
        decided = "sum(rate(croupier_columns_decided_total[10s])) > 0"
        eventually(lambda: prometheus.series(decided, 5), 30, "tokens, in Prometheus")
        page = fetch(daemon.url + "/metrics")
        print(
            "  " + (promtool("check", "metrics", given=page).strip() or "promtool finds nothing in /metrics")
        )
        the_metrics_that_rules_ask_for_are_there(page)
        eventually(
            lambda: all(r["health"] == "ok" for g in prometheus.ask("rules")["groups"] for r in g["rules"]),
            20,
            f"a rule that Prometheus cannot reckon: {prometheus.ask('rules')}",
        )
        assert not prometheus.alerts("firing"), prometheus.alerts("firing")
        print("  no alert while an engine decodes")

        killed, output = daemon.engine(*work, "--steps", 400, "--chaos", "samplers", "--kills", 2)
        assert killed.wait(timeout=60) == 0, output.read_text()
        raised = eventually(
            lambda: prometheus.alerts("firing").get("CroupierSamplerRestarts"), 20, "CroupierSamplerRestarts"
        )
        assert raised["annotations"]["summary"].startswith("Sampler 0 on 127.0.0.1:"), raised
        print(f"  {raised['annotations']['summary']}")

        daemon.kill()
        eventually(lambda: "CroupierDown" in prometheus.alerts("pending"), 20, "CroupierDown")
        daemon.start()
        eventually(lambda: "CroupierDown" not in prometheus.alerts("pending"), 20, "the daemon's return")
        print("  a killed daemon is down, and back when it is started again")


def main(programs):
    the_rules_and_their_series_are_sound()
    each_alert_is_raised_by_one_series_and_not_by_another()
    each_alert_is_explained()
    print(f"  {len(alerts())} alerts: sound, raised by their series and by no other, explained")
    a_real_prometheus_raises_them(programs)


if __name__ == "__main__":
    main(sys.argv[1])
