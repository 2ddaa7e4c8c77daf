// A uid may be used again once it is not live: what the dead sequence left in a sampler must not count.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint64_t kUid = 7;

EngineShape one_column() {
    EngineShape shape;
    shape.batch = 1;
    shape.max_sequences = 1;
    return shape;
}

// The tokens whose logits are the highest of the sequence's first row.
std::vector<std::int32_t> best_tokens(std::uint32_t vocab) {
    const auto row = SmallEngine::row(vocab, kUid, 0);
    std::vector<std::int32_t> ids(vocab);
    for (std::uint32_t id = 0; id < vocab; ++id) ids[id] = static_cast<std::int32_t>(id);
    std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
        return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
    });
    return ids;
}

// 64 tokens: half from `first` on in the order of the logits, and half that all such prompts share.
std::vector<std::int32_t> prompt_of(std::size_t first, std::size_t shared_from) {
    const auto ids = best_tokens(one_column().vocab);
    std::vector<std::int32_t> prompt;
    for (std::size_t i = 0; i < 32; ++i) prompt.push_back(ids[first + i]);
    for (std::size_t i = 0; i < 32; ++i) prompt.push_back(ids[shared_from + i]);
    return prompt;
}

void penalise(client::Sequence& sequence) {
    sequence.params.repetition_penalty = 1.5;
}

// The prompt begins with its last four tokens, and what followed them there is penalised.
void make_dry(client::Sequence& sequence) {
    sequence.params.dry_multiplier = 5.0;
    auto& prompt = sequence.prompt;
    prompt[4] = prompt[0];
    std::copy(prompt.end() - 4, prompt.end(), prompt.begin());
}

client::Sequence greedy(std::vector<std::int32_t> prompt, void (*control)(client::Sequence&)) {
    client::Sequence sequence;
    sequence.uid = kUid;
    sequence.params.temperature = 0.0;
    sequence.prompt = std::move(prompt);
    control(sequence);
    return sequence;
}

struct Prompts {
    const char* about;
    std::vector<std::int32_t> dead;
    std::vector<std::int32_t> next;
};

}  // namespace

TEST_CASE("a uid that is used again is decided like a new one") {
    const DaemonProcess daemon("{count: 1, wait: adaptive}");
    SmallEngine engine(daemon.endpoint(), "engine", one_column());
    // With another last half, too, of which only the first token is the same.
    auto differs_late = prompt_of(100, 300);
    differs_late[32] = prompt_of(0, 200)[32];
    const Prompts prompts[] = {{"the last 32 tokens agree", prompt_of(0, 200), prompt_of(100, 200)},
                               {"one token of the last 32 agrees", prompt_of(0, 200), differs_late}};
    for (void (*control)(client::Sequence&) : {penalise, make_dry}) {
        for (const Prompts& each : prompts) {
            for (const int decided : {1, 5, 33}) {
                INFO(each.about << ", " << (control == penalise ? "repetition penalty" : "DRY") << ", after "
                                << decided << " tokens");
                engine.admit(greedy(each.dead, control));
                engine.steps(decided);
                engine.session().finish(kUid);
                engine.admit(greedy(each.next, control));
                engine.steps(2);
                engine.session().finish(kUid);
            }
        }
    }
}

TEST_CASE("a uid that is used again gives the same tokens whether or not a sampler died between") {
    const DaemonProcess daemon("{count: 1, wait: adaptive}");
    SmallEngine engine(daemon.endpoint(), "engine", one_column());
    Streams streams;
    for (const bool dies : {false, true}) {
        engine.admit(greedy(prompt_of(0, 200), penalise));
        engine.step();
        engine.session().finish(kUid);
        if (dies) {
            ::kill(daemon.sampler_pid(0), SIGKILL);
            REQUIRE(eventually([&] { return daemon.sampler_restarts() == 1 && daemon.await_ready(); }));
        }
        engine.admit(greedy(prompt_of(100, 200), penalise));
        engine.steps(3);
        if (dies) CHECK(engine.streams() == streams);
        streams = engine.streams();
        engine.session().finish(kUid);
    }
}
