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
using Kind = TraceMoment::Kind;

namespace {

constexpr std::uint32_t kSamplers = 1;  // the viewer's process of the samplers; sessions follow
// Perfetto treats a thread whose number equals its process's as the main thread and puts it first.
constexpr std::uint32_t kFirstThread = 1000;

using StepKey = std::pair<std::uint64_t, std::uint64_t>;  // session, step

// A client may write any time into its records. Times far from the samplers' own are not drawn: one of them
// could stretch the trace over years.
class CredibleTimes {
  public:
    explicit CredibleTimes(const TraceMaterial& material) {
        for (const auto& step : material.steps) include(step.commit_ns);
        for (const auto& column : material.columns) include(column.record.begin_ns);
    }
    bool contains(std::uint64_t ns) const { return ns + kNear >= first_ && ns <= last_ + kNear; }

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

// A sampler has at most 64 threads, so that each thread has its own number.
TraceTrack track_of(const shm::JournalColumn& column) {
    return {kSamplers, kFirstThread + column.sampler * 64 + column.thread};
}

std::string session_name(const TraceMaterial& material, std::uint64_t id) {
    const auto name = material.session_names.find(id);
    return name == material.session_names.end() ? std::to_string(id) : printable(name->second);
}

class StoryBuilder {
  public:
    // The steps must be in the order of their commits.
    explicit StoryBuilder(const TraceMaterial& material) : material_(material), credible_(material) {
        drawing_.moments.reserve(3 * material.columns.size() + 7 * material.steps.size());
    }

    TraceDrawing build() {
        name_processes();
        name_samplers();
        collect_taken_times();
        for (std::uint32_t i = 0; i < material_.steps.size(); ++i) draw_step(i);
        for (std::uint32_t i = 0; i < material_.columns.size(); ++i) draw_column(i);
        count_steps_in_flight();
        // Of spans that begin together, the outer one must come first.
        std::stable_sort(drawing_.moments.begin(), drawing_.moments.end(), [](const auto& a, const auto& b) {
            return std::pair(a.at_ns, b.end_ns) < std::pair(b.at_ns, a.end_ns);
        });
        return std::move(drawing_);
    }

  private:
    struct Drawn {
        TraceTrack track;
        std::uint64_t ready_ns = 0;
    };

    void add(Kind kind, TraceTrack track, std::uint32_t of, std::uint64_t at_ns, std::uint64_t end_ns = 0) {
        drawing_.moments.push_back({at_ns, end_ns, of, track.process, track.thread, kind});
    }

    void name_processes() {
        for (const auto& step : material_.steps) processes_.emplace(step.session_id, 0);
        for (const auto& column : material_.columns) processes_.emplace(column.record.session_id, 0);
        std::uint32_t next = kSamplers;
        drawing_.processes.emplace_back(next++, "samplers");
        for (auto& [id, process] : processes_) {
            process = next++;
            drawing_.processes.emplace_back(process, "session " + session_name(material_, id));
        }
    }

    void name_samplers() {
        std::map<std::uint32_t, std::string> names;
        for (const auto& column : material_.columns) {
            const std::uint32_t thread = track_of(column).thread;
            if (names.contains(thread)) continue;
            const auto core = material_.cores.find(column.sampler);
            const bool pinned = core != material_.cores.end() && core->second >= 0;
            names[thread] = fmt::format("sampler {}{}{}", column.sampler,
                                        column.thread > 0 ? fmt::format(", thread {}", column.thread) : "",
                                        pinned ? fmt::format(", core {}", core->second) : "");
        }
        for (const auto& [thread, name] : names)
            drawing_.tracks.emplace_back(TraceTrack{kSamplers, thread}, name);
    }

    // A step's record holds the time at which the previous step in its slot was taken.
    void collect_taken_times() {
        for (const auto& step : material_.steps) {
            if (step.before_taken_ns != 0 && step.step >= step.slots &&
                credible_.contains(step.before_taken_ns))
                taken_[{step.session_id, step.step - step.slots}] = step.before_taken_ns;
        }
    }

    TraceTrack slot_track(const proto::StepRecord& step) {
        const std::uint32_t slots = std::max<std::uint32_t>(step.slots, 1);
        const TraceTrack track{processes_.at(step.session_id),
                               kFirstThread + static_cast<std::uint32_t>(step.step % slots)};
        if (slot_ends_.emplace(std::pair(track.process, track.thread), 0).second)
            drawing_.tracks.emplace_back(track, fmt::format("slot {}", track.thread - kFirstThread));
        return track;
    }

    void draw_step(std::uint32_t place) {
        const proto::StepRecord& step = material_.steps[place];
        const TraceTrack track = slot_track(step);
        std::uint64_t& slot_end = slot_ends_.at({track.process, track.thread});
        const std::uint64_t commit = step.commit_ns;
        const auto fits = [&](std::uint64_t ns) {
            return credible_.contains(ns) && ns <= commit && ns >= slot_end;
        };
        const bool has_published = fits(step.published_ns);
        const bool has_ready = fits(step.ready_ns) && (!has_published || step.ready_ns >= step.published_ns);
        // Without a credible beginning there is no span to draw.
        if ((!has_published && !has_ready) || commit < slot_end) return;
        const std::uint64_t begin = has_published ? step.published_ns : step.ready_ns;
        const auto taken = taken_.find({step.session_id, step.step});
        const bool has_taken = taken != taken_.end() && taken->second >= commit;
        slot_end = has_taken ? taken->second : commit;
        add(Kind::step, track, place, begin, slot_end);
        if (has_published) in_flight_changes_[track.process].push_back({begin, 1});
        // If the time of taking is unknown, the step counts until it is decided.
        if (has_published) in_flight_changes_[track.process].push_back({slot_end, -1});
        if (has_taken) add(Kind::taking, track, place, commit, slot_end);
        if (!has_ready) return;
        add(Kind::deciding, track, place, step.ready_ns, commit);
        drawn_[{step.session_id, step.step}] = {track, step.ready_ns};
        if (!has_published) return;
        add(Kind::waiting, track, place, begin, step.ready_ns);
        if (step.last_rank == 0 || step.last_rank_late_ns > step.ready_ns - begin) return;
        add(Kind::waiting_for_rank, track, place, step.ready_ns - step.last_rank_late_ns, step.ready_ns);
    }

