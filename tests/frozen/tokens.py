"""Which tokens a seed gives: golden_test.cpp holds the code to its file, and this the file to 1.0."""

import hashlib

from facts import ROOT

RULE = (
    "Whoever decides the same request again gets the same token: another draw is another `rng`, by its name."
)
# Cases are added behind these.
CASES = 2000


def facts():
    version, *cases = (ROOT / "tests/sampler/golden/draws.txt").read_text().splitlines()
    if len(cases) < CASES:
        raise SystemExit(f"tests/sampler/golden/draws.txt has {len(cases)} of {CASES} cases")
    digest = hashlib.sha256("\n".join(cases[:CASES]).encode()).hexdigest()
    return {"draws of seeds are of": version, f"digest of the first {CASES} golden draws": digest}
