"""Events of the log: their names and levels, and the fields that the code gives them."""

import re

from c_sources import code_of
from facts import ROOT

RULE = "Collectors look for events by name, and in them for fields by name."


def balanced(text, at):
    """The text from the brace at `at` to the one that closes it."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[at : end + 1]
    raise SystemExit(f"a brace that does not end: {text[at : at + 80]}")


def fields_in(text):
    """In `event_log::write(Event::x, {{"name", value}, ...}`."""
    for call in re.finditer(r"\bEvent::(\w+),\s*(?=\{)", text):
        yield call[1], re.findall(r'\{\s*"(\w+)",', balanced(text, call.end()))
    for call in re.finditer(r"\bEvent::(\w+),(?: said,)? fields,", text):
        begun = text.rindex(" fields = {", 0, call.start()) + len(" fields = ")
        yield call[1], re.findall(r'\{\s*"(\w+)",', balanced(text, begun))


def facts():
    found = {}
    for name, level in re.findall(
        r'\{Event::\w+, "(\w+)", Level::(\w+),', re.sub(r"\s+", " ", code_of(ROOT / "event_log/events.cpp"))
    ):
        found[f"level of {name}"] = level
        found[f"fields of {name}"] = []
    for folder in ("daemon", "fan_out", "tools/relay", "event_log"):
        for file in sorted((ROOT / folder).rglob("*.cpp")):
            if file.name != "events.cpp":
                for event, fields in fields_in(code_of(file)):
                    found[f"fields of {event}"] = sorted({*found.get(f"fields of {event}", []), *fields})
    return found
