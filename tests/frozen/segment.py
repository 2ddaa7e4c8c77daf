"""The bytes that builds of different releases share: the segment, records, hotness files.

What is asked is what headers of proto/ say, and what their functions compute for one session.
"""

import re

from c_sources import code_of, one_line, printed, statements
from facts import ROOT

RULE = (
    "Another 1.x process reads or writes it there: only a new major version of the layout may change it; "
    "what is new takes reserved bytes, a row's end or a region of its own (docs/decisions/0018)."
)
# The plane, its journals and captures are the daemon's own: its samplers are of its build, and tools of
# another refuse it by its version.
SHARED = [
    "segment_header",
    "segment_layout",
    "geometry",
    "decision_slot",
    "schedule_slot",
    "logits_slot",
    "sequence_entry",
    "sampling",
    "decision",
    "dtype",
    "lean_part",
    "request_cell",
    "counters",
    "hot_set",
    "bell",
    "fan_out_frame",
    "hotness_file",
    "race",
    "racers",
    "row_spread",
]
# Structs of one process, made of what is shared.
OWN = {
    "LeanLayout",
    "RequestLayout",
    "CounterText",
    "FanOutFrame",
    "ClaimWord",
    "RefusalWord",
    "ReadyWord",
    "RequestWord",
    "FlagName",
    "Interval",
    "StepFacts",
}
# They may grow at their end: rows, and what has a page or more for itself.
ROWS = {"SamplingParams", "ScheduleColumn", "Decision", "RankedLogprob", "SegmentHeader", "Bell"}
# What may grow in a minor version: itself, ends of lists, and what a writer or the daemon chooses.
FREE = {"kSegmentMinor", "count_", "kUsualLeanBlocks", "kHotTrialShare", "kRecordFlags", "kMostElementBytes"}
# How long the whole is says the segment's header: a minor version may add behind it.
ENDS = {"bytes", "stride"}

SESSION = """
Geometry session() {
    Geometry geometry;
    geometry.vocab = 151936;
    geometry.tp = 2;
    geometry.max_batch = 64;
    geometry.slots = 2;
    geometry.max_sequences = 256;
    geometry.max_length = 8192;
    geometry.mask_rows = 16;
    geometry.has_order = 1;
    geometry.has_summaries = 1;
    geometry.max_logprobs = 5;
    geometry.max_support = 7;
    geometry.lean_blocks = 96;
    fill_even_shards(geometry);
    return geometry;
}
"""
COMPUTED = {
    "ReadyWord{3, 5, 7}.pack()": "a rank's ready word",
    "ReadyWord::tag_of(1000)": "the tag of a step",
    "ReadyWord::kLean": "a lean step's tiles in its ready word",
    "ClaimWord{5, 7}.pack()": "a claim",
    "RefusalWord{5, 7}.pack()": "a refusal",
    "RequestWord{5, 3, 7}.pack()": "a block request",
    "fan_out_checksum(std::array<std::uint8_t, 3>{1, 2, 3})": "the checksum of a record",
    "bitmap_words(65)": "words of a bitmap",
    "blocks_of(65)": "blocks of ids",
}


def fields_of(body):
    for declaration, inner in statements(re.sub(r"\balignas\(\w+\)", "", body)):
        if (
            inner is not None
            or re.match(r"(static|using|bool operator|static_assert)", declaration)
            or "(" in declaration.split("=")[0]
        ):
            continue
        found = re.search(r"(\w+)(?:\[[^\]]*\])*(?: ?\{.*\}| = .*)?$", declaration)
        if found and not found[1].startswith("reserved"):
            yield found[1]


def constants_of(body):
    for declaration, _ in statements(body):
        if found := re.match(r"constexpr (?:std::u?int\w+|std::size_t) (k\w+) =", declaration):
            yield found[1]


