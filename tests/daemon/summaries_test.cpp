// What the writers say of their tiles changes the work of a decision, never the decision; and where they lie,
// the lie stays in its column.
#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/raw_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using proto::DecisionError;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Streams streams_of(const DaemonProcess& daemon, const EngineShape& shape) {
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(shape.batch);
    engine.steps(12);
    return engine.streams();
}

// The victim's tiles all get the maximum `said`; everybody else's are left as they are.
std::vector<proto::Decision> decide_where_victim_says(RawEngine& engine, float said) {
    engine.publish();
    engine.lay_rows();
    const auto maxima = engine.maxima();
    const std::size_t stride = maxima.size() / kColumns;
    REQUIRE(stride >= engine.tiles());
    for (std::size_t tile = 0; tile < engine.tiles(); ++tile) maxima[kVictim * stride + tile] = said;
    engine.announce_rows();
    auto decisions = engine.take();
    REQUIRE(decisions.size() == kColumns);
    return decisions;
}

void check_neighbours_in(const std::vector<proto::Decision>& decisions) {
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        if (column == kVictim) continue;
        INFO("column " << column);
        CHECK(decisions[column].error == DecisionError::none);
        CHECK(decisions[column].token == static_cast<int>(50 + column));
    }
}

}  // namespace

TEST_CASE("summaries change no token, whatever the tiles, the ranks and the order") {
    const DaemonProcess daemon;
    const bool ordered = GENERATE(false, true);
    EngineShape shape;
    shape.vocab = 5000;
    if (ordered) {
        const std::uint32_t blocks = proto::blocks_of(shape.vocab);  // a prime
        for (std::uint32_t i = 0; i < blocks; ++i) shape.order.push_back(i * 37 % blocks);
    }
    for (const std::uint32_t tile : {1U, 64U}) {
        for (const std::uint32_t tp : {1U, 3U}) {
            shape.tile = tile;
            shape.tp = tp;
            shape.summaries = false;
            const Streams plain = streams_of(daemon, shape);
            shape.summaries = true;
            INFO("tile " << tile << ", tp " << tp);
            CHECK(streams_of(daemon, shape) == plain);
        }
    }
}

TEST_CASE("a session is resumed with summaries as it was opened, and stays resumable after a refusal") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.summaries = true;
    {
        SmallEngine gone(daemon.endpoint(), "engine", shape);
        gone.admit(8);
        gone.steps(2);
    }
    shape.resume = true;
    EngineShape without = shape;
    without.summaries = false;
    CHECK_THAT(failure_of([&] { const SmallEngine engine(daemon.endpoint(), "engine", without); }),
               Contains("summaries is 1 in the session and 0 in the options"));
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    CHECK(engine.session().resumed());
    engine.steps(2);
}

TEST_CASE("rows that land in parts change no token, whatever the ranks, the order and the samplers") {
    const DaemonProcess daemon(GENERATE("{count: 1}", "{count: 3, wait: spin}"));
    EngineShape shape;
    shape.vocab = 20000;
    shape.tp = GENERATE(1U, 3U);
    if (GENERATE(false, true)) {
        const std::uint32_t blocks = proto::blocks_of(shape.vocab);  // a prime
        for (std::uint32_t i = 0; i < blocks; ++i) shape.order.push_back(i * 37 % blocks);
    }
    const Streams at_once = streams_of(daemon, shape);
    shape.halves = true;
    CHECK(streams_of(daemon, shape) == at_once);
}

TEST_CASE("a NaN or +inf among the maxima is an error of that column only") {
    Stage stage;
    RawEngine engine = stage.fresh(true);
    for (const auto& [said, answer] : {std::pair{kNan, DecisionError::nan_logit},
                                       {-kNan, DecisionError::nan_logit},
                                       {kInfinity, DecisionError::infinite_logit}}) {
        const auto decisions = decide_where_victim_says(engine, said);
        CHECK(decisions[kVictim].error == answer);
        CHECK(decisions[kVictim].token == -1);
        check_neighbours_in(decisions);
    }
    stage.check_neighbour();
}

TEST_CASE("maxima that are too low or too high cost their own column the right token at most") {
    Stage stage;
    RawEngine engine = stage.fresh(true);
    constexpr float kLargest = std::numeric_limits<float>::max();
    for (const float said : {-5.0F, 0.0F, 9.0F, 11.0F, 1e6F, kLargest, -kLargest, -kInfinity}) {
        INFO("the maxima are said to be " << said);
        const auto decisions = decide_where_victim_says(engine, said);
        const proto::Decision& victims = decisions[kVictim];
        CHECK((victims.error == DecisionError::none || victims.error == DecisionError::no_token_left));
        CHECK(victims.token < static_cast<int>(kVocab));
        check_neighbours_in(decisions);
    }
    stage.check_neighbour();
}

TEST_CASE("maxima of any bits harm nobody else, whatever the victim asked for") {
    Stage stage;
    std::mt19937 random(4);
    void (*const asked[])(proto::SamplingParams&) = {
        [](auto&) {},
        [](auto& params) { params.top_k = 20; },
        [](auto& params) { params.top_p = 0.9; },
        [](auto& params) { params.min_p = 0.1; },
        [](auto& params) { params.typical_p = 0.8; },
        [](auto& params) { params.top_n_sigma = 1.5; },
        [](auto& params) { params.mirostat = 2; },
        [](auto& params) { params.adaptive_target = 0.4; },
        [](auto& params) { params.rng = proto::Rng::sglang; },
        [](auto& params) { params.temperature = 0.0; },
    };
    int drawn = 0;
    for (const auto& ask : asked) {
        RawEngine engine = stage.fresh(true);
        auto& params = engine.params(kVictim);
        params.temperature = 1.0;
        ask(params);
        for (int round = 0; round < 40; ++round) {
            auto said = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
            if (round % 2 == 1) said = static_cast<float>(random() % 64) - 32.0F;
            const auto decisions = decide_where_victim_says(engine, said);
            INFO("round " << round << ", the maxima are said to be " << said);
            CHECK(decisions[kVictim].token < static_cast<int>(kVocab));
            drawn += decisions[kVictim].error == DecisionError::none ? 1 : 0;
            check_neighbours_in(decisions);
        }
    }
    CHECK(drawn > 200);
    stage.check_neighbour();
}
