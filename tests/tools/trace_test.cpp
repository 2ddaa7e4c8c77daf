// `croupier trace`: its file is valid for trace viewers and holds the samplers' records.
#include <fcntl.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <streambuf>

#include "shm/file.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "testing/workplace.h"
#include "tools/trace/step_story.h"

using namespace croupier;
using namespace croupier::tools;
using namespace croupier::testing;
using Catch::Equals;
using nlohmann::json;

namespace {

std::int64_t ns(const json& microseconds) {
    return std::llround(microseconds.get<double>() * 1e3);
}

using Track = std::pair<int, int>;

Track track_of(const json& event) {
    return {event.at("pid").get<int>(), event.at("tid").get<int>()};
}

// Checks what viewers require: fields, order of time, spans that nest or are disjoint, arrows with both ends,
// and a name for every track.
std::string fault_of(const json& trace) {
    std::map<Track, std::vector<std::int64_t>> open;  // ends of the open spans, outermost first
    std::map<int, std::int64_t> starts;               // of arrows
    std::set<Track> named;
    std::set<int> named_processes;
    std::set<int> ended;
    std::int64_t last = 0;
    for (const json& event : trace.at("traceEvents")) {
        const std::string what = event.dump();
        const std::string kind = event.at("ph");
        if (!event.at("name").is_string()) return "no name: " + what;
        if (kind == "M") {
            if (event.at("name") == "thread_name") named.insert(track_of(event));
            if (event.at("name") == "process_name") named_processes.insert(track_of(event).first);
            continue;
        }
        if (!named_processes.contains(track_of(event).first)) return "its process has no name: " + what;
        const std::int64_t at = ns(event.at("ts"));
        if (at < last) return "earlier than the event before: " + what;
        last = at;
        std::vector<std::int64_t>& ends = open[track_of(event)];
        while (!ends.empty() && ends.back() <= at && !(kind == "s" && ends.back() == at)) ends.pop_back();
        if (kind == "X") {
            if (!named.contains(track_of(event))) return "its track has no name: " + what;
            const std::int64_t end = at + ns(event.at("dur"));
            if (end < at || (!ends.empty() && end > ends.back()))
                return "overlaps the one around it: " + what;
            ends.push_back(end);
        } else if (kind == "s") {
            if (ends.empty()) return "an arrow from no span: " + what;
            if (!starts.emplace(event.at("id").get<int>(), at).second) return "begun twice: " + what;
        } else if (kind == "f") {
            const int id = event.at("id");
            if (!starts.contains(id) || !ended.insert(id).second)
                return "an end without a beginning: " + what;
        } else if (kind == "C") {
            if (!event.at("args").begin().value().is_number()) return "counts nothing: " + what;
        } else {
            return "of no kind that is written: " + what;
        }
    }
    return starts.size() == ended.size() ? "" : "an arrow without an end";
}

json written(const TraceMaterial& material) {
    std::ostringstream text;
    StepStory(material).write(text, {{"program", "test"}});
    return json::parse(text.str());
}

std::vector<json> spans(const json& trace, const std::string& name) {
    std::vector<json> found;
    for (const json& event : trace.at("traceEvents")) {
        if (event.at("ph") == "X" && event.at("name") == name) found.push_back(event);
    }
    return found;
}

// Discards the output and measures the heap meanwhile.
class HeapWatch : public std::streambuf {
  public:
    static std::size_t in_use() {
        const auto heap = ::mallinfo2();
        return heap.uordblks + heap.hblkhd;
    }
    std::size_t most() const { return most_; }
    std::size_t bytes() const { return bytes_; }

  private:
    std::streamsize xsputn(const char*, std::streamsize count) override {
        bytes_ += static_cast<std::size_t>(count);
        if (calls_++ % 100 == 0) most_ = std::max(most_, in_use());
        return count;
    }
    int overflow(int byte) override {
        ++bytes_;
        return byte;
    }

