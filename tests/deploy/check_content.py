#!/usr/bin/env python3
"""check_content.py BUILD: what each Debian package is made of. Programs lie in the package that is named for
them, every package has its licence, the installed pages link to nothing that is not there, and manual pages
and completions follow the programs' --help.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

PACKAGES = {
    "daemon": ("croupier", {"croupier", "croupierd"}),
    "bench": ("croupier-bench", {"croupier-bench", "croupier-sim"}),
    "library": ("libcroupier1", set()),
    "development": ("libcroupier-dev", set()),
}


def installed(build, component, folder):
    subprocess.run(
        ["cmake", "--install", build, "--prefix", "/usr", "--component", component],
        env={**os.environ, "DESTDIR": str(folder)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder / "usr"


def check_links(pages):
    count = 0
    for page in pages.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                count += 1
                assert (page.parent / target).exists(), f"{page.relative_to(pages)} links to {target}"
    assert count > 100, f"only {count} links were found"


def help_of(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout


def check_manual_page(page, program):
    text = page.read_text()
    assert text.startswith(".TH "), f"{page} is no manual page"
    assert str(program.parent) not in text, f"{page} has a path of the build"
    plain = text.replace("\\-", "-")
    said = help_of(program)
    for option in set(re.findall(r"--[a-z][a-z-]+", said)):
        assert option in plain, f"{page} lacks {option}"
    return plain, said


def completed(file, *words):
    script = f'source {file}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _croupier; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(
        ["bash", "-c", script, "bash", *map(str, words)], check=True, capture_output=True, text=True
    ).stdout.split()


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        roots = {name: installed(build, name, pathlib.Path(folder, name)) for name in PACKAGES}
        for component, (package, programs) in PACKAGES.items():
            found = {path.name for path in roots[component].glob("bin/*")}
            assert found == programs, f"{package} has the programs {found}"
            licence = roots[component] / "share/doc" / package / "copyright"
            assert "Apache-2.0" in licence.read_text(), licence
        share = roots["daemon"] / "share"
        check_links(share / "doc/croupier")
        programs = build / "bin"
        check_manual_page(share / "man/man8/croupierd.8", programs / "croupierd")
        page, said = check_manual_page(share / "man/man1/croupier.1", programs / "croupier")
        for command in ("status", "doctor", "cleanup"):
            assert f"  {command} " in said, f"croupier has no command {command}"
            assert f'.SH "CROUPIER {command.upper()}"' in page, f"croupier.1 lacks {command}"
        for name in ("croupier", "croupierd"):
            completion = share / "bash-completion/completions" / name
            assert completed(completion, programs / "croupierd", "--print") == ["--print-config"]
            assert completed(completion, programs / "croupier", "clean") == ["cleanup"]
            assert completed(completion, programs / "croupier", "status", "--js") == ["--json"]
            assert completed(completion, programs / "croupier", "hotset", "bu") == ["build"]
    print(f"{len(PACKAGES)} packages: programs, licences, links, manuals and completions are right")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
