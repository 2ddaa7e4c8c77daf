#include "tools/trace/chrome_trace.h"

#include <utility>

namespace croupier::tools {

using nlohmann::json;

namespace {

double microseconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e3;
}

std::string text_of(const json& event) {
    // Names come from other processes: replace invalid UTF-8 instead of throwing.
    return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

ChromeTrace::ChromeTrace(std::ostream& to, json about, std::uint64_t origin_ns)
    : to_(to), origin_ns_(origin_ns) {
    about["clock"] = "CLOCK_MONOTONIC";
    about["origin_ns"] = origin_ns;
    to_ << "{\"displayTimeUnit\":\"ns\",\"otherData\":" << text_of(about) << ",\"traceEvents\":[";
}

void ChromeTrace::finish() {
    to_ << "\n]}\n";
}

void ChromeTrace::write(const json& event) {
    to_ << std::exchange(between_, ",\n") << text_of(event);
}

double ChromeTrace::since_origin(std::uint64_t ns) const {
    return microseconds(ns - origin_ns_);
}

void ChromeTrace::name(TraceTrack track, const char* kind, const std::string& name, std::uint32_t place) {
    const json where = {{"ph", "M"}, {"pid", track.process}, {"tid", track.thread}, {"ts", 0}};
    json named = where;
    named.update({{"name", std::string(kind) + "_name"}, {"args", {{"name", name}}}});
    write(named);
    json sorted = where;
    sorted.update({{"name", std::string(kind) + "_sort_index"}, {"args", {{"sort_index", place}}}});
    write(sorted);
}

void ChromeTrace::name_process(std::uint32_t process, const std::string& name) {
    this->name({process, 0}, "process", name, process);
}

void ChromeTrace::name_track(TraceTrack track, const std::string& name) {
    this->name(track, "thread", name, track.thread);
}

void ChromeTrace::span(TraceTrack track, const std::string& name, std::uint64_t begin_ns,
                       std::uint64_t end_ns, json arguments) {
    write({{"ph", "X"},
           {"name", name},
           {"cat", "croupier"},
           {"pid", track.process},
           {"tid", track.thread},
           {"ts", since_origin(begin_ns)},
           {"dur", microseconds(end_ns - begin_ns)},
           {"args", std::move(arguments)}});
}

void ChromeTrace::arrow_start(TraceTrack from, std::uint64_t at_ns, std::uint64_t arrow) {
    write({{"ph", "s"},
           {"name", "decides"},
           {"cat", "croupier"},
           {"id", arrow},
           {"pid", from.process},
           {"tid", from.thread},
           {"ts", since_origin(at_ns)}});
}

void ChromeTrace::arrow_finish(TraceTrack to, std::uint64_t at_ns, std::uint64_t arrow) {
    // "e": the arrow ends at the enclosing span, not at the next one.
    write({{"ph", "f"},
           {"bp", "e"},
           {"name", "decides"},
           {"cat", "croupier"},
           {"id", arrow},
           {"pid", to.process},
           {"tid", to.thread},
           {"ts", since_origin(at_ns)}});
}

void ChromeTrace::count(std::uint32_t process, const std::string& name, std::uint64_t at_ns,
                        std::int64_t value) {
    write({{"ph", "C"},
           {"name", name},
           {"pid", process},
           {"tid", 0},
           {"ts", since_origin(at_ns)},
           {"args", {{name, value}}}});
}

}  // namespace croupier::tools
