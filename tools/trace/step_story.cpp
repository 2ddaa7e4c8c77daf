#include "tools/trace/step_story.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "tools/column_words.h"
#include "tools/printable.h"

namespace croupier::tools {

using nlohmann::json;

namespace {

constexpr std::uint32_t kSamplers = 1;  // the viewer's process; sessions are those behind it
// Perfetto takes a thread that has its process's number for the main one, and puts it first.
constexpr std::uint32_t kFirstThread = 1000;

using StepKey = std::pair<std::uint64_t, std::uint64_t>;  // session, step

// A client may write into its records what it likes: times that are nowhere near the samplers' own are not
// drawn, or they would stretch the trace over years.
class Credible {
  public:
    explicit Credible(const TraceMaterial& material) {
        for (const auto& step : material.steps) include(step.commit_ns);
        for (const auto& column : material.columns) include(column.record.begin_ns);
    }
    bool holds(std::uint64_t ns) const { return ns + kNear >= first_ && ns <= last_ + kNear; }

  private:
    static constexpr std::uint64_t kNear =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::seconds(60)).count();

    void include(std::uint64_t ns) {
        first_ = std::min(first_, ns);
        last_ = std::max(last_, ns);
    }

    std::uint64_t first_ = ~std::uint64_t{0} - kNear;
    std::uint64_t last_ = 0;
};

class Story {
  public:
    explicit Story(const TraceMaterial& material) : material_(material), credible_(material) {}

    ChromeTrace tell() {
        name_tracks();
        note_taken();
        std::vector<proto::StepRecord> steps = material_.steps;
        std::sort(steps.begin(), steps.end(),
                  [](const auto& a, const auto& b) { return a.commit_ns < b.commit_ns; });
        for (const auto& step : steps) tell_step(step);
        for (const auto& column : material_.columns) tell_column(column);
        count_flights();
        return std::move(trace_);
    }

  private:
    struct Drawn {
        TraceTrack track;
        std::uint64_t ready_ns = 0;
    };

    // Threads of samplers are numbered through: a sampler has no more of them than fit between two.
    static TraceTrack track_of(const shm::JournalColumn& column) {
        return {kSamplers, kFirstThread + column.sampler * 64 + column.thread};
    }

    std::string session_name(std::uint64_t id) const {
        const auto name = material_.session_names.find(id);
        return name == material_.session_names.end() ? std::to_string(id) : printable(name->second);
    }

    void name_tracks() {
        for (const auto& step : material_.steps) processes_.emplace(step.session_id, 0);
        for (const auto& column : material_.columns) processes_.emplace(column.record.session_id, 0);
        std::uint32_t next = kSamplers;
        trace_.name_process(next++, "samplers");
        for (auto& [id, process] : processes_) {
            process = next++;
            trace_.name_process(process, "session " + session_name(id));
        }
        std::map<std::uint32_t, std::string> names;
        for (const auto& column : material_.columns) {
            const auto core = material_.cores.find(column.sampler);
            const bool pinned = core != material_.cores.end() && core->second >= 0;
            names[track_of(column).thread] =
                fmt::format("sampler {}{}{}", column.sampler,
                            column.thread > 0 ? fmt::format(", thread {}", column.thread) : "",
                            pinned ? fmt::format(", core {}", core->second) : "");
        }
        for (const auto& [thread, name] : names) trace_.name_track({kSamplers, thread}, name);
    }

    // Each step tells it of the one before it in its slot.
    void note_taken() {
        for (const auto& step : material_.steps) {
            if (step.before_taken_ns != 0 && step.step >= step.slots && credible_.holds(step.before_taken_ns))
                taken_[{step.session_id, step.step - step.slots}] = step.before_taken_ns;
        }
    }

    TraceTrack slot_track(const proto::StepRecord& step) {
        const std::uint32_t slots = std::max<std::uint32_t>(step.slots, 1);
        const TraceTrack track{processes_.at(step.session_id),
                               kFirstThread + static_cast<std::uint32_t>(step.step % slots)};
        if (slot_ends_.emplace(std::pair(track.process, track.thread), 0).second)
            trace_.name_track(track, fmt::format("slot {}", track.thread - kFirstThread));
        return track;
    }