    std::size_t calls_ = 0;
    std::size_t bytes_ = 0;
    std::size_t most_ = 0;
};

constexpr std::uint64_t kBegin = 1'000'000'000'000;

proto::StepRecord step_record(std::uint64_t step, std::uint64_t published, std::uint64_t ready,
                              std::uint64_t commit) {
    proto::StepRecord record;
    record.session_id = 7;
    record.step = step;
    record.published_ns = published;
    record.ready_ns = ready;
    record.commit_ns = commit;
    record.columns = 1;
    record.slots = 1;
    return record;
}

shm::JournalColumn column_record(std::uint64_t step, std::uint64_t ready, std::uint64_t begin,
                                 std::uint32_t duration) {
    shm::JournalColumn column;
    column.sampler = 3;
    column.record.session_id = 7;
    column.record.step = step;
    column.record.ready_ns = ready;
    column.record.begin_ns = begin;
    column.record.duration_ns = duration;
    column.record.path = 4;
    column.record.sequence_uid = 8667540643943873161U;
    return column;
}

// Two steps in one slot; the second records when the first was taken.
TraceMaterial two_steps() {
    TraceMaterial material;
    material.session_names[7] = "replica-0";
    material.cores[3] = 12;
    material.steps = {step_record(1, kBegin + 6000, kBegin + 7000, kBegin + 8000),
                      step_record(0, kBegin, kBegin + 3000, kBegin + 4000)};
    material.steps[0].before_taken_ns = kBegin + 5500;
    material.steps[1].last_rank = 2;
    material.steps[1].last_rank_late_ns = 800;
    material.columns = {column_record(0, kBegin + 3000, kBegin + 3100, 900),
                        column_record(1, kBegin + 7000, kBegin + 7000, 1000)};
    return material;
}

}  // namespace

TEST_CASE("a step has spans for its phases, its last rank, and an arrow to each column") {
    const json trace = written(two_steps());
    CHECK_THAT(fault_of(trace), Equals(""));
    REQUIRE(spans(trace, "step 0").size() == 1);
    const json step = spans(trace, "step 0")[0];
    CHECK((ns(step.at("ts")) == 0 && ns(step.at("dur")) == 5500));
    CHECK(step.at("args").at("last_rank") == 1);
    CHECK(ns(spans(trace, "waits for logits")[0].at("dur")) == 3000);
    CHECK(ns(spans(trace, "is decided")[0].at("dur")) == 1000);
    CHECK(spans(trace, "waits to be taken").size() == 1);
    CHECK(ns(spans(trace, "waits to be taken")[0].at("dur")) == 1500);
    CHECK(ns(spans(trace, "waits only for rank 1")[0].at("ts")) == 2200);
    REQUIRE(spans(trace, "race").size() == 2);
    CHECK(spans(trace, "race")[0].at("args").at("sequence") == "8667540643943873161");
    const std::string text = trace.dump();
    CHECK(text.find("sampler 3, core 12") != std::string::npos);
    CHECK(text.find("session replica-0") != std::string::npos);
    CHECK(std::count_if(trace.at("traceEvents").begin(), trace.at("traceEvents").end(),
                        [](const json& event) { return event.at("ph") == "f"; }) == 2);
}

TEST_CASE("implausible times of a client are not drawn and do not affect other times") {
    TraceMaterial material = two_steps();
    const std::uint64_t mad =
        GENERATE(std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, ~std::uint64_t{0} / 2, kBegin + 7999);
    for (proto::StepRecord& step : material.steps) {
        SECTION("publication") {
            step.published_ns = mad;
        }
        SECTION("logits") {
            step.ready_ns = mad;
        }
        SECTION("taking") {
            step.before_taken_ns = mad;
        }
        SECTION("lateness") {
            step.last_rank_late_ns = static_cast<std::uint32_t>(mad);
        }
    }
    const json trace = written(material);
    CHECK_THAT(fault_of(trace), Equals(""));
    for (const json& event : trace.at("traceEvents")) {
        CHECK(ns(event.at("ts")) <= 8000);
        if (event.contains("dur")) CHECK(ns(event.at("dur")) <= 8000);
    }
}

TEST_CASE("a trace is valid without records, without steps, and with names that are not UTF-8") {
    CHECK_THAT(fault_of(written({})), Equals(""));
    TraceMaterial material = two_steps();
    material.steps.clear();
    material.session_names[7] = "\xff\xfe\033[2J\"";
    const json trace = written(material);
    CHECK_THAT(fault_of(trace), Equals(""));
    CHECK(spans(trace, "race").size() == 2);
    CHECK(trace.dump().find('\033') == std::string::npos);
}

TEST_CASE("a long trace uses at most 512 bytes of memory per column, also while it is written") {
    constexpr std::uint64_t kSteps = 5000;
    constexpr std::uint64_t kBatch = 8;
    const std::size_t before = HeapWatch::in_use();
    TraceMaterial material;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
        const std::uint64_t begin = kBegin + step * 10'000;
        material.steps.push_back(step_record(step, begin, begin + 3000, begin + 9000));
        for (std::uint64_t column = 0; column < kBatch; ++column)
            material.columns.push_back(column_record(step, begin + 3000, begin + 3000 + column * 700, 600));
    }
    const StepStory story(std::move(material));
    // Each step has several events; each column has a span and both ends of an arrow.
    REQUIRE(story.events() > 3 * kSteps * kBatch);
    HeapWatch watch;
    std::ostream text(&watch);
    story.write(text, {{"program", "test"}});
    CHECK(watch.bytes() > 300 * kSteps * kBatch);
    INFO((watch.most() - before) / (kSteps * kBatch) << " bytes a column");
    CHECK(watch.most() - before < 512 * kSteps * kBatch);
}

