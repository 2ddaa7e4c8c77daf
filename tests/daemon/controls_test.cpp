// Every control that an engine can ask for is one that its decisions obey.
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <string>

#include "client/abi_fields.h"
#include "proto/sampling.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr int kSteps = 10;

void leave(client::Sequence& /*unused*/) {}

// Greedy, and but for the control the token 7 always: a repeat of the prompt's.
void repeats_seven(client::Sequence& s) {
    s.params.temperature = 0.0;
    s.prompt = {5, 6, 7, 5, 6, 7, 5, 6};
    s.bias = {{7, 30.0F}};
}
void is_dry(client::Sequence& s) {
    repeats_seven(s);
    s.params.dry_multiplier = 10.0;
}
// What changes any token's logit then changes the drawn token's log-prob.
void has_processed_logprobs(client::Sequence& s) {
    s.params.logprob_mode = CROUPIER_LOGPROB_PROCESSED;
}

struct Control {
    const char* name;
    void (*background)(client::Sequence&);  // what the control needs to be seen
    void (*ask)(client::Sequence&);
};

const Control kControls[] = {
    {"temperature", leave, [](auto& s) { s.params.temperature = 0.1; }},
    {"top_k", leave, [](auto& s) { s.params.top_k = 1; }},
    {"top_p", leave, [](auto& s) { s.params.top_p = 0.1; }},
    {"min_p", leave, [](auto& s) { s.params.min_p = 0.9; }},
    {"repetition_penalty", has_processed_logprobs, [](auto& s) { s.params.repetition_penalty = 2.0; }},
    {"frequency_penalty", has_processed_logprobs, [](auto& s) { s.params.frequency_penalty = 2.0; }},
    {"presence_penalty", has_processed_logprobs, [](auto& s) { s.params.presence_penalty = 2.0; }},
    {"dynatemp_range", leave, [](auto& s) { s.params.dynatemp_range = 0.9; }},
    {"dynatemp_exponent", [](auto& s) { s.params.dynatemp_range = 0.9; },
     [](auto& s) { s.params.dynatemp_exponent = 8.0; }},
    {"top_n_sigma", leave, [](auto& s) { s.params.top_n_sigma = 0.01; }},
    {"typical_p", leave, [](auto& s) { s.params.typical_p = 0.1; }},
    {"xtc_probability", [](auto& s) { s.params.xtc_threshold = 0.001; },
     [](auto& s) { s.params.xtc_probability = 1.0; }},
    {"xtc_threshold", [](auto& s) { s.params.xtc_probability = 1.0; },
     [](auto& s) { s.params.xtc_threshold = 0.001; }},
    {"dry_multiplier", repeats_seven, [](auto& s) { s.params.dry_multiplier = 50.0; }},
    {"dry_base",
     [](auto& s) {
         repeats_seven(s);
         s.params.dry_multiplier = 2.0;
     },
     [](auto& s) { s.params.dry_base = 4.0; }},
    {"dry_allowed_length", is_dry, [](auto& s) { s.params.dry_allowed_length = 20; }},
    {"dry_penalty_last_n", is_dry, [](auto& s) { s.params.dry_penalty_last_n = 2; }},
    {"dry_breakers", is_dry,
     [](auto& s) {
         s.dry_breakers = {1, 90, 1, 6};
     }},
    {"dry_breakers of several ids", is_dry,
     [](auto& s) {
         s.dry_breakers = {2, 5, 6};
     }},
    {"penalty_last_n",
     [](auto& s) {
         repeats_seven(s);
         s.params.repetition_penalty = 100.0;
     },
     [](auto& s) { s.params.penalty_last_n = 0; }},
    {"mirostat 1", leave, [](auto& s) { s.params.mirostat = 1; }},
    {"mirostat 2", leave,
     [](auto& s) {
         s.params.mirostat = 2;
         s.params.mirostat_tau = 0.1;
     }},
    {"mirostat_tau", [](auto& s) { s.params.mirostat = 2; }, [](auto& s) { s.params.mirostat_tau = 1.0; }},
    {"mirostat_eta",
     [](auto& s) {
         s.params.mirostat = 2;
         s.params.mirostat_tau = 3.0;
     },
     [](auto& s) { s.params.mirostat_eta = 1.0; }},
    {"adaptive_target", leave, [](auto& s) { s.params.adaptive_target = 0.02; }},
    {"adaptive_decay",
     [](auto& s) {
         s.params.adaptive_target = 0.3;
         s.params.temperature = 0.5;
     },
     [](auto& s) { s.params.adaptive_decay = 0.0; }},
    {"child", leave, [](auto& s) { s.params.child = 1; }},
    {"rng sglang", leave, [](auto& s) { s.params.rng = CROUPIER_RNG_SGLANG; }},
    {"rng vllm", leave, [](auto& s) { s.params.rng = CROUPIER_RNG_VLLM; }},
    {"logprob_mode", [](auto& s) { s.params.top_k = 5; },
     [](auto& s) { s.params.logprob_mode = CROUPIER_LOGPROB_PROCESSED; }},
    {"order",
     [](auto& s) {
         s.params.temperature = 3.0;
         s.params.top_p = 0.5;
     },
     [](auto& s) {
         s.params.order[0] = CROUPIER_ORDER_TOP_P;
         s.params.order[1] = CROUPIER_ORDER_TEMPERATURE;
     }},
    {"allowed_ids", leave,
     [](auto& s) {
         s.allowed_ids = {3, 500, 999, 17};
     }},
    {"bad_words of one id", repeats_seven,
     [](auto& s) {
         s.bad_words = {1, 90, 1, 7};
     }},
    {"bad_words of several ids", repeats_seven,
     [](auto& s) {
         s.bad_words = {3, 7, 7, 7};
     }},
};

