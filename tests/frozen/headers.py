#!/usr/bin/env python3
"""The public headers and the libraries behind them.

headers.py FOLDER [KEPT_FOLDER]     says what a caller that was compiled against KEPT_FOLDER/croupier
                                    (tests/abi/kept) misses with a library of FOLDER/croupier's headers
"""

import pathlib
import re
import subprocess
import sys

from c_sources import code_of, one_line, printed, statements
from facts import LIMIT, ROOT, broken

KEPT_HEADERS = ROOT / "tests/abi/kept"
LIBRARIES = {
    "libcroupier.so": "client",
    "libcroupier_writer.so": "gpu_writer",
    "libcroupier_decide.so": "in_process",
    "libcroupier_fan_out.so": "fan_out",
}
RULE = (
    "A program that was compiled against 1.0 has it from its headers: only a new major version may change it."
)
NEVER_GROW = [
    f"croupier_{name}"
    for name in ("error", "bias", "string", "logprob", "survivor", "beam_row", "beam", "fan_out_keys")
]
# They say which headers these are, and how large the compiler saw a struct.
GROWS = {"CROUPIER_ABI_MINOR", "size", "version"}

SHOW = r"""
#include <stdio.h>
static void show_bytes(const char* name, const void* at, size_t bytes) {
    printf("%s\t0x", name);
    for (size_t i = 0; i < bytes; ++i) printf("%02x", ((const unsigned char*)at)[i]);
    printf("\n");
}
static void show_real(const char* name, double value) { printf("%s\t%.17g\n", name, value); }
static void show_whole(const char* name, long long value) { printf("%s\t%lld\n", name, value); }
static void show_text(const char* name, const char* value) {
    printf("%s\t%s\n", name, value ? value : "NULL");
}
#define SHOW_FIELD(type, field) \
    printf("field " #type "." #field "\tbyte %zu, %zu long\n", offsetof(type, field), \
           sizeof(((type*)0)->field))
#define NUMBER(name, x) _Generic((x), float: show_real, double: show_real, default: show_whole)(name, x)
"""


def headers_in(folder, suffix="h"):
    return sorted((pathlib.Path(folder) / "croupier").glob(f"*.{suffix}"))


def fields_of(body):
    """Name and type of each. A reserved one may get a name and a meaning: it is 0 until then."""
    for line in one_line(body).split(";"):
        if re.search(r"\breserved", line):
            continue
        if pointer := re.search(r"\(\*(\w+)\)\(", line):
            yield pointer[1], one_line(line.replace(pointer[1], "", 1))
        elif plain := re.search(r"^(.*?)(\w+)((?:\[\w+\])?)$", line.strip()):
            yield plain[2], one_line(plain[1] + plain[3])


def structs_of(headers):
    for header in headers:
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", code_of(header), flags=re.S):
            yield name, dict(fields_of(body))


def enumerators_of(headers):
    for header in headers:
        for body in re.findall(r"\benum \{(.*?)\}", code_of(header), flags=re.S):
            yield from re.findall(r"(\w+) =", body)


def without_name(parameter):
    return (
        re.sub(r"(?<=[\s*])\w+$", "", parameter.strip()).strip()
        if " " in parameter.strip()
        else parameter.strip()
    )


def functions_of(headers):
    """Prototype by types alone, and whether it is inline."""
    for header in headers:
        text = re.sub(r'extern "C" \{', "", code_of(header))
        for declaration, _ in statements(text):
            found = re.fullmatch(r"(static inline )?([\w ]+?[ *]+)(croupier_\w+)\((.*)\)", declaration)
            if found and "typedef" not in declaration:
                inline, answer, name, parameters = found.groups()
                types = ", ".join(map(without_name, parameters.split(",")))
                yield name, f"{answer.strip()} ({types})", bool(inline)


def shown_default(struct, field, kind):
    value = f"one.{field}"
    name = f'"default {struct}.{field}"'
    if kind == "const char*":
        return f"show_text({name}, {value});"
    if "*" in kind or "[" in kind:
        return f"show_bytes({name}, &{value}, sizeof({value}));"
    return f"NUMBER({name}, {value});"