TEST_CASE("croupier trace writes the samplers' records of a running and of a dead daemon") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.steps(6);
    REQUIRE(engine.counted(48));
    const Workplace place;
    const std::string where = "-i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    const bool dead = GENERATE(false, true);
    // Its samplers write a column's record after its token.
    daemon.await_idle_samplers();
    if (dead) daemon.kill_now();
    const Ended traced = place.run("trace --kept -o t.json " + where);
    INFO(traced.output);
    REQUIRE(traced.status == 0);
    CHECK((traced.output.find("the daemon is dead") != std::string::npos) == dead);
    const json trace = json::parse(place.bytes_of("t.json"));
    CHECK_THAT(fault_of(trace), Equals(""));
    for (int step = 0; step < 6; ++step) {
        CHECK(spans(trace, "step " + std::to_string(step)).size() == 1);
    }
    // The times at which the last two were taken are not recorded yet.
    CHECK(spans(trace, "waits to be taken").size() == 4);
    CHECK(trace.at("otherData").at("entries_lost") == 0);
    CHECK(place.run("trace --kept --session engine --json " + where).output.find("\"columns\":48") !=
          std::string::npos);
}

TEST_CASE("croupier trace reports errors before it starts recording") {
    const DaemonProcess daemon;
    const Workplace place;
    const std::string where = "-i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    const auto fails = [&](const std::string& arguments, const std::string& words) {
        const Ended ended = place.run("trace " + arguments);
        INFO(ended.output);
        CHECK(ended.status != 0);
        CHECK(ended.output.find(words) != std::string::npos);
    };
    fails("-i nobody --seconds 600", "is croupierd running, with the instance name 'nobody'?");
    fails(where + " --seconds 600 -o /nowhere/t.json", "cannot write /nowhere/t.json: No such file");
    fails(where + " --kept --session other", "no session is named other; sessions: none");
    fails(where + " --seconds 0", "--seconds");
    fails(where + " --seconds nan", "--seconds");
    fails(where + " --seconds 1 --kept", "excludes");
}

TEST_CASE("a failed trace keeps the old output file and leaves no other file") {
    const DaemonProcess daemon;
    const Workplace place;
    const std::string where = "-i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    place.write("t.json", "the old trace");
    CHECK(place.run("trace --kept -i nobody -o t.json").status != 0);
    CHECK(place.run("trace --kept --session other -o t.json " + where).status != 0);
    CHECK(place.bytes_of("t.json") == "the old trace");
    // A link's target is replaced; anything but a regular file is written directly.
    std::filesystem::create_symlink("t.json", place.path() / "link.json");
    CHECK(place.run("trace --kept -o link.json " + where).status == 0);
    CHECK(std::filesystem::is_symlink(place.path() / "link.json"));
    CHECK_THAT(fault_of(json::parse(place.bytes_of("t.json"))), Equals(""));
    CHECK(place.run("trace --kept -o /dev/stdout " + where).output.find("traceEvents") != std::string::npos);
    const Ended folder = place.run("trace --kept -o . " + where);
    CHECK((folder.status != 0 && folder.output.find("cannot write .: ") != std::string::npos));
    for (const auto& entry : std::filesystem::directory_iterator(place.path())) {
        const std::string name = entry.path().filename();
        CHECK((name == "t.json" || name == "link.json"));
    }
}

TEST_CASE("a signal ends croupier trace even if it is blocked on writing") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.steps(60);
    REQUIRE(engine.counted(480));
    const Workplace place;
    const std::string fifo = place.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const shm::FileDescriptor reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "croupier";
    ChildProcess trace = ChildProcess::execute(
        {tool, "trace", "--kept", "-o", fifo, "-i", daemon.instance(), "--shm-dir", daemon.shm_directory()},
        place.path() / "said", SIGKILL);
    // The pipe is too small for the trace, and nothing reads from it.
    REQUIRE(eventually([&] {
        int filled = 0;
        return ::ioctl(reader.get(), FIONREAD, &filled) == 0 && filled > 0;
    }));
    trace.send(GENERATE(SIGINT, SIGTERM));
    std::optional<ChildEnd> end;
    CHECK(eventually([&] { return (end = trace.poll()).has_value(); }));
    CHECK((end && end->signal != 0));
}
