// What /explain gives is the decision that the daemon made, to the same token.
#include <catch2/catch.hpp>

#include "tests/daemon/explaining.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

// One sequence after the other is asked for, each in a step of its own.
void explain_all(const Explaining& explaining, SmallEngine& engine) {
    for (const std::uint64_t uid : engine.session().live()) {
        INFO("sequence " << uid);
        Asked asked = explaining.ask(uid);
        engine.step();
        const auto& stream = engine.streams().at(uid);
        check_explained(asked.json(), stream.back(), stream.size() - 1);
    }
    CHECK_FALSE(explaining.has_captured());
}

client::Sequence with_all(std::uint64_t uid, std::uint32_t vocab) {
    client::Sequence made = SmallEngine::sequence(uid, vocab);
    switch (uid % 10) {
        case 0:
            made.params.mirostat = 1;
            break;
        case 1:
            made.params.mirostat = 2;
            made.params.mirostat_tau = 3.0;
            break;
        case 2:
            made.params.adaptive_target = 0.3;
            break;
        case 3:
            made.params.rng = CROUPIER_RNG_SGLANG;
            made.params.child = 0;
            break;
        case 4:
            made.params.rng = CROUPIER_RNG_VLLM;
            break;
        case 5:
            // One token, and in this order: 0.1 is no sum of halves.
            made.bias = {{7, 0.1F}, {9, -3.0F}, {7, 0.7F}, {7, -0.3F}};
            made.params.child = 3;
            made.params.dry_multiplier = 2.0;
            made.dry_breakers = {1, 9, 2, 5, 6};
            break;
        case 6:
            made.allowed_ids = {3, 50, 90, 17, 400};
            made.stop_ids = {50, 3};
            made.params.min_tokens = 100;
            break;
        case 7:
            made.bad_words = {1, 90, 2, 7, 7};
            made.params.xtc_probability = 0.7;
            made.params.flags |= CROUPIER_IGNORE_EOS;
            made.params.eos_token_id = 5;
            break;
        case 8:
            made.params.order[0] = CROUPIER_ORDER_TOP_P;
            made.params.order[1] = CROUPIER_ORDER_TEMPERATURE;
            made.params.top_p = 0.4;
            break;
        default:
            made.params.rng = CROUPIER_RNG_SHVS;
            made.params.top_k = 0;
            made.params.top_p = 1.0;
            break;
    }
    return made;
}

void admit_all(SmallEngine& engine, const EngineShape& shape) {
    // rng shvs is of rows.
    for (std::uint64_t uid = 1; uid <= shape.batch; ++uid)
        engine.admit(shape.lean && uid % 10 == 9 ? SmallEngine::sequence(uid, shape.vocab)
                                                 : with_all(uid, shape.vocab));
}

EngineShape shape_of(std::uint32_t tp) {
    EngineShape shape;
    shape.tp = tp;
    shape.batch = 10;
    return shape;
}

void order_blocks(EngineShape& shape) {
    const std::uint32_t blocks = proto::blocks_of(shape.vocab);
    for (std::uint32_t i = blocks; i-- > 0;) shape.order.push_back(i);
}

}  // namespace

TEST_CASE(
    "what /explain gives decides the daemon's token, over controls, ranks, masks, summaries and tiles") {
    const Explaining explaining;
    EngineShape shape = shape_of(GENERATE(1U, 2U, 3U));
    shape.masked = GENERATE(false, true);
    shape.summaries = shape.tp == 2;
    shape.tile = shape.tp == 3 ? 1 : 64;
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    admit_all(engine, shape);
    engine.steps(3);
    explain_all(explaining, engine);
}

