// Hidden, for it takes most of a minute: bench/derived_states.sh runs it and says what it found.
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>

#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kSequences = 4096;
constexpr std::uint32_t kSamplers = 14;
constexpr std::uint32_t kHistory = 1000;
constexpr std::uint32_t kVocab = 8000;

// Some tokens frequent, most rare, as in a text: about half of a thousand are distinct.
std::vector<std::int32_t> text(std::uint64_t seed) {
    std::vector<std::int32_t> tokens;
    std::uint64_t random = seed * 0x9E3779B97F4A7C15U;
    for (std::uint32_t i = 0; i < kHistory; ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const double unit = static_cast<double>(random >> 11U) * 0x1p-53;
        tokens.push_back(static_cast<std::int32_t>(kVocab * std::pow(unit, 2.5)));
    }
    return tokens;
}

client::Sequence penalised(std::uint64_t uid) {
    client::Sequence sequence;
    sequence.uid = uid;
    sequence.prompt = text(uid);
    sequence.params.seed = uid;
    sequence.params.temperature = 0.8;
    sequence.params.repetition_penalty = 1.1;
    sequence.params.frequency_penalty = 0.1;
    sequence.params.dry_multiplier = 0.8;
    return sequence;
}

}  // namespace

TEST_CASE("4,096 sequences of a thousand tokens with penalties and DRY take less than a GiB in 14 samplers",
          "[.many]") {
    DaemonProcess daemon("{count: 14, wait: sleep, pin: false, heartbeat_timeout_ms: 600000}",
                         "sessions: {max_batch: 4096, max_sequences: 4096}\n");
    EngineShape shape;
    shape.vocab = kVocab;
    shape.batch = kSequences;
    shape.max_sequences = kSequences;
    shape.max_length = kHistory + 24;
    SmallEngine engine(daemon.endpoint(), "engine", shape, 300'000);
    for (std::uint64_t uid = 1; uid <= kSequences; ++uid) engine.admit(penalised(uid));
    engine.steps(3);  // which compare every decision with the reference
    auto snapshot = shm::observe(daemon.shm_directory(), daemon.instance());
    REQUIRE(snapshot);
    std::uint64_t bytes = 0;
    std::uint64_t states = 0;
    std::uint64_t dropped = 0;
    for (const auto& sampler : snapshot.value().samplers) {
        std::cout << "sampler " << sampler.index << ": " << sampler.columns << " columns, " << sampler.states
                  << " states, " << sampler.state_bytes / 1024 << " KiB\n";
        bytes += sampler.state_bytes;
        states += sampler.states;
        dropped += sampler.states_dropped;
    }
    std::cout << snapshot.value().samplers.size() << " samplers, " << states << " states of " << kSequences
              << " sequences, " << bytes / 1024 / 1024 << " MiB together, " << dropped << " dropped\n";
    CHECK(snapshot.value().samplers.size() == kSamplers);
    CHECK(states >= kSequences);
    CHECK(bytes <= std::uint64_t{1} << 30U);
    CHECK(dropped == 0);
}
