// A scheduler resumes a session that does not fit into one message.
#include <catch2/catch.hpp>
#include <memory>

#include "proto/fan_out_frame.h"
#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "tests/fan_out/last_stage.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kLength = 1U << 18U;  // the daemon's default limit
constexpr std::uint32_t kOutput = kLength - 100;
constexpr std::uint32_t kSequences = 70;
static_assert(std::size_t{kSequences} * kOutput * sizeof(std::int32_t) > proto::kMaxAnswerBytes);

std::vector<std::int32_t> output_of(std::uint64_t uid) {
    std::vector<std::int32_t> output(kOutput);
    for (std::size_t i = 0; i < output.size(); ++i)
        output[i] = static_cast<std::int32_t>((i * uid + uid) % RemoteScheduler::kVocab);
    return output;
}

// A group and a session in it, which goes on with an earlier one.
struct Scheduler {
    explicit Scheduler(const Route& route) : group(route) {
        client::OpenOptions options = options_through(group);
        options.name = "long";
        options.max_length = kLength;
        options.max_sequences = kSequences;
        options.resume = 1;
        session = std::make_unique<client::Session>(options);
    }

    RelayGroup group;
    std::unique_ptr<client::Session> session;
};

bool is_published(const std::string& segment_path, std::uint64_t steps) {
    const auto segment = shm::Segment::attach(segment_path, shm::Access::read_only);
    REQUIRE(segment);
    return segment.value().header().published == steps;
}

}  // namespace

TEST_CASE("a session whose output is longer than a message is resumed whole, with its step in flight") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    // Named first, told last, and the other way round.
    const std::vector<croupier_column> columns = {{1, nullptr, 1, 0}, {kSequences, nullptr, 1, 0}};
    {
        const Scheduler earlier(stage.route());
        for (std::uint64_t uid = 1; uid <= kSequences; ++uid) {
            client::Sequence sequence;
            sequence.uid = uid;
            sequence.prompt = {1, 2, 3};
            sequence.output = output_of(uid);
            earlier.session->add(sequence);
        }
        earlier.session->submit(columns);
        REQUIRE(eventually([&] { return is_published(earlier.session->segment_path(), 1); }));
    }
    const Scheduler scheduler(stage.route());
    client::Session& session = *scheduler.session;
    CHECK(session.resumed());
    CHECK(session.live().size() == kSequences);
    for (std::uint64_t uid = 1; uid <= kSequences; ++uid) CHECK((session.output(uid) == output_of(uid)));
    CHECK(session.in_flight() == 1);
    stage.start_writer(session.segment_path());
    const auto step = session.wait(20000);
    REQUIRE(step);
    REQUIRE(step->decisions.size() == 2);
    for (std::size_t column = 0; column < columns.size(); ++column) {
        CHECK(step->decisions[column].uid == columns[column].uid);
        CHECK(step->decisions[column].error == 0);
        CHECK(session.output(columns[column].uid).size() == kOutput + 1);
    }
    CHECK(stage.relay_log().find("event=relay_refused_record") == std::string::npos);
    session.close();
}
