#!/usr/bin/env python3
"""The page at / of the metrics port, in a real browser that looks at a real croupierd.

page_test.py BIN_FOLDER                       the tests
page_test.py BIN_FOLDER --pictures FOLDER     pictures of a daemon with several sessions at work
"""

import json
import pathlib
import re
import subprocess
import sys
import time

import real_processes
from browser import Browser

HOSTILE = "<img/src=x/onerror=document.title='owned'>"


class ToldEngine:
    """An engine that takes a step when it is told to."""

    def __init__(self, daemon, name, sequences=4):
        program = daemon.programs / "web_told_engine"
        self.process = subprocess.Popen(
            [program, daemon.endpoint, name, str(sequences)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.await_done()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self.await_done()

    def await_done(self):
        assert self.process.stdout.readline() == "done\n", f"the engine ended: {self.process.wait()}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def metrics(daemon):
    lines = real_processes.fetch(daemon.url + "/metrics").splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def recent(daemon, after=0):
    return json.loads(real_processes.fetch(daemon.url + f"/recent.json?after={after}"))["seconds"]


def await_another_second(daemon):
    seen = real_processes.eventually(lambda: recent(daemon), 10, "a first second")[-1]["number"]
    real_processes.eventually(lambda: recent(daemon, seen), 10, "another second")


def session(name):
    """JavaScript that finds the part of the page that shows the session."""
    return f"[...document.querySelectorAll('.session')].find(e => e.querySelector('h3').textContent === {json.dumps(name)})"


def fact(name, key):
    return f"{session(name)}?.querySelector('[data-fact={key}]')?.textContent"


def number(text):
    return float(text.replace(",", ""))


def shows_the_numbers_of_metrics(browser, daemon):
    with ToldEngine(daemon, "one") as one, ToldEngine(daemon, "two", 8) as two:
        browser.open(daemon.url)
        one.tell("steps 30")
        two.tell("steps 150")
        browser.until(f"{fact('one', 'columns_decided')} === '120' && {fact('two', 'columns_decided')} === '1,200'")
        # The seconds in which all this happened are over.
        await_another_second(daemon)
        browser.until(f"{fact('one', 'overlap')} !== '–' && {fact('two', 'overlap')} !== '–'")
        await_another_second(daemon)
        told = metrics(daemon)
        for name in ("one", "two"):
            for key, metric in (
                ("columns_decided", "columns_decided_total"),
                ("steps_taken", "steps_taken_total"),
                ("columns_failed", "columns_failed_total"),
                ("live_sequences", "session_sequences"),
            ):
                shown = number(browser.run(fact(name, key)))
                assert shown == told[f'croupier_{metric}{{session="{name}"}}'], (name, key, shown)
            overlap = float(browser.run(fact(name, "overlap")).removesuffix(" %")) / 100
            assert abs(overlap - told[f'croupier_overlap_ratio{{session="{name}"}}']) < 0.006, (name, overlap)
        in_table = browser.run("[...document.querySelectorAll('#samplers tbody tr')].map(r => r.cells[3].textContent)")
        for sampler, columns in enumerate(in_table):
            assert number(columns) == told[f'croupier_sampler_columns_total{{sampler="{sampler}"}}']
        # The tokens of all seconds in the picture's table are the tokens that were decided.
        drawn = browser.until(
            f"{session('two')}.querySelector('figure details').open = true,"
            f"{session('two')}.querySelector('path.line')?.getAttribute('d')"
        )
        assert drawn.count(",") >= 2, drawn
        assert browser.run("document.title").endswith(f"Croupier {metrics_instance(daemon)}")


def metrics_instance(daemon):
    return json.loads(real_processes.fetch(daemon.url + "/snapshot.json"))["instance"]


def opened_now_has_the_last_minutes(browser, daemon):
    with ToldEngine(daemon, "early") as engine:
        for _ in range(3):
            engine.tell("steps 20")
            await_another_second(daemon)
        browser.open(daemon.url)
        line = f"{session('early')}?.querySelector('path.line')?.getAttribute('d')"
        browser.run("document.querySelector('#ranges button').click()")
        assert browser.until(line).count("L") >= 2, browser.run(line)


def names_the_slowest_columns(browser, daemon):
    with ToldEngine(daemon, "slow") as engine:
        engine.tell("steps 10")
        browser.open(daemon.url)
        rows = browser.until(
            "(r => r.length > 0 && r)([...document.querySelectorAll('#slowest tbody tr')].map(r => "
            "[...r.cells].map(c => c.textContent)).filter(r => r[0] === 'slow'))"
        )
        for name, uid, took, waited, path, blocks, sampler in rows:
            assert uid in "1234" and sampler in "01" and blocks.endswith(" of 64"), rows
            assert re.fullmatch(r"[0-9.]+ [µm]s", took) and re.fullmatch(r"0|[0-9.]+ [µm]s", waited), rows
            assert path in ("race", "whole row", "head", "proposals"), rows


def fits_a_phone(browser, daemon):
    with ToldEngine(daemon, "A_NAME_OF_SIXTY_THREE_LETTERS_THAT_NO_LINE_OF_A_PHONE_CAN_HOLD_") as engine:
        engine.tell("steps 20")
        browser.open(daemon.url)
        browser.until("document.querySelector('.session path') !== null")
        browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        for width in (360, 320, 768, 1280):
            browser.resize(width, 800, touch=width < 700)
            browser.until(f"document.querySelector('svg.chart').viewBox.baseVal.width < {width}")
            wide = browser.run(
                "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5"
                " && !e.closest('.scroll')).map(e => e.outerHTML.slice(0, 80))"
            )
            assert not wide, f"{width}: {wide}"
            assert browser.run("document.documentElement.scrollWidth") <= width
        browser.resize(360, 800, touch=True)
        small = browser.run(
            "[...document.querySelectorAll('button')].filter(e => e.getBoundingClientRect().height < 32).length"
        )
        assert small == 0, "a button is too small for a finger"


LUMINANCE = """
const shade = (color) => { const [r, g, b] = color.match(/[0-9.]+/g).slice(0, 3).map((v) => { const s = v / 255;
  return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const paper = (e) => { const own = getComputedStyle(e).backgroundColor;
  return own !== 'rgba(0, 0, 0, 0)' || !e.parentElement ? own : paper(e.parentElement); };
const contrast = (e) => { const [a, b] = [shade(getComputedStyle(e).color), shade(paper(e))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05); };
"""


def reads_well_in_light_and_dark(browser, daemon):
    with ToldEngine(daemon, "shown") as engine:
        engine.tell("steps 20")
        browser.open(daemon.url)
        browser.until("document.querySelector('.session path') !== null")
        papers = {}
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            papers[scheme] = browser.run(f"(() => {{ {LUMINANCE} return shade(paper(document.body)); }})()")
            weak = browser.run(
                f"(() => {{ {LUMINANCE} return [...document.querySelectorAll('h1, h2, h3, dt, dd, th, td, a, button,"
                " figcaption, summary, #state')].filter(e => e.checkVisibility() && contrast(e) < 4.5)"
                ".map(e => e.outerHTML.slice(0, 80)); })()"
            )
            assert not weak, f"{scheme}: {weak}"
        assert papers["light"] > 0.8 and papers["dark"] < 0.05, papers


def names_are_text(browser, daemon):
    with ToldEngine(daemon, HOSTILE) as engine, ToldEngine(daemon, "__proto__"), ToldEngine(daemon, "constructor"):
        engine.tell("steps 5")
        browser.open(daemon.url)
        for name in (HOSTILE, "__proto__", "constructor"):
            browser.until(f"Boolean({session(name)})")
        browser.until(f"{fact(HOSTILE, 'columns_decided')} === '20'")
        assert browser.run("document.images.length") == 0
        assert "owned" not in browser.run("document.title")
    browser.until("document.querySelectorAll('.session').length === 0")


def says_that_the_daemon_is_gone_and_goes_on(browser, daemon):
    with ToldEngine(daemon, "engine") as engine:
        engine.tell("steps 25")
        browser.open(daemon.url)
        browser.until(f"{fact('engine', 'columns_decided')} === '100'")
        browser.run("window.same_page = true")
        daemon.kill()
        browser.until("/the daemon is gone: it does not answer/.test(document.getElementById('state').textContent)")
        assert browser.run("document.body.classList.contains('stale')")
        assert browser.run(fact("engine", "columns_decided")) == "100", "what was known last stays to be read"
        daemon.start()
        browser.until("document.getElementById('state').textContent === 'ready'")
        engine.tell("steps 5")
        browser.until(f"{fact('engine', 'columns_decided')} === '120'")
        assert not browser.run("document.body.classList.contains('stale')")
        assert browser.run("window.same_page === true && document.querySelectorAll('.session').length === 1")
        # Of the first daemon's 25 steps none is drawn as the second one's.
        tokens = browser.until(
            f"{session('engine')}.querySelector('figure details').open = true,"
            f"{session('engine')}.querySelector('figure tbody')?.innerText"
        )
        rates = [float(re.sub("[^0-9.]", "", line.split("\t")[1]) or 0) for line in tokens.splitlines()]
        assert max(rates) <= 21, tokens


def names_late_ranks(browser, daemon):
    with ToldEngine(daemon, "late") as engine:
        engine.tell("steps 2")
        engine.tell("submit")
        browser.open(daemon.url)
        late = browser.until(
            f"{session('late')}?.querySelector('[data-fact=ranks].bad')?.textContent"
        )
        assert re.fullmatch(r"rank 0 by [0-9.]+ m?s", late), late
        assert browser.run(fact("late", "ring")).startswith("1 of ")
        engine.tell("write")
        browser.until(f"{fact('late', 'ranks')} === 'none'")


def can_be_read_without_seeing_it(browser, daemon):
    with ToldEngine(daemon, "read") as engine:
        engine.tell("steps 40")
        browser.open(daemon.url)
        browser.until("document.querySelector('.session path') !== null")
        labels = browser.run("[...document.querySelectorAll('svg.chart')].map(e => [e.getAttribute('role'), e.ariaLabel])")
        assert len(labels) == 8 and all(role == "img" and ": now " in label for role, label in labels), labels
        assert browser.run("document.documentElement.lang") == "en"
        assert browser.run("document.getElementById('state').getAttribute('role')") == "status"
        browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        rows = browser.until("[...document.querySelectorAll('figure')].map(e => e.querySelectorAll('tbody tr').length)")
        assert len(rows) == 8 and 0 < min(rows) and max(rows) <= 16, rows
        assert browser.run("[...document.querySelectorAll('th')].every(e => e.scope === 'col')")
        for seconds, text in ((60, "60 s ago"), (900, "15 min ago")):
            browser.run(f"document.querySelectorAll('#ranges button')[{0 if seconds == 60 else 2}].click()")
            browser.until(f"document.querySelector('svg.chart').textContent.includes('{text}')")
            pressed = browser.run("[...document.querySelectorAll('#ranges button')].map(e => e.ariaPressed)")
            assert pressed.count("true") == 1, pressed


def tells_the_values_under_the_pointer(browser, daemon):
    with ToldEngine(daemon, "pointed") as engine:
        browser.open(daemon.url)
        browser.until(f"{fact('pointed', 'steps_taken')} === '0'")
        engine.tell("steps 50")
        browser.until(f"{session('pointed')}.querySelector('.legend b').textContent !== '0'")
        browser.until(f"{session('pointed')}.querySelector('.legend b').textContent === '0'")
        box = browser.run(
            f"(() => {{ const b = {session('pointed')}.querySelector('svg'); b.scrollIntoView();"
            " const r = b.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()"
        )
        shown = set()
        for part in range(0, 101):
            browser.command(
                "Input.dispatchMouseEvent",
                type="mouseMoved",
                x=box[0] + box[2] * part / 100,
                y=box[1] + box[3] / 2,
            )
            shown.add(browser.run(f"{session('pointed')}.querySelector('.legend b').textContent"))
        assert len(shown) > 1, shown


def asks_nobody_else(browser, daemon):
    browser.open(daemon.url)
    browser.until("document.getElementById('state').textContent === 'ready'")
    assert browser.run("document.getElementById('no-sessions').checkVisibility()")
    # What the policy would stop is stopped: a script in the page, a picture of another host.
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', `<img src='x' onerror='window.owned = true'>`);"
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = true'}))"
    )
    browser.until("document.images[0].complete")
    assert browser.run("window.owned === undefined")
    browser.errors = [error for error in browser.errors if "Content Security Policy" not in error]


TESTS = (
    shows_the_numbers_of_metrics,
    opened_now_has_the_last_minutes,
    names_the_slowest_columns,
    fits_a_phone,
    reads_well_in_light_and_dark,
    names_are_text,
    says_that_the_daemon_is_gone_and_goes_on,
    names_late_ranks,
    can_be_read_without_seeing_it,
    tells_the_values_under_the_pointer,
    asks_nobody_else,
)


def run_tests(programs):
    with real_processes.Daemon(programs, samplers=2) as daemon:
        for test in TESTS:
            begun = time.monotonic()
            with Browser() as browser:
                browser.resize(1280, 900)
                test(browser, daemon)
                foreign = [url for url in browser.asked if not url.startswith((daemon.url, "data:", "about:"))]
                assert not foreign, f"{test.__name__}: the page asked {foreign}"
                assert not browser.errors, f"{test.__name__}: {browser.errors}"
            print(f"  {test.__name__.replace('_', ' ')}: {time.monotonic() - begun:.1f} s")


# So that pictures show different engines.
PICTURED = (
    "--batch 16 --vocab 32000 --tp 2 --stage-ms 40 --mix mixed --prompt-max 512".split(),
    "--batch 8 --vocab 151936 --stage-ms 25 --mix plain --prompt-max 256 --summaries".split(),
    "--batch 4 --vocab 8192 --stage-ms 15 --mix greedy --prompt-max 64".split(),
)
PICTURE_SECONDS = 70


def make_pictures(programs, folder):
    folder = pathlib.Path(folder)
    with real_processes.Daemon(programs, samplers=2) as daemon:
        engines = []
        for number, options in enumerate(PICTURED):
            engines.append(daemon.engine(*options, "--steps", 1000000, "--output-max", 64, "--seed", number + 1, "--verify", "after"))
        real_processes.eventually(
            lambda: recent(daemon, PICTURE_SECONDS),
            PICTURE_SECONDS + 60,
            "seconds to draw",
        )
        ended = [output.read_text() for engine, output in engines if engine.poll() is not None]
        assert not ended, f"an engine has ended: {ended}"
        for name, width, height, scheme in (("page", 1280, 1000, "light"), ("page-phone", 360, 1100, "dark")):
            with Browser() as browser:
                browser.prefer(scheme)
                browser.open(daemon.url)
                browser.resize(width, height, touch=width < 700)
                browser.until("document.querySelectorAll('.session path').length > 3")
                browser.run("document.querySelector('#ranges button').click()")
                browser.picture(folder / f"{name}.png")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2] == "--pictures":
        make_pictures(sys.argv[1], sys.argv[3])
    elif len(sys.argv) == 2:
        run_tests(sys.argv[1])
    else:
        sys.exit(__doc__.strip())
