// A client that writes nonsense into its own segment: each lie is answered by the right error, and its
// neighbours in the step and in the daemon never know.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "gpu_writer/host_writer.h"
#include "shm/schedule_publisher.h"
#include "shm/sequence_table.h"
#include "shm/step_window.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/daemon_process.h"
#include "tests/daemon/small_engine.h"

using namespace croupier;
using namespace croupier::test;
using proto::DecisionError;

namespace {

constexpr std::uint32_t kVocab = 100;
constexpr std::uint32_t kColumns = 4;
constexpr std::uint32_t kVictim = 1;
constexpr std::uint32_t kMost = 0xFFFFFFFFU;

std::string open_segment(const std::string& endpoint, const std::string& name) {
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 1,
                 wire::CreateOpenDirect(builder, name.c_str(), kVocab, 1, 8, 2,
                                        static_cast<std::uint32_t>(proto::Dtype::fp32), 64, 8, 64, 4, 4, 2));
    ControlPeer peer(endpoint);
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    REQUIRE(answer != nullptr);
    REQUIRE(answer->body_as_SessionInfo() != nullptr);
    return answer->body_as_SessionInfo()->segment_path()->str();
}

// A client and a writer without the checks of the client library. Sequences 11 .. 14 stand in columns 0 .. 3
// and are greedy; the row of a column has its maximum at token 50 + column.
class RawEngine {
  public:
    explicit RawEngine(const std::string& endpoint, const std::string& name)
        : segment_(shm::Segment::attach(open_segment(endpoint, name), shm::Access::read_write).value()),
          publisher_(shm::SchedulePublisher::attach(segment_).value()),
          writer_(gpu_writer::HostWriter::attach(segment_.path(), 0).value()),
          table_(segment_) {
        const std::vector<std::int32_t> prompt = {1, 2, 3};
        const std::vector<proto::TokenBias> bias = {{7, 1.0F}};
        const std::vector<std::int32_t> stops = {9};
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            shm::NewSequence sequence;
            sequence.uid = 11 + column;
            sequence.params.temperature = 0;
            sequence.params.repetition_penalty = 1.1;
            sequence.prompt = prompt;
            sequence.output = {};
            sequence.bias = bias;
            sequence.stop_ids = stops;
            proto::ScheduleColumn asked;
            asked.sequence_uid = sequence.uid;
            asked.sequence_slot = table_.add(sequence).value();
            columns_.push_back(asked);
            rows_.emplace_back(kVocab, 0.0F);
            rows_.back()[50 + column] = 10.0F;
        }
    }

    shm::Segment& segment() { return segment_; }
    std::vector<float>& row(std::uint32_t column) { return rows_[column]; }
    proto::SequenceEntry& entry(std::uint32_t column) {
        return segment_.sequence(columns_[column].sequence_slot);
    }
    std::int32_t* log(std::uint32_t column) { return segment_.token_log(columns_[column].sequence_slot); }
    proto::TokenBias* biases(std::uint32_t column) { return segment_.biases(columns_[column].sequence_slot); }
    std::int32_t* stops(std::uint32_t column) { return segment_.stop_ids(columns_[column].sequence_slot); }
    // Of the step that was published last.
    proto::ScheduleRecord& record() { return segment_.schedule(slot_); }
    proto::ScheduleColumn& column(std::uint32_t index) { return segment_.schedule_columns(slot_)[index]; }

    void publish() {
        for (auto& asked : columns_) asked.mask_row = 0;
        slot_ = segment_.slot_of(publisher_.publish(columns_).value());
    }
    void write() {
        const auto step = writer_.wait_step(std::chrono::seconds(20)).value();
        const auto count = static_cast<std::uint32_t>(writer_.columns(step).size());
        for (std::uint32_t i = 0; i < count; ++i) writer_.write_column(step, i, rows_[i % kColumns].data());
        REQUIRE(writer_.publish_all(step));
    }
    bool complete() const {
        return eventually([&] { return publisher_.next_complete(); });
    }
    std::vector<proto::Decision> take() {
        REQUIRE(complete());
        const auto decided = publisher_.next_decisions();
        std::vector<proto::Decision> copy(decided.begin(), decided.end());
        publisher_.take();
        for (std::uint32_t i = 0; i < kColumns; ++i) {
            if (i < copy.size() && copy[i].error == DecisionError::none) ++columns_[i].position;
        }
        return copy;
    }
    DecisionError refusal() const {
        DecisionError seen = DecisionError::none;
        eventually([&] { return (seen = publisher_.next_refusal()) != DecisionError::none; });
        return seen;
    }
    void drop() { publisher_.take(); }

  private:
    shm::Segment segment_;
    shm::SchedulePublisher publisher_;
    gpu_writer::HostWriter writer_;
    shm::SequenceTable table_;
    std::vector<proto::ScheduleColumn> columns_;
    std::vector<std::vector<float>> rows_;
    std::uint32_t slot_ = 0;
};

