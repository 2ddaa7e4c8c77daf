"""`vllm serve` of a test: the endpoints that the trial asks, over tokens that are hashes of a prompt.

    toy_server.py serve MODEL --host HOST --port PORT [--leave FILE] [--wrong]

--leave makes the file, and a process that outlives the server; --wrong draws another sixth token.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

running: set[int] = set()
lock = threading.Lock()


def token_after(tokens: list[int]) -> int:
    digest = hashlib.sha256(repr(tokens[-3:]).encode()).digest()
    return 3 + int.from_bytes(digest[:4], "little") % 400


class Handler(BaseHTTPRequestHandler):
    wrong = False

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200, b"")
        elif self.path == "/metrics":
            text = (
                f'vllm:num_requests_running{{engine="0"}} {len(running)}.0\nvllm:num_requests_waiting 0.0\n'
            )
            self._answer(200, text.encode())
        else:
            self._answer(404, b'{"error": {"message": "no such page"}}')

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("temperature", 0) < 0:
            self._answer(400, b'{"error": {"message": "temperature must be non-negative"}}')
            return
        with lock:
            running.add(id(self))
        try:
            self._complete(asked)
        except OSError:
            pass  # The client has gone, and with it the request.
        finally:
            with lock:
                running.discard(id(self))

    def _complete(self, asked: dict[str, Any]) -> None:
        prompt, tokens = list(asked["prompt"]), []
        if asked.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
        for place in range(asked["max_tokens"]):
            tokens.append(token_after([*prompt, *tokens]) + (self.wrong and place == 5))
            if asked.get("stream"):
                end = "length" if place + 1 == asked["max_tokens"] else None
                choice = {
                    "index": 0,
                    "text": f" {tokens[-1]}",
                    "token_ids": tokens[-1:],
                    "finish_reason": end,
                }
                self._event({"choices": [choice]})
            if asked["max_tokens"] > 1000:
                time.sleep(0.002)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)}
        if asked.get("stream"):
            self._event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
            return
        choice = {
            "text": "".join(f" {token}" for token in tokens),
            "token_ids": tokens,
            "finish_reason": "length",
            "stop_reason": None,
        }
        if asked.get("logprobs"):
            best = {f"token_id:{tokens[0]}": -0.5, f"token_id:{tokens[0] + 1}": -3.0}
            choice["logprobs"] = {"top_logprobs": [best]}
        self._answer(200, json.dumps({"choices": [choice], "usage": usage}).encode())

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Listener(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("serve")
    parser.add_argument("model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--leave")
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args()
    Handler.wrong = given.wrong
    if given.model == "broken":
        sys.exit("ValueError: this model is broken")
    if given.leave:
        Path(given.leave).write_text("left")
        subprocess.Popen(["sleep", "60"], start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Listener((given.host, given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
