#!/usr/bin/env python3
"""Pictures of the page at / of a daemon that serves three simulated engines, for the documents.

page_pictures.py BIN_FOLDER PICTURE_FOLDER
"""

import pathlib
import sys

import real_processes
from browser import Browser
from page_test import recent, show

# So that pictures show different engines.
PICTURED = (
    "--batch 16 --vocab 32000 --tp 2 --stage-ms 40 --mix mixed --prompt-max 512",
    "--batch 8 --vocab 151936 --stage-ms 25 --mix plain --prompt-max 256 --summaries",
    "--batch 4 --vocab 8192 --stage-ms 15 --mix greedy --prompt-max 64",
)
ENDLESS = "--steps 1000000 --output-max 64 --verify after"
PICTURE_SECONDS = 70


def make_pictures(programs, folder):
    folder = pathlib.Path(folder)
    with real_processes.Daemon(programs, samplers=2) as daemon:
        engines = []
        for number, options in enumerate(PICTURED):
            engines.append(daemon.engine(*options.split(), *ENDLESS.split(), "--seed", number + 1))
        real_processes.eventually(
            lambda: recent(daemon, PICTURE_SECONDS), PICTURE_SECONDS + 60, "seconds to draw"
        )
        ended = [output.read_text() for engine, output in engines if engine.poll() is not None]
        assert not ended, f"an engine has ended: {ended}"
        for name, width, height, scheme in (("page", 1280, 1000, "light"), ("page-phone", 360, 1100, "dark")):
            with Browser() as browser:
                browser.prefer(scheme)
                show(browser, daemon)
                browser.resize(width, height, touch=width < 700)
                browser.until("all('.session path').length > 3")
                browser.run("document.querySelector('#ranges button').click()")
                browser.picture(folder / f"{name}.png")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    make_pictures(sys.argv[1], sys.argv[2])