client::Sequence plain_sequence(std::uint64_t uid) {
    client::Sequence made;
    made.uid = uid;
    made.prompt = {1, 2, 3};
    made.params.seed = uid * 1000 + 7;
    return made;
}

EngineShape shape_for(std::size_t sequences) {
    EngineShape shape;
    shape.batch = static_cast<std::uint32_t>(sequences);
    shape.max_sequences = shape.batch;
    return shape;
}

void run_controls(SmallEngine& engine, bool ask, std::uint32_t flags = 0) {
    std::uint64_t uid = 0;
    for (const Control& control : kControls) {
        client::Sequence sequence = plain_sequence(++uid);
        control.background(sequence);
        if (ask) control.ask(sequence);
        sequence.params.flags |= flags;
        engine.admit(sequence);
    }
    engine.steps(kSteps);
}

// The parameters that a case's control sets.
std::set<std::string> set_by(const Control& control) {
    client::Sequence sequence = plain_sequence(1);
    control.background(sequence);
    const proto::SamplingParams before = client::params_from_abi(sequence.params);
    control.ask(sequence);
    const proto::SamplingParams after = client::params_from_abi(sequence.params);
    std::set<std::string> set;
    proto::for_each_sampling_field([&](const auto& field) {
        if (before.*field.member != after.*field.member) set.insert(field.name);
    });
    return set;
}

bool decided_alike(const std::vector<croupier_decision>& a, const std::vector<croupier_decision>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& left, const auto& right) {
        return left.token == right.token && left.logprob == right.logprob;
    });
}

// Its every decision depends on what the one before left.
client::Sequence sequence_with_feedback(std::uint64_t uid) {
    client::Sequence sequence = plain_sequence(uid);
    if (uid % 3 == 0) {
        sequence.params.adaptive_target = 0.3;
        sequence.params.top_k = 8;
        return sequence;
    }
    sequence.params.mirostat = static_cast<std::uint8_t>(uid % 3);
    sequence.params.mirostat_tau = 3.0;
    sequence.params.mirostat_eta = 0.5;
    return sequence;
}

void admit_with_feedback(SmallEngine& engine) {
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(sequence_with_feedback(uid));
}

Streams undisturbed_with_feedback(int steps) {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "undisturbed");
    admit_with_feedback(engine);
    engine.steps(steps);
    return engine.streams();
}

}  // namespace

TEST_CASE("every parameter is set by a case of these tests, or has tests of its own") {
    const std::set<std::string> own_tests = {
        "seed",     "eos_token_id", "min_tokens", "max_tokens",      "flags",
        "logprobs", "loop_count",   "support",    "loop_max_period", "loop_min_period",
    };
    std::set<std::string> set;
    for (const Control& control : kControls) set.merge(set_by(control));
    proto::for_each_sampling_field([&](const auto& field) {
        INFO(field.name);
        CHECK(set.count(field.name) + own_tests.count(field.name) == 1);
    });
}

TEST_CASE("every control reaches the sampler, and changes what is decided as the reference says") {
    const DaemonProcess daemon;
    EngineShape shape = shape_for(std::size(kControls));
    shape.lean = GENERATE(false, true);
    SmallEngine without(daemon.endpoint(), "without", shape);
    run_controls(without, false);
    SmallEngine with(daemon.endpoint(), "with", shape);
    run_controls(with, true);
    std::uint64_t uid = 0;
    for (const Control& control : kControls) {
        INFO(control.name);
        ++uid;
        CHECK_FALSE(decided_alike(with.decisions().at(uid), without.decisions().at(uid)));
    }
}

TEST_CASE("no control is lost where writers draw the tokens of requests without any") {
    const DaemonProcess daemon;
    EngineShape shape = shape_for(std::size(kControls));
    shape.lean = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    run_controls(engine, true, CROUPIER_NO_LOGPROB);
}

TEST_CASE("what mirostat and adaptive-p carry outlives the samplers") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    admit_with_feedback(engine);
    engine.steps(2);
    std::uint32_t kills = 0;
    for (int round = 0; round < 3; ++round) {
        engine.submit();
        for (const std::uint32_t victim : {0U, 1U}) ::kill(daemon.sampler_pid(victim), SIGKILL);
        kills += 2;
        engine.write();
        engine.collect();
        REQUIRE(eventually([&] { return daemon.sampler_restarts() == kills && daemon.await_ready(); }));
    }
    engine.steps(2);
    CHECK(engine.streams() == undisturbed_with_feedback(7));
}

TEST_CASE("what mirostat and adaptive-p carry outlives the daemon") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    admit_with_feedback(engine);
    for (int round = 0; round < 4; ++round) {
        engine.submit();
        if (round % 2 == 0) engine.write();
        daemon.kill_now();
        if (round % 2 == 1) engine.write();
        daemon.start();
        engine.collect();
        REQUIRE(daemon.await_ready());
    }
    CHECK(engine.streams() == undisturbed_with_feedback(4));
}

TEST_CASE("a sequence that is added again with its output begins mirostat and adaptive-p anew") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    admit_with_feedback(engine);
    engine.steps(4);
    const Streams before = engine.streams();
    for (const auto& [uid, stream] : before) {
        engine.session().finish(uid);
        client::Sequence sequence = sequence_with_feedback(uid);
        sequence.output = stream;
        engine.admit(sequence);
    }
    engine.steps(4);
    CHECK(engine.streams() != undisturbed_with_feedback(8));
}
