"""What is frozen, as facts: a name, and what is so of it.

A fact that was kept has to be there and to be what it was; where it is a list, what was in it has to be in
it still. A limit may rise. New facts are free.
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = pathlib.Path(__file__).parent / "kept"
RELEASE = re.search(r"project\(croupier VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())[1]


# What callers may ask for at most. CROUPIER_MAX_ORDER is the length of an array in a struct.
LIMIT = re.compile(
    r"(?:enumerator|macro) CROUPIER_"
    r"(?:MAX_(?!ORDER$)\w+|FAN_OUT_MAX_RECORD|WRITER_MAX_STORE_BLOCKS)"
)


class Kept:
    """The facts of one kind that releases have promised, in a file of kept/."""

    def __init__(self, kind):
        self.kind = kind
        self.file = KEPT / f"{kind}.json"
        stored = json.loads(self.file.read_text()) if self.file.exists() else {"release": "none", "facts": {}}
        self.release, self.facts = stored["release"], stored["facts"]

    def keep(self, facts):
        """Adds what is new; what was kept stays."""
        merged = {name: _both(self.facts.get(name), now) for name, now in facts.items()}
        merged = {**self.facts, **merged}
        lines = ",\n".join(
            f"    {json.dumps(n)}: {json.dumps(merged[n], ensure_ascii=False)}" for n in sorted(merged)
        )
        text = f'{{\n  "release": {json.dumps(RELEASE)},\n  "facts": {{\n{lines}\n  }}\n}}\n'
        self.file.write_text(text)
        return sorted(merged.keys() - self.facts.keys())


def _both(kept, now):
    if not isinstance(now, list):
        return now
    new = [each for each in now if each not in (kept or []) and not str(each).endswith(": null")]
    return (kept or []) + new


def _may_be_there(path, paths):
    """A JSON key that is null now, or in a list that is empty now, may be of its kind at another time."""
    places = [path.rsplit(": ", 1)[0]] if isinstance(path, str) else []
    places += [path[: found.end()] for place in places for found in re.finditer(r"\[\]", place)]
    return any(f"{place}: null" in paths for place in places)


def broken(kept, now):
    """A sentence for each promise of `kept` that `now` breaks."""
    sentences = []
    for name, was in kept.items():
        if name not in now:
            sentences.append(f"{name} is gone (it was {_shown(was)})")
        elif isinstance(was, list):
            lost = [each for each in was if each not in now[name] and not _may_be_there(each, now[name])]
            sentences += [f"{name} has lost {each}" for each in lost]
        elif LIMIT.fullmatch(name):
            if now[name] < was:
                sentences.append(f"{name} was {was} and is only {now[name]}")
        elif now[name] != was:
            sentences.append(f"{name} was {_shown(was)} and is {_shown(now[name])}")
    return sentences


def _shown(value):
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