def asked_of(header):
    """Statements that print what the header says."""
    space = re.search(
        r"namespace croupier::(proto[\w:]*) \{(.*)\}", code_of(ROOT / f"proto/{header}.h"), flags=re.S
    )
    for name in constants_of(space[2]):
        if name not in FREE:
            yield f'show("constant {name}", {name});'
    for declaration, body in statements(space[2]):
        # Of counters their places are shared, not their numbers.
        if (found := re.match(r"enum (?:class )?(\w+) :", declaration)) and found[1] != "SessionCounter":
            for enumerator in re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"=[^,]*", "", one_line(body))):
                if enumerator not in FREE:
                    value = f"{found[1]}::{enumerator}"
                    yield f'show("enumerator {value}", static_cast<unsigned long long>({value}));'
        if found := re.match(r"struct (?:alignas\(\w+\) )?(\w+)$", declaration):
            struct = found[1]
            if struct in OWN or "::" in space[1].removeprefix("proto") and struct != "Draw":
                continue
            for field in fields_of(body):
                yield f"PLACE({struct}, {field});"
            if struct not in ROWS:
                yield f'show("size of {struct}", sizeof({struct}));'


PROGRAM = """
#include <array>
#include <cstddef>
#include <cstdio>
%s
using namespace croupier::proto;
using namespace croupier::proto::race;
static void show(const char* name, unsigned long long value) { std::printf("%%s\\t%%llu\\n", name, value); }
#define PLACE(type, field) \\
    std::printf("field " #type "." #field "\\tbyte %%zu, %%zu long\\n", offsetof(type, field), \\
                sizeof(type::field))
%s
int main() {
%s
    const LeanLayout lean = lean_layout_of(session(), 1);
    const RequestLayout request = request_layout_of(session());
    const SegmentLayout layout = layout_of(session());
%s
}
"""


def facts(build):
    lines = [line for header in SHARED for line in asked_of(header)]
    lines += [f'show("{name} ({what})", {what});' for what, name in COMPUTED.items()]
    counters = re.search(
        r"enum class SessionCounter.*?\{(.*?)\}", code_of(ROOT / "proto/counters.h"), flags=re.S
    )[1]
    lines += [
        f'show("place of counter {name}", counter_place(SessionCounter::{name}));'
        for name in re.findall(r"\w+", counters)
        if name != "count_"
    ]
    layouts = []
    for header, struct, variable in (
        ("lean_part", "LeanLayout", "lean"),
        ("request_cell", "RequestLayout", "request"),
    ):
        layouts += [
            f'show("{variable} part of a session: {field}", {variable}.{field});'
            for field in fields_in(header, struct)
            if field not in ENDS
        ]
    # A minor version may lay its regions elsewhere; the same one may not, whatever the release.
    version = ".".join(
        re.search(rf"{name} = (\d+)", code_of(ROOT / "proto/segment_header.h"))[1]
        for name in ("kSegmentVersion", "kSegmentMinor")
    )
    layouts += [
        f'show("segment {version} of a session: {field}", layout.{field});'
        for field in fields_in("segment_layout", "SegmentLayout")
        if field not in ("elements", "rank_offset", "maxima_offset")
    ]
    includes = "".join(f'#include "proto/{header}.h"\n' for header in SHARED)
    program = PROGRAM % (includes, SESSION, "\n".join(lines), "\n".join(layouts))
    found = printed(program, "cpp", "-I", ROOT, build / "proto/libcroupier_proto.a", "-I", build / "proto")
    return found | locks()


def locks():
    """Which byte of a file whoever lives keeps locked: the kernel's word, which depends on no version."""
    base = re.search(r"kLockBase = ([^;]+);", code_of(ROOT / "shm/file.cpp"))[1]
    roles = re.search(r"enum class Role [^{]*\{(.*?)\}", code_of(ROOT / "shm/segment.h"), flags=re.S)[1]
    at = {
        f"lock byte of {name}": f"{base}, and {number}"
        for name, number in re.findall(r"(\w+) = (\d+)", roles)
    }
    return at | {
        "name of a segment's file": re.search(
            r'return (directory \+ "/croupier-.*"\.seg");', (ROOT / "shm/segment.cpp").read_text()
        )[1]
    }


def fields_in(header, struct):
    text = code_of(ROOT / f"proto/{header}.h")
    return fields_of(re.search(rf"struct {struct} \{{(.*?)\n\}};", text, flags=re.S)[1])


def of_this_build(kept, now):
    """Without the regions of other minor versions, which are in the headers of their segments."""
    place = re.compile(r"segment [\d.]+ of")
    [here] = {found[0] for name in now if (found := place.match(name))}
    return {n: v for n, v in kept.items() if not place.match(n) or n.startswith(here)}
