// A sequence's lists and its feedback: what is malformed is refused, what is decided again is the same.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "tests/daemon/raw_engine.h"

using namespace croupier;
using namespace croupier::testing;
using proto::DecisionError;

namespace {

const Lie kListLies[] = {
    {"a bad word of no ids", DecisionError::bad_record, [](auto& e) { e.lists(kVictim)[0] = 0; }},
    {"a bad word of less than none", DecisionError::bad_record, [](auto& e) { e.lists(kVictim)[0] = -1; }},
    {"a bad word longer than the list", DecisionError::bad_record,
     [](auto& e) { e.lists(kVictim)[0] = 2147483647; }},
    {"bad words that end within one", DecisionError::bad_record,
     [](auto& e) { e.entry(kVictim).bad_words_count = 1; }},
    {"a bad word past the vocabulary", DecisionError::bad_token, [](auto& e) { e.lists(kVictim)[1] = 100; }},
    {"a breaker longer than the list", DecisionError::bad_record, [](auto& e) { e.lists(kVictim)[2] = 2; }},
    {"a breaker longer than the list, with DRY", DecisionError::bad_record,
     [](auto& e) {
         e.params(kVictim).dry_multiplier = 1.0;
         e.lists(kVictim)[2] = 2147483647;
     }},
    {"a negative breaker, with DRY", DecisionError::bad_token,
     [](auto& e) {
         e.params(kVictim).dry_multiplier = 1.0;
         e.lists(kVictim)[3] = -1;
     }},
    {"an allowed id past the vocabulary", DecisionError::bad_token,
     [](auto& e) {
         e.entry(kVictim).allowed_count = 1;
         e.entry(kVictim).bad_words_count = 0;
         e.entry(kVictim).breakers_count = 0;
         e.lists(kVictim)[0] = 100;
     }},
    {"a feedback of NaN", DecisionError::bad_record,
     [](auto& e) {
         e.params(kVictim).temperature = 1.0;
         e.params(kVictim).mirostat = 2;
         e.feedback(kVictim)[0] = {
             {std::numeric_limits<double>::quiet_NaN(), 1.0}, 0, e.entry(kVictim).admission};
     }},
};

bool alike(const proto::FeedbackAfter& a, const proto::FeedbackAfter& b) {
    return a.outputs == b.outputs && a.feedback.level == b.feedback.level &&
           a.feedback.weight == b.feedback.weight;
}

}  // namespace

TEST_CASE("a malformed list or feedback is that column's error only") {
    Stage stage;
    for (const Lie& lie : kListLies) stage.check(lie);
    stage.check_neighbour();
}

TEST_CASE("a position that is decided again reads the feedback of the first time, and leaves the same") {
    Stage stage;
    RawEngine engine = stage.fresh();
    auto& row = engine.row(kVictim);
    for (std::uint32_t id = 0; id < kVocab; ++id) row[id] = static_cast<float>(id * 37 % 100) * 0.05F;
    engine.params(kVictim).temperature = 1.0;
    engine.params(kVictim).mirostat = 2;
    const proto::KeptFeedback& kept = engine.feedback(kVictim);
    for (std::uint32_t position = 0; position < 6; ++position) {
        INFO("position " << position);
        engine.publish();
        engine.write();
        const std::int32_t token = engine.take()[kVictim].token;
        const auto left = kept;
        CHECK(left[position + 1].outputs == position + 1);
        CHECK(left[position].outputs == position);
        CHECK(left[position + 1].feedback.level != left[position].feedback.level);
        engine.go_back();
        engine.publish();
        engine.write();
        CHECK(engine.take()[kVictim].token == token);
        CHECK(std::equal(left.begin(), left.end(), kept.begin(), alike));
    }
}