struct Lie {
    const char* about;
    DecisionError answer;
    void (*tell)(RawEngine&);
};

// Sessions one after the other; between them, an engine whose every decision is checked.
class Stage {
  public:
    Stage() { neighbour_.admit(8); }

    RawEngine fresh() { return RawEngine(daemon_.endpoint(), "liar-" + std::to_string(made_++)); }
    DaemonProcess& daemon() { return daemon_; }

    void check(const Lie& lie) {
        INFO(lie.about);
        RawEngine engine = fresh();
        engine.publish();
        lie.tell(engine);
        engine.write();
        const auto decisions = engine.take();
        REQUIRE(decisions.size() == kColumns);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            INFO("column " << column);
            CHECK(decisions[column].error == (column == kVictim ? lie.answer : DecisionError::none));
            CHECK(decisions[column].token == (column == kVictim ? -1 : static_cast<int>(50 + column)));
        }
    }
    void check_neighbour() {
        neighbour_.steps(2);
        CHECK(daemon_.sampler_restarts() == 0);
    }

  private:
    DaemonProcess daemon_{kTwoSamplers, "sessions: {max: 64, reattach_grace_ms: 50}"};
    SmallEngine neighbour_{daemon_.endpoint(), "neighbour"};
    int made_ = 0;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Lie kColumnLies[] = {
    {"a slot past the table", DecisionError::bad_sequence,
     [](auto& e) { e.column(kVictim).sequence_slot = 8; }},
    {"the largest slot", DecisionError::bad_sequence,
     [](auto& e) { e.column(kVictim).sequence_slot = kMost; }},
    {"a free slot", DecisionError::bad_sequence,
     [](auto& e) { e.entry(kVictim).state = proto::SequenceState::free; }},
    {"another's uid", DecisionError::bad_sequence, [](auto& e) { e.column(kVictim).sequence_uid = 4711; }},
    {"a position ahead", DecisionError::bad_position, [](auto& e) { e.column(kVictim).position = 1; }},
    {"the largest position", DecisionError::bad_position,
     [](auto& e) { e.column(kVictim).position = kMost; }},
    {"a mask row too many", DecisionError::bad_mask, [](auto& e) { e.column(kVictim).mask_row = 3; }},
    {"the largest mask row", DecisionError::bad_mask, [](auto& e) { e.column(kVictim).mask_row = kMost; }},
    {"a window", DecisionError::bad_record, [](auto& e) { e.column(kVictim).window_offset = 1; }},
    {"a candidate", DecisionError::bad_record, [](auto& e) { e.column(kVictim).candidate = 0; }},
};

const Lie kEntryLies[] = {
    {"a prompt longer than all", DecisionError::bad_sequence,
     [](auto& e) { e.entry(kVictim).prompt_length = 4; }},
    {"the longest prompt", DecisionError::bad_sequence,
     [](auto& e) { e.entry(kVictim).prompt_length = kMost; }},
    {"a log past its room", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).length = 65; }},
    {"the longest log", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).length = kMost; }},
    {"a full log", DecisionError::sequence_full,
     [](auto& e) {
         e.entry(kVictim).length = 64;
         e.column(kVictim).position = 61;
     }},
    {"a bias too many", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).bias_count = 5; }},
    {"all biases", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).bias_count = kMost; }},
    {"a stop id too many", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).stop_count = 5; }},
    {"all stop ids", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).stop_count = kMost; }},
};

const Lie kIdLies[] = {
    {"a prompt id past the vocabulary", DecisionError::bad_token, [](auto& e) { e.log(kVictim)[1] = 100; }},
    {"a negative prompt id", DecisionError::bad_token, [](auto& e) { e.log(kVictim)[0] = -1; }},
    {"an output id past the vocabulary", DecisionError::bad_token,
     [](auto& e) {
         e.log(kVictim)[3] = 2147483647;
         e.entry(kVictim).length = 4;
         e.column(kVictim).position = 1;
     }},
    {"a bias for no token", DecisionError::bad_token, [](auto& e) { e.biases(kVictim)[0].token = 100; }},
    {"a bias of NaN", DecisionError::bad_parameter, [](auto& e) { e.biases(kVictim)[0].bias = kNan; }},
    {"a bias past its range", DecisionError::bad_parameter, [](auto& e) { e.biases(kVictim)[0].bias = 101; }},
    {"a stop id past the vocabulary", DecisionError::bad_token, [](auto& e) { e.stops(kVictim)[0] = 100; }},
    {"a negative stop id", DecisionError::bad_token, [](auto& e) { e.stops(kVictim)[0] = -5; }},
    {"an EOS past the vocabulary", DecisionError::bad_token,
     [](auto& e) { e.entry(kVictim).params.eos_token_id = 100; }},
};

