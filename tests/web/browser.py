"""Chromium without a window, told what to do over its DevTools protocol on a pipe: no port, no websocket."""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
# What it reads commands from and writes answers to, by its own definition.
COMMANDS, ANSWERS = 3, 4


def what_failed(details):
    return details.get("exception", {}).get("description") or details["text"]


class Browser:
    """One page of it. `errors`: what scripts threw and what it was refused; `asked`: all URLs asked for."""

    def __init__(self, program="chromium"):
        self.errors, self.asked = [], []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="croupier-browser-"))
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def connect():
            # Above 4 first: the ends may lie at 3 and 4 themselves.
            ends = [os.dup2(end, 100 + end) for end in (to_browser, from_browser)]
            os.dup2(ends[0], COMMANDS)
            os.dup2(ends[1], ANSWERS)

        # Its sandbox does not run as root.
        flags = [*FLAGS, "--no-sandbox"] if os.getuid() == 0 else FLAGS
        command = [program, *flags, f"--user-data-dir={self.folder}", "about:blank"]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=connect, close_fds=False, start_new_session=True
            )
        os.close(to_browser)
        os.close(from_browser)
        self.received, self.number, self.session = b"", 0, None
        self.attach()

    def attach(self):
        targets = self.command("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")

    def command(self, method, patience=30, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + patience
        while True:
            answer = self.next_message(ends, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    def next_message(self, ends, waits_for):
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.answers], [], [], max(0, ends - time.monotonic()))
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError(f"no answer to {waits_for}:\n{(self.folder / 'log').read_text()}")
            self.received += part
        text, _, self.received = self.received.partition(b"\0")
        return json.loads(text)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(what_failed(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["source"] in ("security", "javascript"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, url):
        self.command("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script):
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {what_failed(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def until(self, script, seconds=20):
        """The first value of `script` that is true."""
        ends = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > ends:
                raise AssertionError(f"not within {seconds} s: {script}; the page says\n{self.text()}")
            time.sleep(0.1)
        return value

    def text(self):
        return self.run("document.body.innerText")

    def resize(self, width, height, scale=1, touch=False):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=touch,
        )
        self.until(f"innerWidth === {width}")

    def prefer(self, scheme):
        self.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def picture(self, path, whole=False):
        made = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(made["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)
