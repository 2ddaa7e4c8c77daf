// Whatever the row and the request are, the fast path decides as the reference does, and what earlier
// decisions left in its memory does not matter.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "decide_input.h"
#include "sampler/decide.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "tests/sampler/instruction_sets.h"

namespace {

using namespace croupier;
using sampler::test::InstructionSet;
using sampler::test::outcome_of;

// What a sampler keeps from decision to decision.
struct Memory {
    explicit Memory(std::uint32_t vocab) : workspace(vocab), state(vocab, fuzz::kMaxHistory) {}

    sampler::Workspace workspace;
    sampler::SequenceState state;
};

Memory& memory_for(std::uint32_t vocab) {
    static std::array<std::unique_ptr<Memory>, fuzz::kMaxVocab + 1> memories;
    auto& memory = memories[vocab];
    if (memory == nullptr) memory = std::make_unique<Memory>(vocab);
    return *memory;
}

proto::Decision decide(const fuzz::DecideInput& input, Memory& memory) {
    static const std::vector<std::int64_t> instruction_sets = sampler::test::instruction_sets();
    const InstructionSet used(instruction_sets[input.instruction_set % instruction_sets.size()]);
    memory.state.begin(input.params, input.breakers);
    return sampler::decide(input.row, input.request, memory.state, memory.workspace);
}

void stop(const std::string& fault) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
}

void check_sanity(const proto::Decision& decision, std::uint32_t vocab) {
    if (decision.error >= proto::DecisionError::count_) stop("an error that there is not");
    const bool decided = decision.error == proto::DecisionError::none;
    const bool inside = decision.token >= 0 && decision.token < static_cast<std::int32_t>(vocab);
    if (decided != inside) stop("token " + std::to_string(decision.token));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::DecideInput input(data, size);
    Memory& memory = memory_for(input.vocab);
    const proto::Decision decision = decide(input, memory);
    check_sanity(decision, input.vocab);
    const std::string fault = difference(outcome_of(decision, memory.workspace.answer()),
                                         sampler::reference::decide(input.row, input.request),
                                         sampler::test::Logprobs::within_error);
    if (!fault.empty()) stop(fault + "; path " + name_of(memory.workspace.answer().path));
    return 0;
}
