// Chrome's trace format ("JSON object format"), which Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace croupier::tools {

// A row of the viewer: a thread of a process, in its words.
struct TraceTrack {
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
};

class ChromeTrace {
  public:
    void name_process(std::uint32_t process, const std::string& name);
    void name_track(TraceTrack track, const std::string& name);
    // Times are nanoseconds of one clock. On one track a span ends before the next begins, or lies within it.
    void span(TraceTrack track, const std::string& name, std::uint64_t begin_ns, std::uint64_t end_ns,
              nlohmann::json arguments = nlohmann::json::object());
    // An arrow from the span that is open on one track to the one that begins on another.
    void arrow(TraceTrack from, std::uint64_t from_ns, TraceTrack to, std::uint64_t to_ns);
    void count(std::uint32_t process, const std::string& name, std::uint64_t at_ns, std::int64_t value);

    // In the order of time, which begins with the first event.
    void write(std::ostream& to, nlohmann::json about) const;
    std::size_t events() const { return events_.size(); }

  private:
    struct Event {
        std::uint64_t at_ns = 0;
        std::uint64_t end_ns = 0;  // of a span
        nlohmann::json json;
    };

    void add(std::uint64_t at_ns, std::uint64_t end_ns, nlohmann::json event);

    std::vector<nlohmann::json> names_;
    std::vector<Event> events_;
    std::uint64_t arrows_ = 0;
};

}  // namespace croupier::tools
