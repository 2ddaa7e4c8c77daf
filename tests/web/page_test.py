#!/usr/bin/env python3
"""The page at / of the metrics port, in a real browser that looks at a real croupierd.

page_test.py BIN_FOLDER
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time

import real_processes
from browser import Browser

HOSTILE = "<img/src=x/onerror=document.title='owned'>"

# Of the page, for the scripts below.
HELPERS = """
var all = (what, within = document) => [...within.querySelectorAll(what)];
var session = (name) => all('.session').find((e) => e.querySelector('h3').textContent === name);
var fact = (name, key) => session(name)?.querySelector(`[data-fact=${key}]`)?.textContent;
var state = () => document.getElementById('state')?.textContent;
var cells = (what) => all(what).map((row) => [...row.cells].map((cell) => cell.textContent));
var frame = (e) => (({left, top, width, height}) => [left, top, width, height])(e.getBoundingClientRect());
var start = (e) => e.outerHTML.slice(0, 80);
var shade = (color) => {
  const parts = color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
  const [r, g, b] = parts.map((s) => (s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
var paper = (e) => {
  const own = getComputedStyle(e).backgroundColor;
  return own !== 'rgba(0, 0, 0, 0)' || !e.parentElement ? own : paper(e.parentElement);
};
var contrast = (e) => {
  const [a, b] = [shade(getComputedStyle(e).color), shade(paper(e))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
"""
PICTURE_THERE = "document.querySelector('.session path') !== null"
GONE = "/the daemon is gone: it does not answer/.test(state())"
READY = "state() === 'ready'"


class ToldEngine:
    """An engine that takes a step when it is told to."""

    def __init__(self, daemon, name, sequences=4):
        command = [daemon.programs / "web_told_engine", daemon.endpoint, name, str(sequences)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


def told_json(daemon, path):
    return json.loads(real_processes.fetch(daemon.url + path))


def metrics(daemon):
    lines = real_processes.fetch(daemon.url + "/metrics").splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def recent(daemon, after=0):
    return told_json(daemon, f"/recent.json?after={after}")["seconds"]


def await_another_second(daemon):
    seen = real_processes.eventually(lambda: recent(daemon), 10, "a first second")[-1]["number"]
    real_processes.eventually(lambda: recent(daemon, seen), 10, "another second")


def show(browser, daemon):
    browser.open(daemon.url)
    browser.run(HELPERS)


def fact(name, key):
    return f"fact({json.dumps(name)}, '{key}')"


def shown_number(browser, name, key):
    return float(browser.run(fact(name, key)).replace(",", ""))


def shows_the_numbers_of_metrics(browser, daemon):
    with ToldEngine(daemon, "one") as one, ToldEngine(daemon, "two", 8) as two:
        show(browser, daemon)
        one.tell("steps 30")
        two.tell("steps 150")
        browser.until(f"{fact('one', 'columns_decided')} === '120'")
        browser.until(f"{fact('two', 'columns_decided')} === '1,200'")
        # The seconds in which all this happened are over, and the page knows them.
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
                number = shown_number(browser, name, key)
                assert number == told[f'croupier_{metric}{{session="{name}"}}'], (name, key, number)
            overlap = float(browser.run(fact(name, "overlap")).removesuffix(" %")) / 100
            in_metrics = told[f'croupier_overlap_ratio{{session="{name}"}}']
            assert abs(overlap - in_metrics) < 0.006, (name, overlap, in_metrics)
        columns = browser.run("cells('#samplers tbody tr').map((row) => row[3])")
        for sampler, text in enumerate(columns):
            assert (
                float(text.replace(",", "")) == told[f'croupier_sampler_columns_total{{sampler="{sampler}"}}']
            )
        instance = told_json(daemon, "/snapshot.json")["instance"]
        assert browser.run("document.title").endswith(f"Croupier {instance}")


def opened_now_has_the_last_minutes(browser, daemon):
    with ToldEngine(daemon, "early") as engine:
        for _ in range(3):
            engine.tell("steps 20")
            await_another_second(daemon)
        show(browser, daemon)
        browser.run("document.querySelector('#ranges button').click()")
        line = browser.until("session('early')?.querySelector('path.line')?.getAttribute('d')")
        assert line.count("L") >= 2, line


# The first of all: later the daemon has others' slow columns to tell of.
def names_the_slowest_columns(browser, daemon):
    with ToldEngine(daemon, HOSTILE) as engine:
        engine.tell("steps 10")
        show(browser, daemon)
        browser.until("cells('#slowest tbody tr').length === 10")
        for name, uid, took, waited, path, blocks, sampler in browser.run("cells('#slowest tbody tr')"):
            shown = (name, uid, took, waited, path, blocks, sampler)
            assert name == HOSTILE, shown
            assert uid in "1234", shown
            assert re.fullmatch(r"[0-9.]+ [µm]s", took), shown
            assert re.fullmatch(r"0|[0-9.]+ [µm]s", waited), shown
            assert path in ("race", "whole row", "head", "proposals"), shown
            assert blocks.endswith(" of 64"), shown
            assert sampler in "01", shown


def fits_a_phone(browser, daemon):
    with ToldEngine(daemon, "A_NAME_OF_SIXTY_THREE_LETTERS_THAT_NO_LINE_OF_A_PHONE_CAN_HOLD_") as engine:
        engine.tell("steps 20")
        show(browser, daemon)
        browser.until(PICTURE_THERE)
        browser.run("all('details').forEach((e) => { e.open = true; })")
        for width in (360, 320, 768, 1280):
            browser.resize(width, 800, touch=width < 700)
            browser.until(f"document.querySelector('svg.chart').viewBox.baseVal.width < {width}")
            wide = browser.run(
                "all('body *').filter((e) => !e.closest('.scroll table, figure table'))"
                ".filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map(start)"
            )
            assert not wide, f"{width}: {wide}"
            assert browser.run("document.documentElement.scrollWidth") <= width
        browser.resize(360, 800, touch=True)
        small = browser.run("all('button').filter((e) => e.getBoundingClientRect().height < 32).map(start)")
        assert not small, f"too small for a finger: {small}"


def reads_well_in_light_and_dark(browser, daemon):
    texts = "h1, h2, h3, dt, dd, th, td, a, button, figcaption, summary, #state"
    with ToldEngine(daemon, "shown") as engine:
        engine.tell("steps 20")
        show(browser, daemon)
        browser.until(PICTURE_THERE)
        papers = {}
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            papers[scheme] = browser.run("shade(paper(document.body))")
            weak = browser.run(
                f"all('{texts}').filter((e) => e.checkVisibility() && contrast(e) < 4.5).map(start)"
            )
            assert not weak, f"{scheme}: {weak}"
        assert papers["light"] > 0.8, papers
        assert papers["dark"] < 0.05, papers


def names_are_text(browser, daemon):
    with ToldEngine(daemon, HOSTILE) as engine, contextlib.ExitStack() as others:
        for name in ("__proto__", "constructor"):
            others.enter_context(ToldEngine(daemon, name))
        engine.tell("steps 5")
        show(browser, daemon)
        for name in (HOSTILE, "__proto__", "constructor"):
            browser.until(f"Boolean(session({json.dumps(name)}))")
        browser.until(f"{fact(HOSTILE, 'columns_decided')} === '20'")
        assert browser.run("document.images.length") == 0
        assert "owned" not in browser.run("document.title")
    browser.until("all('.session').length === 0")


def says_that_the_daemon_is_gone_and_goes_on(browser, daemon):
    with ToldEngine(daemon, "engine") as engine:
        engine.tell("steps 25")
        show(browser, daemon)
        browser.until(f"{fact('engine', 'columns_decided')} === '100'")
        browser.run("window.same_page = true")
        daemon.kill()
        browser.until(GONE)
        assert browser.run("document.body.classList.contains('stale')")
        assert shown_number(browser, "engine", "columns_decided") == 100, "what was known last stays"
        daemon.start()
        browser.until(READY)
        engine.tell("steps 5")
        browser.until(f"{fact('engine', 'columns_decided')} === '120'")
        assert not browser.run("document.body.classList.contains('stale')")
        assert browser.run("window.same_page") is True
        assert browser.run("all('.session').length") == 1
        # None of the first daemon's seconds is drawn as one of the second's.
        browser.run("document.querySelector('#ranges button').click()")
        line = browser.until("session('engine').querySelector('path.line')?.getAttribute('d')")
        assert line.count(",") <= recent(daemon)[-1]["number"] + 1, line


def says_that_the_daemon_is_frozen(browser, daemon):
    show(browser, daemon)
    browser.until(READY)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        browser.until(GONE)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    browser.until(READY)


OTHER_VERSION = """
const ask = window.fetch;
window.same_page = true;
window.fetch = async (...request) => {
  const answer = await ask(...request);
  return new Response((await answer.text()).replace(/"version":"[^"]*"/, '"version":"9.9.9"'));
};
"""


def loads_the_page_of_an_upgraded_daemon(browser, daemon):
    show(browser, daemon)
    browser.until(READY)
    browser.run(OTHER_VERSION)
    browser.until("window.same_page === undefined && document.readyState === 'complete'")
    browser.run(HELPERS)
    browser.until(READY)


def names_late_ranks(browser, daemon):
    with ToldEngine(daemon, "late") as engine:
        engine.tell("steps 2")
        engine.tell("submit")
        show(browser, daemon)
        late = browser.until("session('late')?.querySelector('[data-fact=ranks].bad')?.textContent")
        assert re.fullmatch(r"rank 0 by [0-9.]+ m?s", late), late
        assert browser.run(fact("late", "ring")).startswith("1 of ")
        engine.tell("write")
        browser.until(f"{fact('late', 'ranks')} === 'none'")


def can_be_read_without_seeing_it(browser, daemon):
    with ToldEngine(daemon, "read") as engine:
        engine.tell("steps 40")
        show(browser, daemon)
        browser.until(PICTURE_THERE)
        assert browser.run("document.documentElement.lang") == "en"
        assert browser.run("document.getElementById('state').getAttribute('role')") == "status"
        assert browser.run("all('th').every((e) => e.scope === 'col')")
        labels = browser.run("all('svg.chart').map((e) => [e.getAttribute('role'), e.ariaLabel])")
        assert len(labels) == 8, labels
        assert all(role == "img" and ": now " in label for role, label in labels), labels
        browser.run("all('details').forEach((e) => { e.open = true; })")
        browser.until("all('figure').every((e) => all('tbody tr', e).length > 0)")
        rows = browser.run("all('figure').map((e) => all('tbody tr', e).length)")
        assert len(rows) == 8, rows
        assert max(rows) <= 16, rows


def looks_back_as_far_as_it_is_told(browser, daemon):
    with ToldEngine(daemon, "looked-at") as engine:
        engine.tell("steps 3")
        show(browser, daemon)
        browser.until(PICTURE_THERE)
        for place, text in enumerate(("60 s ago", "5 min ago", "15 min ago")):
            browser.run(f"all('#ranges button')[{place}].click()")
            browser.until(f"all('svg.chart').every((e) => e.textContent.includes('{text}'))")
            pressed = browser.run("all('#ranges button').map((e) => e.ariaPressed)")
            assert pressed == ["true" if each == place else "false" for each in range(3)], pressed


def tells_the_values_under_the_pointer(browser, daemon):
    value = "session('pointed').querySelector('.legend b').textContent"
    with ToldEngine(daemon, "pointed") as engine:
        show(browser, daemon)
        browser.until(f"{fact('pointed', 'steps_taken')} === '0'")
        engine.tell("steps 50")
        browser.until(f"{value} !== '0'")
        browser.until(f"{value} === '0'")
        browser.run("session('pointed').querySelector('svg').scrollIntoView({block: 'center'})")
        left, top, width, height = browser.run("frame(session('pointed').querySelector('svg'))")
        values = set()
        for part in range(101):
            place = {"x": left + width * part / 100, "y": top + height / 2}
            browser.command("Input.dispatchMouseEvent", type="mouseMoved", **place)
            values.add(browser.run(value))
        assert len(values) > 1, values


def asks_nobody_else_and_runs_no_foreign_script(browser, daemon):
    show(browser, daemon)
    browser.until(READY)
    assert browser.run("document.getElementById('no-sessions').checkVisibility()")
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', `<img src='x' onerror='window.owned = true'>`);"
        "var script = document.createElement('script'); script.textContent = 'window.owned = true';"
        "document.body.append(script)"
    )
    browser.until("document.images[0].complete")
    assert browser.run("window.owned === undefined")
    refused = [error for error in browser.errors if "Content Security Policy" in error]
    assert len(refused) >= 2, browser.errors
    browser.errors = [error for error in browser.errors if error not in refused]


TESTS = (
    names_the_slowest_columns,
    shows_the_numbers_of_metrics,
    opened_now_has_the_last_minutes,
    fits_a_phone,
    reads_well_in_light_and_dark,
    names_are_text,
    says_that_the_daemon_is_gone_and_goes_on,
    says_that_the_daemon_is_frozen,
    loads_the_page_of_an_upgraded_daemon,
    names_late_ranks,
    can_be_read_without_seeing_it,
    looks_back_as_far_as_it_is_told,
    tells_the_values_under_the_pointer,
    asks_nobody_else_and_runs_no_foreign_script,
)


def run_tests(programs):
    with real_processes.Daemon(programs, samplers=2) as daemon:
        for test in TESTS:
            begun = time.monotonic()
            with Browser() as browser:
                browser.resize(1280, 900)
                test(browser, daemon)
                own = (daemon.url, "data:", "about:")
                foreign = [url for url in browser.asked if not url.startswith(own)]
                assert not foreign, f"{test.__name__}: the page asked {foreign}"
                assert not browser.errors, f"{test.__name__}: {browser.errors}"
            print(f"  {test.__name__.replace('_', ' ')}: {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    run_tests(sys.argv[1])
