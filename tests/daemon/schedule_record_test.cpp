// A client that writes nonsense into its own segment: each lie is answered by the right error, and its
// neighbours in the step and in the daemon never know.
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "tests/daemon/raw_engine.h"

using namespace croupier;
using namespace croupier::testing;
using proto::DecisionError;

namespace {

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
    {"the largest mask row", DecisionError::bad_mask, [](auto& e) { e.column(kVictim).mask_row = 0xFFFF; }},
    {"another revision", DecisionError::voided, [](auto& e) { e.column(kVictim).revision = 1; }},
    {"a step before it, of which the record says nothing", DecisionError::bad_record,
     [](auto& e) { e.column(kVictim).after_steps = 1; }},
    {"a step before the first", DecisionError::bad_record,
     [](auto& e) {
         e.record().flags = proto::kFollows;
         e.column(kVictim).after_steps = 0xFFFF;
     }},
    {"a row of a window, of which the record says nothing", DecisionError::bad_record,
     [](auto& e) { e.column(kVictim).row = 1; }},
    {"a row of another's window", DecisionError::bad_record,
     [](auto& e) {
         e.record().flags = proto::kWindows;
         e.column(kVictim).row = 1;
     }},
    {"the last row of all", DecisionError::bad_record,
     [](auto& e) {
         e.record().flags = proto::kWindows;
         e.column(kVictim).row = 0xFFFF;
     }},
    {"more steps before it than the ring has", DecisionError::bad_record,
     [](auto& e) {
         e.record().flags = proto::kFollows;
         e.column(kVictim).after_steps = 2;
     }},
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
    {"a log without memory for another token", DecisionError::no_memory,
     [](auto& e) { e.entry(kVictim).log_room = e.entry(kVictim).length.load(); }},
    {"a bias too many", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).bias_count = 5; }},
    {"all biases", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).bias_count = 0xFFFF; }},
    {"a stop id too many", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).stop_count = 5; }},
    {"all stop ids", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).stop_count = 0xFFFF; }},
    {"an allowed id too many", DecisionError::bad_sequence,
     [](auto& e) { e.entry(kVictim).allowed_count = 5; }},
    {"all allowed ids", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).allowed_count = kMost; }},
    {"bad words past the room", DecisionError::bad_sequence,
     [](auto& e) { e.entry(kVictim).bad_words_count = 7; }},
    {"all bad words", DecisionError::bad_sequence, [](auto& e) { e.entry(kVictim).bad_words_count = kMost; }},
    {"breakers past the room", DecisionError::bad_sequence,
     [](auto& e) { e.entry(kVictim).breakers_count = 7; }},
    {"counts whose sum overflows", DecisionError::bad_sequence,
     [](auto& e) {
         e.entry(kVictim).allowed_count = 0x80000000U;
         e.entry(kVictim).breakers_count = 0x80000000U;
     }},
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
     [](auto& e) { e.params(kVictim).eos_token_id = 100; }},
};

const Lie kParamLies[] = {
    {"temperature", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).temperature = -1; }},
    {"temperature", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).temperature = kNan; }},
    {"temperature", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).temperature = kInfinity; }},
    {"top_p", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).top_p = 0; }},
    {"top_p", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).top_p = kNan; }},
    {"min_p", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).min_p = 1.5; }},
    {"repetition_penalty", DecisionError::bad_parameter,
     [](auto& e) { e.params(kVictim).repetition_penalty = 0; }},
    {"frequency_penalty", DecisionError::bad_parameter,
     [](auto& e) { e.params(kVictim).frequency_penalty = kNan; }},
    {"presence_penalty", DecisionError::bad_parameter,
     [](auto& e) { e.params(kVictim).presence_penalty = -3; }},
    {"top_k", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).top_k = -2; }},
    {"flags", DecisionError::bad_parameter, [](auto& e) { e.params(kVictim).flags = kMost; }},
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

TEST_CASE("a false value in one column's schedule entry is that column's error only") {
    Stage stage;
    for (const Lie& lie : kColumnLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("a false value in a sequence's counts is that column's error only") {
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
