"""ZMQ messages: flatc says whether those of today are read by who knows the kept ones, and the other way."""

import re
import subprocess

from facts import KEPT, ROOT

SCHEMA = ROOT / "proto/messages.fbs"
KEPT_SCHEMA = KEPT / "messages.fbs"
RULE = (
    "A 1.x peer of another release sends and reads it so: fields and messages are added at the end of their "
    "table or union, and none is taken away, renamed, retyped or moved."
)


def broken():
    if not KEPT_SCHEMA.exists():
        return []
    said = subprocess.run(
        ["flatc", "--conform", KEPT_SCHEMA, SCHEMA], cwd=ROOT, capture_output=True, text=True
    )
    sentences = []
    if said.returncode != 0:
        why = " ".join((said.stderr + said.stdout).replace("error:", "").replace("flatc:", "").split())
        sentences.append(f"proto/messages.fbs does not conform to the kept one: {why}")
    # What flatc does not look at.
    for word in ("file_identifier", "root_type"):
        was, now = (re.search(rf"{word} (.*);", schema.read_text())[1] for schema in (KEPT_SCHEMA, SCHEMA))
        if was != now:
            sentences.append(f"{word} of proto/messages.fbs was {was} and is {now}")
    was, now = kept_tables(), tables(SCHEMA)
    for name, fields in was.items():
        there = now.get(name, [])
        moved = [field for i, field in enumerate(fields) if there[i : i + 1] != [field]]
        sentences += [f"{name} of proto/messages.fbs has not '{field}' where it was" for field in moved[:1]]
    version = re.search(r"kWireVersion = (\d+)", (ROOT / "proto/wire.h").read_text())[1]
    if version != "1":
        sentences.append(f"kWireVersion of proto/wire.h was 1 and is {version}")
    return sentences


def tables(schema):
    """Of each table, struct and union: what it holds, in order."""
    text = re.sub(r"//[^\n]*", "", schema.read_text())
    found = re.findall(r"(?:table|struct|union) (\w+) \{(.*?)\}", text, flags=re.S)
    return {
        name: [re.sub(r"\s+", " ", each).strip() for each in re.split("[;,]", body) if each.strip()]
        for name, body in found
    }


def kept_tables():
    return tables(KEPT_SCHEMA) if KEPT_SCHEMA.exists() else {}


def keep():
    new = sorted(tables(SCHEMA).keys() - kept_tables().keys())
    KEPT_SCHEMA.write_text(SCHEMA.read_text())
    return new