    void tell_step(const proto::StepRecord& step) {
        const TraceTrack track = slot_track(step);
        std::uint64_t& slot_end = slot_ends_.at({track.process, track.thread});
        const std::uint64_t commit = step.commit_ns;
        const auto fits = [&](std::uint64_t ns) {
            return credible_.holds(ns) && ns <= commit && ns >= slot_end;
        };
        const bool has_published = fits(step.published_ns);
        const bool has_ready = fits(step.ready_ns) && (!has_published || step.ready_ns >= step.published_ns);
        // Nothing is known but its end.
        if ((!has_published && !has_ready) || commit < slot_end) return;
        const std::uint64_t begin = has_published ? step.published_ns : step.ready_ns;
        const auto taken = taken_.find({step.session_id, step.step});
        const bool has_taken = taken != taken_.end() && taken->second >= commit;
        slot_end = has_taken ? taken->second : commit;
        json about = {
            {"session", session_name(step.session_id)}, {"step", step.step}, {"columns", step.columns}};
        if (step.last_rank > 0) {
            about["last_rank"] = step.last_rank - 1;
            about["last_rank_late_us"] = step.last_rank_late_ns * 1e-3;
        }
        trace_.span(track, fmt::format("step {}", step.step), begin, slot_end, std::move(about));
        if (has_published) flights_[track.process].push_back({begin, 1});
        // Of one that nobody told the taking of, until it was decided.
        if (has_published) flights_[track.process].push_back({slot_end, -1});
        if (has_taken) trace_.span(track, "waits to be taken", commit, slot_end);
        if (!has_ready) return;
        trace_.span(track, "is decided", step.ready_ns, commit);
        drawn_[{step.session_id, step.step}] = {track, step.ready_ns};
        if (!has_published) return;
        trace_.span(track, "waits for logits", begin, step.ready_ns);
        if (step.last_rank == 0 || step.last_rank_late_ns > step.ready_ns - begin) return;
        trace_.span(track, fmt::format("waits for rank {} alone", step.last_rank - 1),
                    step.ready_ns - step.last_rank_late_ns, step.ready_ns);
    }

    void tell_column(const shm::JournalColumn& of) {
        const proto::ColumnRecord& column = of.record;
        json about = {{"session", session_name(column.session_id)},
                      {"step", column.step},
                      {"column", column.column},
                      {"sequence", column.sequence_uid},
                      {"blocks_read", column.blocks_read},
                      {"blocks", column.blocks}};
        if (const std::string notes = notes_on(column); !notes.empty()) about["notes"] = notes;
        const std::string name = column.error != 0 ? error_name(column.error) : path_name(column.path);
        trace_.span(track_of(of), name, column.begin_ns, column.begin_ns + column.duration_ns,
                    std::move(about));
        const auto step = drawn_.find({column.session_id, column.step});
        if (step != drawn_.end() && column.begin_ns >= step->second.ready_ns)
            trace_.arrow(step->second.track, step->second.ready_ns, track_of(of), column.begin_ns);
    }

    void count_flights() {
        for (auto& [process, changes] : flights_) {
            std::sort(changes.begin(), changes.end());
            std::int64_t flying = 0;
            for (const auto& [at, change] : changes)
                trace_.count(process, "steps in flight", at, flying += change);
        }
    }

    const TraceMaterial& material_;
    Credible credible_;
    ChromeTrace trace_;
    std::map<std::uint64_t, std::uint32_t> processes_;  // by session
    std::map<StepKey, std::uint64_t> taken_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> slot_ends_;  // by track
    std::map<StepKey, Drawn> drawn_;
    std::map<std::uint32_t, std::vector<std::pair<std::uint64_t, std::int64_t>>> flights_;  // by process
};

}  // namespace

ChromeTrace trace_of(const TraceMaterial& material) {
    return Story(material).tell();
}

}  // namespace croupier::tools
