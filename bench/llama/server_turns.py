"""Tokens a second of two llama-servers by turns: llama.cpp's own, and one with server.patch.

server_turns.py NATIVE OURS MODEL.gguf [--slots 1 8 32] [--kinds default all …] [--rounds 3] [--out FILE.json]

Each slot has one request at a time, of ids as prompt. A row of the table is the median of the rounds.
"""

import argparse
import concurrent.futures
import hashlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import time

ALL = {
    "repeat_penalty": 1.1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "dry_multiplier": 0.8,
    "top_n_sigma": 3.0,
    "typical_p": 0.97,
    "xtc_probability": 0.5,
}
KINDS = {
    "greedy": {"temperature": 0.0},
    "default": {},
    "all": ALL,
    "all, top-k off": ALL | {"top_k": 0},
    "mirostat": {"mirostat": 2},
}
TOKENS = {1: 64, 8: 32, 32: 16}


class Server:
    def __init__(self, program: str, model: str, slots: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [program, "-m", model, "--host", "127.0.0.1", "--port", str(self.port), "-np", str(slots)]
        command += ["-c", str(slots * 256), "-t", "1", "-tb", "1", "--no-webui"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.is_ready():
            if self.process.poll() is not None:
                raise SystemExit(f"{' '.join(command)} ended with {self.process.returncode}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            return self.ask("GET", "/health", None)[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: dict | None) -> tuple[int, dict]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(
            method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def complete(self, slot: int, count: int, kind: dict) -> list[int]:
        body = {"prompt": [1, 1000 + slot], "n_predict": count, "seed": slot + 1, "return_tokens": True}
        body |= {"ignore_eos": True, "cache_prompt": False}
        status, answer = self.ask("POST", "/completion", body | kind)
        if status != 200 or len(answer["tokens"]) != count:
            raise SystemExit(f"slot {slot}: {status}, {str(answer)[:300]}")
        return answer["tokens"]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def run(server: Server, slots: int, kind: dict, pool: concurrent.futures.Executor) -> tuple[float, str]:
    """Tokens a second, and a hash of all tokens."""
    count = TOKENS.get(slots, 24)
    begin = time.perf_counter()
    tokens = list(pool.map(lambda slot: server.complete(slot, count, kind), range(slots)))
    seconds = time.perf_counter() - begin
    return slots * count / seconds, hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]


def measure(asked: argparse.Namespace, slots: int) -> list[dict]:
    servers = {
        "llama.cpp": Server(asked.native, asked.model, slots),
        "ours": Server(asked.ours, asked.model, slots),
    }
    lines = []
    with concurrent.futures.ThreadPoolExecutor(slots) as pool:
        for name in asked.kinds:
            rates: dict[str, list[float]] = {which: [] for which in servers}
            hashes: dict[str, set[str]] = {which: set() for which in servers}
            for _ in range(asked.rounds):
                for which, server in servers.items():
                    rate, drawn = run(server, slots, KINDS[name], pool)
                    rates[which].append(rate)
                    hashes[which].add(drawn)
            medians = {which: statistics.median(values) for which, values in rates.items()}
            ratio = medians["ours"] / medians["llama.cpp"]
            lines.append(
                {
                    "kind": name,
                    "slots": slots,
                    "rates": rates,
                    "ratio": ratio,
                    "hashes": {w: sorted(h) for w, h in hashes.items()},
                }
            )
            said = ", ".join(f"{which} {value:.1f}" for which, value in medians.items())
            print(f"{slots:2} slots, {name}: {said} tokens/s, {ratio:.2f}; {lines[-1]['hashes']}", flush=True)
    for server in servers.values():
        server.close()
    return lines


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("native", "ours", "model"):
        arguments.add_argument(name)
    arguments.add_argument("--slots", type=int, nargs="+", default=[1, 8, 32])
    arguments.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--out")
    asked = arguments.parse_args()
    lines = [line for slots in asked.slots for line in measure(asked, slots)]
    if asked.out:
        with open(asked.out, "w") as file:
            json.dump({"cores": os.cpu_count(), "lines": lines}, file, indent=1)


if __name__ == "__main__":
    main()