    void draw_column(std::uint32_t place) {
        const proto::ColumnRecord& column = material_.columns[place].record;
        const TraceTrack track = track_of(material_.columns[place]);
        add(Kind::column, track, place, column.begin_ns, column.begin_ns + column.duration_ns);
        const auto step = drawn_.find({column.session_id, column.step});
        if (step == drawn_.end() || column.begin_ns < step->second.ready_ns) return;
        add(Kind::arrow_start, step->second.track, place, step->second.ready_ns);
        add(Kind::arrow_finish, track, place, column.begin_ns);
    }

    void count_steps_in_flight() {
        for (auto& [process, changes] : in_flight_changes_) {
            std::sort(changes.begin(), changes.end());
            std::int64_t in_flight = 0;
            for (const auto& [at, change] : changes) {
                in_flight += change;
                add(Kind::steps_in_flight, {process, 0}, static_cast<std::uint32_t>(in_flight), at);
            }
        }
    }

    const TraceMaterial& material_;
    CredibleTimes credible_;
    TraceDrawing drawing_;
    std::map<std::uint64_t, std::uint32_t> processes_;  // by session
    std::map<StepKey, std::uint64_t> taken_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> slot_ends_;  // by track
    std::map<StepKey, Drawn> drawn_;
    std::map<std::uint32_t, std::vector<std::pair<std::uint64_t, std::int64_t>>>
        in_flight_changes_;  // by process
};

json words_of(const proto::StepRecord& step, const TraceMaterial& material) {
    json about = {
        {"session", session_name(material, step.session_id)}, {"step", step.step}, {"columns", step.columns}};
    if (step.last_rank > 0) {
        about["last_rank"] = step.last_rank - 1;
        about["last_rank_late_us"] = step.last_rank_late_ns * 1e-3;
    }
    return about;
}

json words_of(const proto::ColumnRecord& column, const TraceMaterial& material) {
    json about = {{"session", session_name(material, column.session_id)},
                  {"step", column.step},
                  {"column", column.column},
                  // As text: a viewer's numbers are exact up to 2^53 only.
                  {"sequence", std::to_string(column.sequence_uid)},
                  {"blocks_read", column.blocks_read},
                  {"blocks", column.blocks}};
    if (const auto notes = notes_on(column); !notes.empty()) about["notes"] = notes;
    return about;
}

void write_moment(const TraceMoment& moment, const TraceMaterial& material, ChromeTrace& trace) {
    const TraceTrack track{moment.process, moment.thread};
    const auto span = [&](const std::string& name, json words = json::object()) {
        trace.span(track, name, moment.at_ns, moment.end_ns, std::move(words));
    };
    const auto step = [&]() -> const proto::StepRecord& { return material.steps[moment.of]; };
    const auto column = [&]() -> const proto::ColumnRecord& { return material.columns[moment.of].record; };
    switch (moment.kind) {
        case Kind::step:
            return span(fmt::format("step {}", step().step), words_of(step(), material));
        case Kind::taking:
            return span("waits to be taken");
        case Kind::deciding:
            return span("is decided");
        case Kind::waiting:
            return span("waits for logits");
        case Kind::waiting_for_rank:
            return span(fmt::format("waits only for rank {}", step().last_rank - 1));
        case Kind::column:
            return span(column().error != 0 ? error_name(column().error) : path_name(column().path),
                        words_of(column(), material));
        // The column's number identifies its arrow.
        case Kind::arrow_start:
            return trace.arrow_start(track, moment.at_ns, moment.of);
        case Kind::arrow_finish:
            return trace.arrow_finish(track, moment.at_ns, moment.of);
        case Kind::steps_in_flight:
            return trace.count(moment.process, "steps in flight", moment.at_ns,
                               static_cast<std::int32_t>(moment.of));
    }
}

}  // namespace

StepStory::StepStory(TraceMaterial material) : material_(std::move(material)) {
    std::sort(material_.steps.begin(), material_.steps.end(),
              [](const auto& a, const auto& b) { return a.commit_ns < b.commit_ns; });
    drawing_ = StoryBuilder(material_).build();
}

void StepStory::write(std::ostream& to, json about, const std::function<void()>& written) const {
    const auto& moments = drawing_.moments;
    ChromeTrace trace(to, std::move(about), moments.empty() ? 0 : moments.front().at_ns);
    for (const auto& [process, name] : drawing_.processes) trace.name_process(process, name);
    for (const auto& [track, name] : drawing_.tracks) trace.name_track(track, name);
    for (const TraceMoment& moment : moments) {
        write_moment(moment, material_, trace);
        written();
    }
    trace.finish();
}

}  // namespace croupier::tools
