#include "tools/trace/chrome_trace.h"

#include <algorithm>
#include <utility>

namespace croupier::tools {

using nlohmann::json;

namespace {

double microseconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e3;
}

std::string text_of(const json& event) {
    // Names are bytes of another process: what is no UTF-8 is shown as such instead of thrown over.
    return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

void ChromeTrace::name_process(std::uint32_t process, const std::string& name) {
    const json place = {{"ph", "M"}, {"pid", process}, {"tid", 0}, {"ts", 0}};
    json named = place;
    named.update({{"name", "process_name"}, {"args", {{"name", name}}}});
    json sorted = place;
    sorted.update({{"name", "process_sort_index"}, {"args", {{"sort_index", process}}}});
    names_.push_back(std::move(named));
    names_.push_back(std::move(sorted));
}

void ChromeTrace::name_track(TraceTrack track, const std::string& name) {
    const json place = {{"ph", "M"}, {"pid", track.process}, {"tid", track.thread}, {"ts", 0}};
    json named = place;
    named.update({{"name", "thread_name"}, {"args", {{"name", name}}}});
    json sorted = place;
    sorted.update({{"name", "thread_sort_index"}, {"args", {{"sort_index", track.thread}}}});
    names_.push_back(std::move(named));
    names_.push_back(std::move(sorted));
}

void ChromeTrace::add(std::uint64_t at_ns, std::uint64_t end_ns, json event) {
    events_.push_back({at_ns, end_ns, std::move(event)});
}

void ChromeTrace::span(TraceTrack track, const std::string& name, std::uint64_t begin_ns,
                       std::uint64_t end_ns, json arguments) {
    add(begin_ns, end_ns,
        {{"ph", "X"},
         {"name", name},
         {"cat", "croupier"},
         {"pid", track.process},
         {"tid", track.thread},
         {"dur", microseconds(end_ns - begin_ns)},
         {"args", std::move(arguments)}});
}

void ChromeTrace::arrow(TraceTrack from, std::uint64_t from_ns, TraceTrack to, std::uint64_t to_ns) {
    const std::uint64_t id = ++arrows_;
    const json arrow = {{"name", "decides"}, {"cat", "croupier"}, {"id", id}};
    json start = arrow;
    start.update({{"ph", "s"}, {"pid", from.process}, {"tid", from.thread}});
    json finish = arrow;
    // "e": it ends at the span that is open there, not at the next one.
    finish.update({{"ph", "f"}, {"bp", "e"}, {"pid", to.process}, {"tid", to.thread}});
    add(from_ns, 0, std::move(start));
    add(to_ns, 0, std::move(finish));
}

void ChromeTrace::count(std::uint32_t process, const std::string& name, std::uint64_t at_ns,
                        std::int64_t value) {
    add(at_ns, 0, {{"ph", "C"}, {"name", name}, {"pid", process}, {"tid", 0}, {"args", {{name, value}}}});
}

void ChromeTrace::write(std::ostream& to, json about) const {
    std::vector<const Event*> ordered;
    ordered.reserve(events_.size());
    for (const Event& event : events_) ordered.push_back(&event);
    // Of spans that begin together the outer one comes first, and before what happens within them.
    std::stable_sort(ordered.begin(), ordered.end(), [](const Event* a, const Event* b) {
        return std::pair(a->at_ns, b->end_ns) < std::pair(b->at_ns, a->end_ns);
    });
    const std::uint64_t origin = ordered.empty() ? 0 : ordered.front()->at_ns;
    about["clock"] = "CLOCK_MONOTONIC";
    about["origin_ns"] = origin;
    to << "{\"displayTimeUnit\":\"ns\",\"otherData\":" << text_of(about) << ",\"traceEvents\":[";
    const char* between = "\n";
    for (const json& name : names_) to << std::exchange(between, ",\n") << text_of(name);
    for (const Event* event : ordered) {
        json timed = event->json;
        timed["ts"] = microseconds(event->at_ns - origin);
        to << std::exchange(between, ",\n") << text_of(timed);
    }
    to << "\n]}\n";
}

}  // namespace croupier::tools