const Lie kParamLies[] = {
    {"temperature", DecisionError::bad_parameter, [](auto& e) { e.entry(kVictim).params.temperature = -1; }},
    {"temperature", DecisionError::bad_parameter,
     [](auto& e) { e.entry(kVictim).params.temperature = kNan; }},
    {"temperature", DecisionError::bad_parameter,
     [](auto& e) { e.entry(kVictim).params.temperature = kInfinity; }},
    {"top_p", DecisionError::bad_parameter, [](auto& e) { e.entry(kVictim).params.top_p = 0; }},
    {"top_p", DecisionError::bad_parameter, [](auto& e) { e.entry(kVictim).params.top_p = kNan; }},
    {"min_p", DecisionError::bad_parameter, [](auto& e) { e.entry(kVictim).params.min_p = 1.5; }},
    {"repetition_penalty", DecisionError::bad_parameter,
     [](auto& e) { e.entry(kVictim).params.repetition_penalty = 0; }},
    {"frequency_penalty", DecisionError::bad_parameter,
     [](auto& e) { e.entry(kVictim).params.frequency_penalty = kNan; }},
    {"presence_penalty", DecisionError::bad_parameter,
     [](auto& e) { e.entry(kVictim).params.presence_penalty = -3; }},
    {"top_k", DecisionError::bad_parameter, [](auto& e) { e.entry(kVictim).params.top_k = -2; }},
    {"flags", DecisionError::bad_parameter, [](auto& e) { e.entry(kVictim).params.flags = kMost; }},
};

const Lie kRowLies[] = {
    {"a NaN", DecisionError::nan_logit, [](auto& e) { e.row(kVictim)[99] = kNan; }},
    {"+inf", DecisionError::infinite_logit, [](auto& e) { e.row(kVictim)[0] = kInfinity; }},
    {"nothing but -inf", DecisionError::no_token_left,
     [](auto& e) { e.row(kVictim).assign(kVocab, -kInfinity); }},
    {"a mask that allows nothing", DecisionError::no_token_left,
     [](auto& e) { e.column(kVictim).mask_row = 1; }},
};

}  // namespace

TEST_CASE("a lie in one column's schedule entry is that column's error only") {
    Stage stage;
    for (const Lie& lie : kColumnLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("a lie in a sequence's counts is that column's error only") {
    Stage stage;
    for (const Lie& lie : kEntryLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("an id outside the vocabulary is that column's error only") {
    Stage stage;
    for (const Lie& lie : kIdLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("a parameter outside its range is that column's error only") {
    Stage stage;
    for (const Lie& lie : kParamLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("a row of NaN, of +inf or without a token is that column's error only") {
    Stage stage;
    for (const Lie& lie : kRowLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("a record that cannot be acted on is refused as a whole, and the next step is decided") {
    Stage stage;
    const Lie lies[] = {
        {"no columns", DecisionError::bad_record, [](auto& e) { e.record().columns = 0; }},
        {"a column too many", DecisionError::bad_record, [](auto& e) { e.record().columns = 9; }},
        {"all columns", DecisionError::bad_record, [](auto& e) { e.record().columns = kMost; }},
        {"an unknown flag", DecisionError::bad_record, [](auto& e) { e.record().flags = 1U << 31U; }},
        {"another step", DecisionError::bad_record, [](auto& e) { e.record().step += 2; }},
    };
    RawEngine engine = stage.fresh();
    std::uint64_t refused = 0;
    for (const Lie& lie : lies) {
        INFO(lie.about);
        engine.publish();
        lie.tell(engine);
        CHECK(engine.refusal() == lie.answer);
        engine.drop();
        ++refused;
        engine.publish();
        engine.write();
        for (const auto& decision : engine.take()) CHECK(decision.error == DecisionError::none);
        CHECK(engine.segment().header().counter(proto::SessionCounter::records_refused).load() == refused);
    }
    stage.check_neighbour();
}

TEST_CASE(
    "a record that grows after it was published costs its own session the step, and nobody else anything") {
    Stage stage;
    RawEngine engine = stage.fresh();
    engine.publish();
    engine.write();
    for (const auto& decision : engine.take()) CHECK(decision.error == DecisionError::none);
    engine.publish();
    engine.record().columns = 8;
    engine.write();
    stage.check_neighbour();
}

TEST_CASE("step counters that contradict each other close their session, and the log says why") {
    Stage stage;
    const auto ended = [&](auto&& lie) {
        RawEngine engine = stage.fresh();
        const std::string path = engine.segment().path();
        engine.publish();
        lie(engine.segment().header());
        CHECK(eventually([&] { return engine.segment().header().state == proto::SessionState::closed; }));
        CHECK(eventually([&] { return !std::filesystem::exists(path); }));
        stage.check_neighbour();
    };
    ended([](auto& header) { header.published = 1000; });
    ended([](auto& header) { header.taken = 1000; });
    ended([](auto& header) { header.published = ~0ULL; });
    ended([](auto& header) {
        header.taken = ~0ULL - 1;
        header.published = 1;
    });
    CHECK(stage.daemon().says("its step counters contradict each other"));
}
