"""Reads declarations of our own headers, and asks a compiler where things lie.

It knows as much of C and C++ as those headers use.
"""

import pathlib
import re
import subprocess
import tempfile


def code_of(path):
    """Without comments and lines of the preprocessor."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", pathlib.Path(path).read_text(), flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def statements(text):
    """Declaration by declaration, with the text of the block that follows it, or None."""
    begun, depth, opened = 0, 0, 0
    for at, character in enumerate(text):
        if character == "{":
            opened = at if depth == 0 else opened
            depth += 1
        elif character == "}":
            depth -= 1
            declaration = text[begun:opened]
            # `int a{};` and `= {...};` go on to their semicolon.
            if depth == 0 and not re.match(r"\s*[;,)]", text[at + 1 :]):
                yield one_line(declaration), text[opened + 1 : at]
                begun = at + 1
            elif (
                depth == 0
                and re.match(r"\s*;", text[at + 1 :])
                and re.search(r"\b(struct|class|enum)\b", declaration)
            ):
                yield one_line(declaration), text[opened + 1 : at]
                begun = at + 1 + text[at + 1 :].index(";") + 1
        elif character == ";" and depth == 0:
            if declaration := one_line(text[begun:at]):
                yield declaration, None
            begun = at + 1


def printed(program, language, *arguments):
    """What the program prints: name, tab, value on each line; values that are numbers as numbers."""
    compiler = {"c": ["cc", "-std=c11"], "cpp": ["c++", "-std=c++20", "-Wno-invalid-offsetof"]}[language]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"facts.{language}"
        source.write_text(program)
        built = subprocess.run(
            [*compiler, str(source), "-o", f"{folder}/facts", *map(str, arguments)],
            capture_output=True,
            text=True,
        )
        if built.returncode != 0:
            why = [line for line in built.stderr.splitlines() if "error" in line]
            raise SystemExit("the headers do not compile:\n" + "\n".join(why[:10]))
        said = subprocess.run([f"{folder}/facts"], check=True, capture_output=True, text=True).stdout
    pairs = (line.split("\t", 1) for line in said.splitlines())
    return {name: int(value) if re.fullmatch(r"-?\d+", value) else value for name, value in pairs}
