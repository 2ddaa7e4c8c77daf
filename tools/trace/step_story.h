// What samplers kept of some seconds, as a trace: sessions with their steps, samplers with their columns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shm/column_journal.h"
#include "shm/snapshot.h"
#include "tools/trace/chrome_trace.h"

namespace croupier::tools {

struct TraceMaterial {
    std::vector<shm::JournalColumn> columns;
    std::vector<proto::StepRecord> steps;
    std::map<std::uint64_t, std::string> session_names;  // by id; those that nobody saw have none
    std::map<std::uint32_t, std::int32_t> cores;         // by sampler; -1: not pinned
};

// Something that is drawn. There are a few for each column, and a million columns: what is said of it is made
// of its record when it is written.
struct TraceMoment {
    enum class Kind : std::uint16_t {
        step,
        taking,
        deciding,
        waiting,
        waiting_for_rank,
        column,
        arrow_start,
        arrow_finish,
        flights
    };

    std::uint64_t at_ns = 0;
    std::uint64_t end_ns = 0;  // of a span
    std::uint32_t of = 0;      // a step's or a column's place in the material; of flights how many there are
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
    Kind kind = Kind::step;
};
static_assert(sizeof(TraceMoment) == 32);

struct TraceDrawing {
    std::vector<std::pair<std::uint32_t, std::string>> processes;
    std::vector<std::pair<TraceTrack, std::string>> tracks;
    std::vector<TraceMoment> moments;  // in the order of time
};

class StepStory {
  public:
    explicit StepStory(TraceMaterial material);

    const TraceMaterial& material() const { return material_; }
    std::size_t events() const { return drawing_.moments.size(); }
    // `written` is called after each event.
    void write(
        std::ostream& to, nlohmann::json about, const std::function<void()>& written = [] {}) const;

  private:
    TraceMaterial material_;
    TraceDrawing drawing_;
};

}  // namespace croupier::tools
