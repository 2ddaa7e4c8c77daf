#!/usr/bin/env python3
"""Keeps the public headers as the ones that later libraries have to serve: a copy in tests/abi/kept, and in
tests/abi/layout.c where each field of each struct lies. To be run when the ABI's major version changes, and never
else: run_abi.sh compiles layout.c against the headers of today."""
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
HEADERS = HERE.parent.parent / "include"
INCLUDES = "".join(f"#include <croupier/{p.name}>\n" for p in sorted((HEADERS / "croupier").glob("*.h")))
STRUCT = re.compile(r"typedef struct \w+ \{(.*?)\n\} (\w+);", re.S)
FIELD = re.compile(r"(\w+)(?:\[\w+\])?;|\(\*(\w+)\)\(")


def structs():
    for header in sorted((HEADERS / "croupier").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for body, name in STRUCT.findall(text):
            fields = []
            for line in re.sub(r"\s+", " ", body).split(";"):
                found = FIELD.search(line + ";")
                if line.strip() and found:
                    fields.append(found.group(2) or found.group(1))
            yield name, fields


def measured(all_structs):
    """As the compiler lays them."""
    lines = [f'printf("{s} {f} %zu %zu\\n", offsetof({s}, {f}), sizeof((({s}*)0)->{f}));'
             for s, fields in all_structs for f in fields]
    program = f"#include <stdio.h>\n{INCLUDES}int main(void) {{ {''.join(lines)} return 0; }}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "measure.c"
        source.write_text(program)
        subprocess.run(["cc", "-I", HEADERS, source, "-o", f"{folder}/measure"], check=True)
        return subprocess.run([f"{folder}/measure"], check=True, capture_output=True, text=True).stdout


def main():
    kept = HERE / "kept" / "croupier"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for header in (HEADERS / "croupier").glob("*.h"):
        shutil.copy(header, kept)
    checks = "".join(f"KEPT({' '.join(line.split())})\n".replace(" ", ", ")
                     for line in measured(list(structs())).splitlines())
    (HERE / "layout.c").write_text(
        "/* Written by keep.py: where the fields of the kept headers lie. A field that is added stands behind all of them. */\n"
        + INCLUDES + "\n#define KEPT(type, field, offset, bytes)                                     \\\n"
        "    _Static_assert(offsetof(type, field) == (offset) && sizeof(((type*)0)->field) == (bytes), \\\n"
        '                   #type "." #field " has moved: fields are added at the end");\n' + checks)


main()
