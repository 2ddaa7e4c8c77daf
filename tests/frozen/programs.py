"""What is read of a real croupierd with an engine, of a real relay and of the command `croupier`.

Metrics, addresses, JSON objects, options, exit statuses.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error

import yaml
from facts import ROOT, broken

sys.path.insert(0, str(ROOT / "tests/web"))
from real_processes import Daemon, eventually, fetch, free_port  # noqa: E402

RULE = (
    "Dashboards, alarms and scripts of 1.0 read it: it may be added to, and nothing of it goes, changes its "
    "kind or is renamed."
)
# Of the package croupier-bench.
MAY_CHANGE = {"sim", "bench"}
ENGINE = (
    "--vocab",
    4096,
    "--batch",
    4,
    "--stage-ms",
    5,
    "--mix",
    "plain",
    "--prompt-max",
    64,
    "--steps",
    1000000,
)


def metrics_of(text):
    found, kinds = {}, dict(re.findall(r"^# TYPE (\S+) (\S+)", text, flags=re.M))
    for name, kind in kinds.items():
        samples = re.findall(rf"^{name}(?:_bucket|_sum|_count)?(?:\{{(.*?)\}})? ", text, flags=re.M)
        if not name.startswith("croupier_"):
            continue  # of the library that answers for the relay
        found[f"metric {name}"] = kind
        if samples:
            # What a histogram's and a summary's samples are told apart by comes with their kind.
            labels = {label for sample in samples for label in re.findall(r"(\w+)=\"", sample)} - {
                "le",
                "quantile",
            }
            found[f"labels of {name}"] = ", ".join(sorted(labels)) or "none"
    return found


def paths_of(value, path=""):
    """Each key of a JSON object, with its kind."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths_of(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        # An empty one says of nothing that it is not there.
        for each in value or [None]:
            yield from paths_of(each, f"{path}[]")
    else:
        names = {bool: "true or false", int: "number", float: "number", str: "text"}
        yield f"{path}: {names.get(type(value), 'null')}"


def answer_of(text, leave_out=()):
    said = json.loads(text)
    return sorted({path for path in paths_of(said) if not path.startswith(tuple(leave_out))})


