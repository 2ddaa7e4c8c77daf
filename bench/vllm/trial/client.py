"""An HTTP client of an OpenAI-compatible server, of the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# For one answer: 384 requests at once on a server that has just started take some seconds.
PATIENCE = 90.0
COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


class ServerGoneError(RuntimeError):
    """The server did not answer, or closed the connection within an answer."""


@dataclass(frozen=True)
class Answer:
    """What came back for one request, streamed or in one piece."""

    status: int
    body: Any
    events: list[dict[str, Any]] = field(default_factory=list)
    """Of a stream: its events in their order, without the closing [DONE]."""

    @property
    def choices(self) -> list[dict[str, Any]]:
        if self.status != 200:
            raise ServerGoneError(f"status {self.status}: {self.message[:300]}")
        return self.body["choices"]

    @property
    def texts(self) -> list[str]:
        return [text_of(choice) for choice in self.choices]

    @property
    def tokens(self) -> list[list[int]]:
        return [choice["token_ids"] for choice in self.choices]

    @property
    def message(self) -> str:
        """Of an error: what it says."""
        if isinstance(self.body, dict):
            error = self.body.get("error", self.body)
            return str(error.get("message", error)) if isinstance(error, dict) else str(error)
        return str(self.body)

    def shown(self) -> dict[str, Any]:
        """What a client sees of a good answer, but for names and times."""
        return {
            "texts": self.texts,
            "tokens": [choice.get("token_ids") for choice in self.choices],
            "ends": [[choice["finish_reason"], choice.get("stop_reason")] for choice in self.choices],
            "usage": {name: self.body["usage"][name] for name in ("prompt_tokens", "completion_tokens")},
        }


def text_of(choice: dict[str, Any]) -> str:
    return choice["text"] if "text" in choice else choice["message"]["content"] or ""


class Client:
    def __init__(self, port: int, model: str, host: str = "127.0.0.1", patience: float = PATIENCE) -> None:
        self.model = model
        self._place = (host, port)
        self._patience = patience

    def get(self, path: str) -> Answer:
        return self._request("GET", path, None)

    def post(self, path: str, body: Any) -> Answer:
        return self._request("POST", path, body)

    def complete(self, prompt: Any, **given: Any) -> Answer:
        """A completion, greedy unless told otherwise, with its tokens."""
        return self.post(COMPLETIONS, self.completion_body(prompt, **given))

    def chat(self, messages: list[dict[str, Any]], **given: Any) -> Answer:
        return self.post(CHAT, self.chat_body(messages, **given))

    def completion_body(self, prompt: Any, **given: Any) -> dict[str, Any]:
        plain = {"model": self.model, "prompt": prompt, "temperature": 0, "return_token_ids": True}
        return {**plain, **given}

    def chat_body(self, messages: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
        plain = {"model": self.model, "messages": messages, "temperature": 0, "return_token_ids": True}
        return {**plain, **given}

    def stream(self, path: str, body: dict[str, Any]) -> Answer:
        """A streamed answer, put together as if it had come in one piece."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self._opened("POST", path, asked) as response:
            if response.status != 200:
                return Answer(response.status, _parsed(response.read()))
            events = list(events_of(response))
        return Answer(200, joined(events), events)

    def leave_after(self, path: str, body: dict[str, Any], events: int) -> int:
        """Reads so many events of a stream and closes the connection; how many came."""
        with self._opened("POST", path, {**body, "stream": True}) as response:
            came = 0
            for _ in events_of(response):
                came += 1
                if came >= events:
                    break
            return came

    def leave_unanswered(self, path: str, body: dict[str, Any], seconds: float) -> bool:
        """Closes the connection so long after a request that is not streamed; whether it was unanswered."""
        connection = self._connection(seconds)
        try:
            self._send(connection, "POST", path, body)
            connection.getresponse().read()
            return False
        except TimeoutError:
            return True
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """Of the page /metrics: each name's sum over its labels."""
        found: dict[str, float] = {}
        for line in self.get("/metrics").body.splitlines():
            if match := re.match(r"([a-zA-Z_:][\w:]*)(?:\{.*\})? ([-+0-9.eEinfNa]+)$", line):
                found[match[1]] = found.get(match[1], 0.0) + float(match[2])
        return found

    def _request(self, method: str, path: str, body: Any) -> Answer:
        with self._opened(method, path, body) as response:
            return Answer(response.status, _parsed(response.read()))

    @contextlib.contextmanager
    def _opened(self, method: str, path: str, body: Any) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection(self._patience)
        try:
            self._send(connection, method, path, body)
            yield connection.getresponse()
        except TimeoutError as error:
            raise ServerGoneError(f"{method} {path}: no answer within {self._patience:.0f} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise ServerGoneError(f"{method} {path}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def _connection(self, patience: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._place, timeout=patience)

    @staticmethod
    def _send(connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> None:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        with contextlib.suppress(OSError):
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _parsed(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def events_of(response: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Of a server-sent stream the events' JSON, up to its [DONE]."""
    for line in response:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield json.loads(data)
    raise ServerGoneError("the stream ended without [DONE]")


def joined(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The body that the same answer has in one piece."""
    choices: dict[int, dict[str, Any]] = {}
    body: dict[str, Any] = {"usage": None}
    for event in events:
        if "error" in event:
            return {"error": event["error"], "choices": []}
        body["usage"] = event.get("usage") or body["usage"]
        for part in event["choices"]:
            fresh = {"text": "", "token_ids": [], "finish_reason": None, "stop_reason": None}
            choice = choices.setdefault(part["index"], fresh)
            choice["text"] += part["text"] if "text" in part else part["delta"].get("content") or ""
            choice["token_ids"] += part.get("token_ids") or []
            if part.get("finish_reason") is not None:
                choice["finish_reason"] = part["finish_reason"]
                choice["stop_reason"] = part.get("stop_reason")
    body["choices"] = [choices[index] for index in sorted(choices)]
    return body


def at_once(asked: list[Callable[[], Any]], patience: float = 2 * PATIENCE) -> list[Any]:
    """The answers of functions that are called at the same moment, each by a thread of its own.

    An exception takes the place of the answer. A thread that is not done by then counts as such, and is left.
    """
    found: list[Any] = [ServerGoneError(f"no answer within {patience:.0f} s") for _ in asked]
    gate = threading.Barrier(len(asked) + 1)

    def work(place: int, function: Callable[[], Any]) -> None:
        gate.wait()
        try:
            found[place] = function()
        except Exception as error:
            found[place] = error

    threads = [
        threading.Thread(target=work, args=(place, one), daemon=True) for place, one in enumerate(asked)
    ]
    for thread in threads:
        thread.start()
    gate.wait()
    end = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return list(found)
