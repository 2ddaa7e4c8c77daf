// Turns records of samplers into a trace: sessions with their steps, samplers with their columns.
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
    std::map<std::uint64_t, std::string> session_names;  // by id; a session that was never observed has none
    std::map<std::uint32_t, std::int32_t> cores;         // by sampler; -1: not pinned
};

// One event of the trace. There may be millions, so its text is made from its record only when it is written.
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
        steps_in_flight
    };

    std::uint64_t at_ns = 0;
    std::uint64_t end_ns = 0;  // spans only
    std::uint32_t of = 0;      // index of the step or column in the material; for steps_in_flight, the count
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