def measured(folder):
    """What the compiler says: values, places, defaults."""
    headers = headers_in(folder)
    inits = {name for name, _, _ in functions_of(headers) if name.endswith("_init")}
    body = [
        f'show_whole("enumerator {name}", {name});' for name in enumerators_of(headers) if name not in GROWS
    ]
    body += [f'show_whole("size of {name}", sizeof({name}));' for name in NEVER_GROW]
    # As text, two limits cannot be compared.
    body += [
        f'show_whole("{name}", {name.removeprefix("macro ")});'
        for name, _ in macros_of(headers)
        if LIMIT.fullmatch(name)
    ]
    for struct, fields in structs_of(headers):
        for field in fields:
            body.append(f"SHOW_FIELD({struct}, {field});")
        if f"{struct}_init" in inits:
            defaults = " ".join(
                shown_default(struct, f, kind) for f, kind in fields.items() if f not in GROWS
            )
            body.append(f"{{ {struct} one; {struct}_init(&one); {defaults} }}")
    includes = "".join(f"#include <croupier/{header.name}>\n" for header in headers)
    return printed(
        includes + SHOW + "int main(void) {\n" + "\n".join(body) + "\nreturn 0; }\n", "c", "-I", folder
    )


def cpp_members(body):
    """What a class shows: its declarations that are not private."""
    visible = True
    for declaration, inner in statements(body):
        while label := re.match(r"(public|private|protected):\s*", declaration):
            visible = label[1] == "public"
            declaration = declaration[label.end() :]
        if visible and declaration:
            nested = re.search(r"\b(?:struct|class) (\w+)", declaration) if inner is not None else None
            yield re.sub(r" : (?!:).*$", "", declaration) if "(" in declaration else declaration
            if nested:
                yield from (f"{nested[1]}: {member}" for member in cpp_members(inner))


def cpp_facts(folder):
    facts = {}
    for header in headers_in(folder, "hpp"):
        for space, body in re.findall(
            r"namespace ([\w:]+) \{\s*inline namespace abi_\w+ \{(.*)\}\s*\}", code_of(header), flags=re.S
        ):
            for declaration, inner in statements(body):
                if found := re.match(r"(?:class|struct) (\w+)", declaration):
                    facts[f"C++ {space}::{found[1]}"] = sorted(cpp_members(inner or ""))
                elif "(" in declaration and not declaration.startswith("static_assert"):
                    facts[f"C++ {space}: {declaration}"] = "there"
    return facts


def macros_of(headers):
    """Those with a value, which no guard has."""
    for header in headers:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name, value in re.findall(r"^#define (CROUPIER_\w+)[ \t]+(\S.*)$", text, flags=re.M):
            yield f"macro {name}", one_line(value)


def facts_of(folder):
    facts = dict(macros_of(headers_in(folder))) | measured(folder)
    for struct, fields in structs_of(headers_in(folder)):
        for field, kind in fields.items():
            facts[f"field {struct}.{field}"] = f"{kind} at {facts[f'field {struct}.{field}']}"
    for name, prototype, inline in functions_of(headers_in(folder)):
        facts[f"function {name}"] = prototype
        # What is inline is compiled into the caller.
        facts[f"linkage of {name}"] = "inline" if inline else "of a library"
    return facts | cpp_facts(folder)


def symbols_of(build):
    """What each library exports, by the name under which a loader looks for it."""
    for name, folder in LIBRARIES.items():
        file = pathlib.Path(build) / folder / name
        dynamic = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
        soname = re.search(r"SONAME.*\[(.+)\]", dynamic)[1]
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", file], check=True, capture_output=True, text=True
        ).stdout
        yield soname, sorted(line.split()[2] for line in listed.splitlines() if " T " in line)


def facts(build):
    """Of the headers of this tree, and of the libraries that were built of it."""
    return facts_of(ROOT / "include") | {f"library {name}": symbols for name, symbols in symbols_of(build)}


if __name__ == "__main__":
    found = broken(facts_of(sys.argv[2] if len(sys.argv) > 2 else KEPT_HEADERS), facts_of(sys.argv[1]))
    print("\n".join([*found, RULE]) if found else "what the kept headers say is so")
    sys.exit(1 if found else 0)
