// Chrome's trace format ("JSON object format"), which Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace croupier::tools {

// A row of the viewer, which calls it a thread of a process.
struct TraceTrack {
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
};

// Writes each event at once and keeps none. Add events in the order of time.
class ChromeTrace {
  public:
    // Times are nanoseconds of one clock; `origin_ns` is the time of the first event.
    ChromeTrace(std::ostream& to, nlohmann::json about, std::uint64_t origin_ns);

    void name_process(std::uint32_t process, const std::string& name);
    void name_track(TraceTrack track, const std::string& name);
    // Spans of one track must not overlap, but may nest: then write the outer one first.
    void span(TraceTrack track, const std::string& name, std::uint64_t begin_ns, std::uint64_t end_ns,
              nlohmann::json arguments = nlohmann::json::object());
    // An arrow with a unique number, from the open span of one track to the span that begins on another.
    void arrow_start(TraceTrack from, std::uint64_t at_ns, std::uint64_t arrow);
    void arrow_finish(TraceTrack to, std::uint64_t at_ns, std::uint64_t arrow);
    void count(std::uint32_t process, const std::string& name, std::uint64_t at_ns, std::int64_t value);
    void finish();

  private:
    void name(TraceTrack track, const char* kind, const std::string& name, std::uint32_t place);
    void write(const nlohmann::json& event);
    double since_origin(std::uint64_t ns) const;

    std::ostream& to_;
    std::uint64_t origin_ns_;
    const char* between_ = "\n";
};

}  // namespace croupier::tools
