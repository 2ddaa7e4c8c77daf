#!/usr/bin/env python3
"""Every name that a page gives exists: paths, links, headings, commands and their flags, metrics,
configuration keys, errors. docs/faq.md has a row for each error.

    tests/house/check_names.py BIN_FOLDER [PAGE...]      without pages: README.md, CONTRIBUTING.md and docs/
"""

import difflib
import fnmatch
import functools
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What pages say of other programs.
FOREIGN = {
    "Docker, podman, Kubernetes": "--shm-size --cpus --user --format --signal",
    "llama.cpp": "llama.cpp --samplers typ_p",
    "the engine of README.md, which tests/install builds": "engine.cpp",
    "vLLM, OpenAI": "SamplingParams gumbel_sample include_stop_str_in_output prompt_logprobs "
    "--additional-config --gpu-memory-utilization vllm_xargs draft_sample_method",
    "SGLang": "multinomial_with_seed --enable-deterministic-inference",
    "ZMQ": "ROUTER_MANDATORY ZMQ_USE_FD ipc_listener.cpp",
    "systemd": "MemoryMax",
    "mmdebstrap": "--variant --include",
    "CMake": "--component --install --prefix",
    "flatc": "--conform",
    "the imaginary filter of docs/how-to-add-a-control.md": "floor_p keep_floor_p",
}
FOREIGN_NAMES = {name for names in FOREIGN.values() for name in names.split()}
CODE = ["h", "hpp", "c", "cpp", "cu", "cuh", "fbs", "sh", "py", "service", "env", "yaml", "cmake", "map"]


def files_of_tree():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in ("build", ".git", ".cache", "__pycache__")]
        for name in names:
            yield (pathlib.Path(folder) / name).relative_to(ROOT).as_posix()


FILES = sorted(files_of_tree())
FOLDERS = sorted({p.as_posix() for f in FILES for p in pathlib.PurePosixPath(f).parents} - {"."})
TOP = "|".join(f for f in FOLDERS if "/" not in f and f != ".ci")
SOURCES = [f for f in FILES if f.rsplit(".", 1)[-1] in CODE or f.endswith("CMakeLists.txt") or f == "dev"]
SOURCES.remove("tests/house/check_names.py")  # which has FOREIGN


def text_of(file):
    return (ROOT / file).read_text(errors="replace")