TEST_CASE("what /explain gives decides the daemon's token where rows stay with their writers") {
    const Explaining explaining(GENERATE("{count: 1}", "{count: 3, threads_per_sampler: 2}"));
    EngineShape shape = shape_of(GENERATE(1U, 2U));
    shape.vocab = 20000;
    shape.lean = true;
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    admit_all(engine, shape);
    // Drawn by its writer: nobody would ask for its row.
    client::Sequence drawn = SmallEngine::sequence(8, shape.vocab);
    drawn.uid = 11;
    drawn.params.temperature = 0.9;
    drawn.params.top_p = 1.0;
    drawn.params.flags |= CROUPIER_NO_LOGPROB;
    engine.finish(8);
    engine.steps(2);
    engine.admit(drawn);
    Asked asked = explaining.ask(11);
    engine.submit();
    engine.write();
    engine.collect();
    const auto request = asked.json();
    CHECK(request.at("decided").at("path") == "drawn");
    check_explained(request, engine.streams().at(11).back(), 0);
    explain_all(explaining, engine);
}

TEST_CASE("the row that /explain gives of a lean step's masked column is the row, whatever the mask hides") {
    const Explaining explaining(kTwoSamplers);
    EngineShape shape = shape_of(GENERATE(1U, 2U));
    shape.vocab = 8000;
    shape.lean = true;
    shape.masked = true;
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    engine.admit(shape.batch);
    engine.steps(2);
    Asked asked = explaining.ask(3);
    engine.submit();
    engine.write();
    engine.collect();
    const auto logits = asked.json().at("logits").get<std::vector<float>>();
    CHECK(logits == SmallEngine::row(shape.vocab, 3, 2));
}

TEST_CASE("what /explain gives decides the daemon's token with a hot set, an order and a writer's randoms") {
    const Explaining explaining(kTwoSamplers, "}\nhot_set: {size: 256");
    EngineShape shape = shape_of(2);
    shape.vocab = 4000;
    shape.randoms_supplied = true;
    shape.hot_size = 256;
    order_blocks(shape);
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence made = SmallEngine::sequence(uid, shape.vocab);
        made.params.top_k = 0;
        made.params.top_p = 1.0;
        made.params.temperature = 0.7 + 0.2 * static_cast<double>(uid);
        engine.admit(made);
    }
    engine.step();
    explain_all(explaining, engine);
}

TEST_CASE("what /explain gives has what ends the sequence's text") {
    const Explaining explaining;
    EngineShape shape = shape_of(1);
    shape.pieces = small_alphabet_pieces(shape.vocab);
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    client::Sequence made = SmallEngine::sequence(1, shape.vocab);
    made.stop_strings = {"ab\u20AC", "bb"};
    made.params.flags |= CROUPIER_KEEP_SPECIAL | CROUPIER_STOP_AT_JSON;
    engine.admit(made);
    engine.admit(SmallEngine::sequence(2, shape.vocab));
    Asked asked = explaining.ask(1);
    engine.step();
    const auto request = asked.json();
    CHECK(request.at("stop_strings") == nlohmann::json{"ab\u20AC", "bb"});
    CHECK(request.at("keep_special") == true);
    CHECK(request.at("stop_at_json") == true);
    check_explained(request, engine.streams().at(1).back(), 0);
    Asked other = explaining.ask(2);
    engine.step();
    CHECK_FALSE(other.json().contains("stop_strings"));
}

TEST_CASE("the decision that ends its sequence is explained") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    for (std::uint64_t uid = 1; uid <= 10; ++uid) {
        client::Sequence last = SmallEngine::sequence(uid, EngineShape().vocab);
        last.params.max_tokens = 1;
        engine.admit(last);
        Asked asked = explaining.ask(uid);
        engine.step();
        engine.finish(uid);
        check_explained(asked.json(), engine.streams().at(uid).back(), 0);
    }
}

TEST_CASE("of several steps in flight the first is explained") {
    const Explaining explaining;
    EngineShape shape;
    shape.steps_in_flight = 4;
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    engine.admit(3);
    engine.step();
    std::vector<std::uint64_t> steps;
    steps.reserve(3);
    for (int i = 0; i < 3; ++i) steps.push_back(engine.submit());
    Asked asked = explaining.ask(2);
    for (int i = 0; i < 3; ++i) engine.write();
    for (int i = 0; i < 3; ++i) engine.collect();
    const auto request = asked.json();
    CHECK(request.at("decided").at("step") == steps.front());
    check_explained(request, engine.streams().at(2).at(1), 1);
}
