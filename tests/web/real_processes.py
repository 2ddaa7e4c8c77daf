"""A real croupierd, simulated engines and a real Prometheus, for the length of a test."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url, timeout=10):
    with LOCAL.open(url, timeout=timeout) as answer:
        return answer.read().decode()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(question, seconds, what):
    """The first answer that is true; for what another process announces nowhere."""
    ends = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if answer := question():
                return answer
        if time.monotonic() > ends:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Daemon:
    """croupierd with an instance, a directory and a port of its own; and the engines that it serves."""

    def __init__(self, programs, samplers=1):
        self.programs = pathlib.Path(programs)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="croupier-web-"))
        self.shm = pathlib.Path(f"/dev/shm/{self.folder.name}")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.endpoint = f"ipc://{self.folder}/control.sock"
        config = {
            "instance": f"web-{os.getpid()}",
            "run_dir": str(self.folder),
            "shm": {"dir": str(self.shm)},
            "samplers": {"count": samplers},
            "control": {"endpoint": self.endpoint},
            "metrics": {"listen": f"127.0.0.1:{self.port}"},
        }
        (self.folder / "croupierd.yaml").write_text(json.dumps(config))
        self.engines = []
        self.start()

    def start(self):
        with (self.folder / "log").open("a") as log:
            command = [self.programs / "croupierd", "--config", self.folder / "croupierd.yaml"]
            self.process = subprocess.Popen(command, stderr=log)
        eventually(lambda: fetch(self.url + "/readyz"), 20, f"{self.url}/readyz\n{self.log()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self):
        return (self.folder / "log").read_text()

    def engine(self, *options):
        """A simulated engine that goes on until the daemon is closed, or its work is done."""
        command = [self.programs / "croupier-sim", "--endpoint", self.endpoint, "--json", *map(str, options)]
        output = self.folder / f"engine-{len(self.engines)}"
        with output.open("w") as file:
            self.engines.append(subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True))
        return self.engines[-1], output

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for engine in self.engines:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(engine.pid, signal.SIGKILL)
            engine.wait()
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)


class Prometheus:
    """Prometheus with deploy/prometheus/prometheus.yaml and its rules, asking `targets` each second."""

    def __init__(self, targets):
        import yaml

        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="croupier-prometheus-"))
        config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(ROOT / "deploy/prometheus" / name) for name in config["rule_files"]]
        config["scrape_configs"][0]["static_configs"] = [{"targets": list(targets)}]
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.folder}/prometheus.yml",
                    f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--log.level=warn",
                ],
                stderr=log,
            )
        eventually(
            lambda: fetch(self.url + "/-/ready"), 30, f"Prometheus\n{(self.folder / 'log').read_text()}"
        )

    def ask(self, call, **parameters):
        url = f"{self.url}/api/v1/{call}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            answer = json.loads(fetch(url))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, expression, seconds):
        """What `expression` was over the last seconds: [(labels, [numbers])]."""
        now = time.time()
        data = self.ask("query_range", query=expression, start=now - seconds, end=now, step=1)
        return [(s["metric"], [float(v) for _, v in s["values"]]) for s in data["result"]]

    def alerts(self, state):
        return {a["labels"]["alertname"]: a for a in self.ask("alerts")["alerts"] if a["state"] == state}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