def said(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


class Command:
    """A program or one of its commands."""

    def __init__(self, flags, commands):
        self.flags, self.commands = flags, commands

    def all_flags(self):
        return self.flags.union(*(command.all_flags() for command in self.commands.values()))


def described(*words):
    """As its --help and those of its commands describe it."""
    text = said(*words, "--help").split("Examples:")[0]
    listed = re.search(r"\nSubcommands:\n((?:  .*\n)+)", text)
    names = re.findall(r"^  (\w+)", listed[1], re.M) if listed else []
    flags = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
    return Command(flags, {name: described(*words, name) for name in names})


def described_dev():
    commands = {"help": Command(set(), {})}
    for name, rest in re.findall(r"^  (\w+)(.*)", said("./dev", "help"), re.M):
        commands.setdefault(name, Command(set(), {})).flags.update(re.findall(r"--[a-z]+", rest))
    return Command(set(), commands)


def keys_of(yaml):
    """The keys of a configuration, sections too: {line: "control.curve.secret_key_file"}."""
    inside, keys = [], {}
    for number, line in enumerate(yaml.splitlines()):
        found = re.match(r"( *)([a-z_]+):", line)
        if not found:
            continue
        inside = [(indent, key) for indent, key in inside if indent < len(found[1])]
        inside.append((len(found[1]), found[2]))
        keys[number] = ".".join(key for _, key in inside)
    return keys


def enumerators(file, enum):
    body = re.search(rf"enum class {enum}\b[^{{]*{{(.*?)}};", text_of(file), re.S)[1]
    return set(re.findall(r"^\s*(\w+)", re.sub(r"//.*", "", body), re.M)) - {"none", "count_"}


def flags_of_scripts(span):
    """Of the Python scripts that a command names."""
    scripts = [name for name in re.findall(r"[\w/.-]+\.py\b", span) if name in FILES]
    return {flag for name in scripts for flag in re.findall(r'add_argument\(\s*"(--[a-z-]+)"', text_of(name))}


def metric_names():
    names = re.findall(
        r'\b(?:add_family|family|of_samplers|of_sessions)\(\s*"([a-z_]+)"',
        text_of("daemon/observation/metrics.cpp"),
    )
    names += [
        re.sub("_ns$", "_seconds", name) + "_total"
        for name in re.findall(r'CounterText{"([a-z_]+)"', text_of("proto/counters.h"))
    ]
    return {"croupier_" + name for name in names}


class Tree:
    def __init__(self, programs):
        self.programs = {name: described(str(programs / name)) for name in ("croupier", "croupierd")}
        self.programs["./dev"] = described_dev()
        self.flags = self.programs["croupier"].all_flags() | self.programs["croupierd"].flags
        self.keys = set(
            keys_of(
                said(str(programs / "croupierd"), "--print-config", "--config", "config/croupierd.yaml")
            ).values()
        )
        self.sections = {key.split(".")[0] for key in self.keys}
        self.errors = enumerators("shm/error.h", "Errc") | enumerators("proto/decision.h", "DecisionError")
        self.words = set(re.findall(r"\w+", "\n".join(text_of(file) for file in SOURCES))) | metric_names()
        self.words |= {pathlib.PurePosixPath(file).stem for file in SOURCES}


def expand(name):
    """kills-tp{1,2}.json is two names; … stands for anything."""
    braces = re.search(r"{([^{}]*)}", name)
    if not braces:
        return [name.replace("…", "*")]
    return [
        one
        for part in braces[1].split(",")
        for one in expand(name[: braces.start()] + part + name[braces.end() :])
    ]


def path_exists(name):
    if re.fullmatch(r"(?:docs/)?decisions/\d{4}", name):
        name += "-*"
    known = FOLDERS if name.endswith("/") else FILES + FOLDERS
    name = name.rstrip("/")
    if "*" in name:
        return any(fnmatch.fnmatch(each, name) or fnmatch.fnmatch(each, "*/" + name) for each in known)
    # A name without its ending is a header and its source.
    return any(
        each in (name, stem) or each.endswith(("/" + name, "/" + stem))
        for each in known
        for stem in [name + each[each.rfind(".") :]]
    )


@functools.cache
def headings_of(page):
    """The names by which links find a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)
    names = set()
    for heading in re.findall(r"^#+ (.*)", text, re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number, free = 0, name
        while free in names:
            number += 1
            free = f"{name}-{number}"
        names.add(free)
    return names


class Page:
    def __init__(self, file, tree):
        self.file, self.tree, self.faults = file, tree, []
        self.in_errors, self.explained = False, set()
        self.text = text_of(file)
        self.split()

    def split(self):
        """Blocks of code apart from prose; both keep their places, so that a place tells its line."""
        fence = indented = None
        self.code = []  # (line number, text, language)
        prose = []
        for number, line in enumerate(self.text.split("\n"), 1):
            blank_before = number == 1 or not prose[-1].strip()
            if line.startswith("```"):
                fence = None if fence is not None else line[3:].strip()
                line = ""
            elif fence is not None or (line.startswith("    ") and (indented or blank_before)):
                self.code.append((number, line, fence))
                indented, line = fence is None, ""
            else:
                indented = False
            prose.append(line)
        self.prose = "\n".join(prose)
        self.spans = [
            (self.prose.count("\n", 0, found.start()) + 1, " ".join(found[1].split()))
            for found in re.finditer(r"`((?:[^`\n]|\n(?!\n))+)`", self.prose)
        ]

    def fault(self, line, kind, name, pool):
        near = difflib.get_close_matches(name, sorted(pool), 1, 0.0) or ["none"]
        self.faults.append((line, f"{self.file}:{line}: no {kind} '{name}'; the nearest: '{near[0]}'"))

    def check(self):
        self.check_paths()
        self.check_links()
        for line, span in self.spans:
            self.check_span(line, span)
        self.check_blocks()
        for number, line in enumerate(self.text.split("\n"), 1):
            for name in re.findall(r"\bcroupier_[a-z0-9_]+", line):
                if name not in self.tree.words:
                    pool = {word for word in self.tree.words if word.startswith("croupier_")}
                    self.fault(number, "metric or symbol", name, pool)
            self.check_error_row(number, line)
        if self.file == "docs/faq.md":
            for name in self.tree.errors - self.explained:
                self.faults.append((0, f"{self.file}: its tables of errors lack '{name}'"))
        return [text for _, text in sorted(set(self.faults))]

    def check_paths(self):
        part = r"[\w…*{},.-]"
        patterns = [
            rf"(?<![\w/:.~$…*-])((?:{TOP})/(?:{part}|/)*)",
            rf"(?<![\w/:.~$…*-])((?:{part}|/)*[\w…*}}]\.(?:{'|'.join(CODE + ['md'])}))(?!\w)",
            r"(?<![\w/:.~$…*-])([\w…*{},/-]*(?:20\d{6}|…)[\w…*{},.-]*\.json)",
            r"`([\w-]+/)`",
        ]
        for number, line in enumerate(self.text.split("\n"), 1):
            line = re.sub(r"#include <.*>|\]\([^)]*\)", "", line)
            for name in {found for pattern in patterns for found in re.findall(pattern, line)}:
                name = name.rstrip(".,")
                if name.startswith(("/", "build/", "../")) or name in FOREIGN_NAMES:
                    continue  # on the machine, made by the build, or a link
                for one in expand(name):
                    if not path_exists(one):
                        self.fault(number, "path", one, FILES + FOLDERS)

    def check_links(self):
        for found in re.finditer(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", self.prose):
            target, heading = found[1], found[2]
            if "://" in target:
                continue
            line = self.prose.count("\n", 0, found.start()) + 1
            if target:
                target = os.path.normpath(pathlib.PurePosixPath(self.file).parent / target)
                if target not in FILES and target not in FOLDERS:
                    self.fault(line, "path", target, FILES)
                    continue
            page = target or self.file
            if heading and page.endswith(".md") and heading not in headings_of(page):
                self.fault(line, f"heading of {page}", heading, headings_of(page))

    def check_span(self, line, span):
        if re.match(r"(croupierd?|\./dev)( |$)", span):
            return self.check_command(line, span)
        if re.match(r"(bench|hotset) [a-z]+", span):
            return self.check_command(line, "croupier " + span)
        known_flags = self.tree.flags | FOREIGN_NAMES | flags_of_scripts(span)
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", span):
            if flag not in known_flags:
                self.fault(line, "flag", flag, self.tree.flags)
        if re.search(r"\.(" + "|".join(CODE + ["md", "json"]) + r")\b|/", span):
            return None  # paths, which are looked at above
        for key in re.findall(r"(?<![\w.])[a-z_]+(?:\.[a-z_]+)+(?![\w.(])", span):
            section = difflib.get_close_matches(key.split(".")[0], self.tree.sections, 1, 0.8)
            if section and key not in self.tree.keys:
                self.fault(line, "configuration key", key, self.tree.keys)
        for name in re.findall(r"(?<![\w.-])[A-Za-z]\w*(?![\w-])", span):
            tells = re.search(r"[a-zA-Z0-9]_[a-zA-Z0-9]|^k[A-Z]|^[A-Z][a-z0-9]+[A-Z]", name)
            if tells and not name.startswith("croupier_") and name not in self.tree.words | FOREIGN_NAMES:
                self.fault(line, "name", name, self.tree.words)
        return None

    def check_blocks(self):
        waiting, begun = "", 0
        for number, line, _ in self.code:
            begun = begun if waiting else number
            line = waiting + re.sub(r"\s#\s.*", "", line)
            waiting = line[:-1] + " " if line.endswith("\\") else ""
            if not waiting:
                for found in re.finditer(
                    r"(?<![\w/.-])(?:\S*/)?(croupier|croupierd|\./dev) +(?=[a-z-]).*", line
                ):
                    self.check_command(begun, found[1] + " " + found[0].split(" ", 1)[1])
        yaml = [(number, line) for number, line, language in self.code if language == "yaml"]
        for index, key in keys_of("\n".join(line for _, line in yaml)).items():
            if key not in self.tree.keys:
                self.fault(yaml[index][0], "configuration key", key, self.tree.keys)

    def check_command(self, line, text):
        text = re.split(r"[|;&<>]", re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", text))[0]
        program, *words = text.split()
        command, path = self.tree.programs[program], program
        may_name = True
        for word in words:
            if word.startswith("--"):
                flag = word.split("=")[0]
                if flag not in command.flags:
                    self.fault(line, f"flag of {path}", flag, command.flags | self.tree.flags)
            elif may_name and command.commands and re.fullmatch(r"[a-z]+", word):
                if word not in command.commands:
                    return self.fault(line, f"command of {path}", word, command.commands)
                command, path = command.commands[word], f"{path} {word}"
            may_name = not word.startswith("-")
        return None

    def check_error_row(self, number, line):
        """The first column of the tables of errors."""
        begins = re.match(r"\| (decision )?error \| meaning", line) is not None
        self.in_errors = line.startswith("|") and (self.in_errors or begins)
        for name in re.findall(r"`(\w+)`", line.split("|")[1]) if self.in_errors else []:
            self.explained.add(name)
            if name not in self.tree.errors:
                self.fault(number, "error", name, self.tree.errors)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tree = Tree(pathlib.Path(sys.argv[1]).resolve())
    pages = sys.argv[2:] or [f for f in FILES if re.match(r"docs/.*\.md$|(README|CONTRIBUTING)\.md$", f)]
    faults = [fault for page in pages for fault in Page(page, tree).check()]
    if faults:
        print("\n".join(faults), flush=True)
        sys.exit(f"{len(faults)} name(s) in the pages that nothing has, or that a page lacks")
    print(f"every name in {len(pages)} pages exists")


if __name__ == "__main__":
    main()