class Command:
    """croupier, in a folder of its own."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder

    def run(self, *arguments, given=None, program="croupier"):
        command = [self.programs / program, *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, input=given, capture_output=True, text=True, timeout=60
        )


def options_of(help_text):
    found = set()
    for line in help_text.splitlines():
        if option := re.match(r"  (-[\w,-]+)(?: |$)", line):
            found |= {name for name in option[1].split(",") if name.startswith("-")}
        found |= set(re.findall(r"Env:(\w+)", line))
    return sorted(found)


def commands_of(help_text):
    listed = re.search(r"^Subcommands:\n(.*?)(?:\n\n|\Z)", help_text, flags=re.S | re.M)
    return re.findall(r"^  ([a-z]+)\b", listed[1], flags=re.M) if listed else []


def options(command):
    found = {"options of croupierd": options_of(command.run("--help", program="croupierd").stdout)}
    pending = [()]
    while pending:
        words = pending.pop()
        told = command.run(*words, "--help").stdout
        name = " ".join(["croupier", *words])
        found[f"options of {name}"] = options_of(told)
        if nested := sorted(set(commands_of(told)) - MAY_CHANGE):
            found[f"commands of {name}"] = nested
        pending += [(*words, each) for each in nested]
    return found


def wrong_command_lines(command, options):
    """The exit status of each command for an option that no command has."""
    named = [name.removeprefix("options of ").split() for name in options if name.startswith("options of ")]
    return {
        f"exit status of {' '.join(words)} for an unknown option": command.run(
            *words[1:], "--no-such-option", program=words[0]
        ).returncode
        for words in named
    }


def of_a_host(command):
    """What asks for no daemon."""
    nowhere = ("--shm-dir", command.folder / "nowhere")
    found = {"exit status of croupier status without a daemon": command.run("status", *nowhere).returncode}
    found["answer of croupier status --json without a daemon"] = answer_of(
        command.run("status", "--json", *nowhere).stdout
    )
    (command.folder / "empty.yaml").write_text("")
    (command.folder / "wrong.yaml").write_text("nothing: 1\n")
    for name in ("empty", "wrong"):
        checked = command.run("--check-config", "--config", f"{name}.yaml", program="croupierd")
        found[f"exit status of croupierd --check-config with {name} file"] = checked.returncode
    # What a daemon of any 1.x asks the next one before it hands its sessions over.
    for name in ("empty", "wrong"):
        asked = command.run("--check-start", "--config", f"{name}.yaml", program="croupierd")
        found[f"exit status of croupierd --check-start with {name} file"] = asked.returncode
        if asked.returncode == 0:
            found["answer of croupierd --check-start"] = sorted(set(paths_of(yaml.safe_load(asked.stdout))))
    # A later layout may be added.
    layouts = command.run("--layout-versions", program="croupierd").stdout.strip()
    found["answer of croupierd --layout-versions"] = layouts.split(", ")
    doctor = command.run(
        "doctor", "--json", "--config", "empty.yaml", "--python", "no-python-here", *("--skip", "daemon")
    )
    answer = json.loads(doctor.stdout)
    found["exit status of croupier doctor is its answer's"] = str(answer["exit"] == doctor.returncode)
    found["schema of croupier doctor --json"] = answer["schema"]
    found["checks of croupier doctor --json"] = sorted(each["check"] for each in answer["findings"])
    found["answer of croupier doctor --json"] = answer_of(doctor.stdout, ["findings[].facts"])
    found["exit status of croupier doctor for a wrong question"] = command.run(
        "doctor", "--user", "nobody-of-that-name"
    ).returncode
    measured = ROOT / "bench/results/plan-20261123-16-cores.json"
    plan = command.run("plan", "--from", measured, "--vocab", 32000, "--mix", "fixed", "--json")
    found["answer of croupier plan --json"] = answer_of(plan.stdout)
    found["exit status of croupier plan that cannot be made"] = command.run(
        "plan", "--from", "nothing.json"
    ).returncode
    request = {
        "logits": [1, 3, 2.5],
        "params": {"top_k": 2, "temperature": 0.7},
        "logprobs": 1,
        "support": True,
        "output": [1],
    }
    asked = json.dumps(request) + "\n"
    found["answer of croupier decide"] = answer_of(command.run("decide", given=asked).stdout)
    found["answer of croupier decide to a mistake"] = answer_of(command.run("decide", given="{}\n").stdout)
    found["answer of croupier explain --json"] = answer_of(
        command.run("explain", "--json", given=asked).stdout
    )
    (command.folder / "trace.jsonl").write_text("[1, 2, 3, 2]\n")
    built = command.run(
        "hotset", "build", "trace.jsonl", "--vocab", 256, "--model", "m", "-o", "m.hot", "--json"
    )
    found["answer of croupier hotset build --json"] = answer_of(built.stdout)
    found["answer of croupier hotset show --json"] = answer_of(
        command.run("hotset", "show", "m.hot", "--json").stdout
    )
    return found


def status_of(url):
    try:
        fetch(url)
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def of_a_daemon(daemon, command):
    """What a daemon that serves an engine says at this moment."""
    found = metrics_of(fetch(daemon.url + "/metrics"))
    for address in ("/", "/metrics", "/livez", "/readyz", "/snapshot.json", "/absent"):
        found[f"HTTP status of {address}"] = status_of(daemon.url + address)
    found["answer of /snapshot.json"] = answer_of(fetch(daemon.url + "/snapshot.json"))
    here = (
        "--instance",
        re.search(r'"instance": "(.+?)"', (daemon.folder / "croupierd.yaml").read_text())[1],
        "--shm-dir",
        daemon.shm,
    )
    status = command.run("status", "--json", *here)
    found["answer of croupier status --json"] = answer_of(status.stdout)
    found["exit status of croupier status"] = status.returncode
    ping = command.run("ping", "--json", *here)
    found["answer of croupier ping --json"] = answer_of(ping.stdout)
    found["exit status of croupier ping"] = ping.returncode
    found["exit status of croupier stat"] = command.run(
        "stat", "--count", 1, "--interval", 0.1, *here
    ).returncode
    found["answer of croupier top --once --json"] = answer_of(
        command.run("top", "--once", "--json", "--interval", 0.2, *here).stdout
    )
    trace = command.run("trace", "--seconds", 0.2, "--json", "-o", "trace.json", *here)
    found["answer of croupier trace --json"] = answer_of(trace.stdout)
    event = json.loads((command.folder / "trace.json").read_text())
    found["keys of a trace"] = sorted(event)
    line = next(line for line in daemon.log().splitlines() if "event=ready" in line)
    found["keys of a line of the log"] = sorted(
        set(re.findall(r"(?:^| )(\w+)=", line)) & {"time", "level", "pid", "event", "message"}
    )
    return found


def of_a_relay(programs, folder):
    port = free_port()
    log = folder / "relay.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                programs / "croupier",
                "relay",
                "--root",
                f"ipc://{folder}/nobody.sock",
                "--metrics",
                f"127.0.0.1:{port}",
            ],
            stderr=out,
        )
    try:
        return metrics_of(
            eventually(
                lambda: fetch(f"http://127.0.0.1:{port}/metrics"),
                20,
                f"the relay's metrics\n{log.read_text()}",
            )
        )
    finally:
        process.terminate()
        process.wait()


def facts(programs, kept):
    with tempfile.TemporaryDirectory() as place:
        command = Command(programs, pathlib.Path(place))
        found = options(command)
        found |= wrong_command_lines(command, found)
        found |= of_a_host(command) | of_a_relay(programs, command.folder)
        with Daemon(programs) as daemon:
            daemon.engine(*ENGINE)
            seen = {}

            def all_is_there():
                seen.update(of_a_daemon(daemon, command))
                # Some metrics have no sample before something was decided in the last minutes.
                wanted = {name: was for name, was in kept.items() if name not in found}
                return not broken(wanted, seen) and "labels of croupier_recent_step_seconds" in seen

            try:
                eventually(all_is_there, 15, "all that was kept")
            except AssertionError:
                seen.update(of_a_daemon(daemon, command))
            status = command.run("status", "--shm-dir", daemon.shm, "--instance", "nobody")
            found["exit status of croupier status for an unknown instance"] = status.returncode
            here = re.search(r'"instance": "(.+?)"', (daemon.folder / "croupierd.yaml").read_text())[1]
            daemon.kill()
            for name in ("ping", "status", "top"):
                asked = command.run(
                    name, "--instance", here, "--shm-dir", daemon.shm, *(["--once"] if name == "top" else [])
                )
                found[f"exit status of croupier {name} for a dead daemon"] = asked.returncode
            cleaned = command.run("cleanup", "--json", "--instance", here, "--shm-dir", daemon.shm)
            found["answer of croupier cleanup --json"] = answer_of(cleaned.stdout)
        return found | seen
