#include "instruction_sets.h"

#include <hwy/targets.h>

namespace croupier::sampler::test {
namespace {

constexpr std::int64_t kBest = 0;

void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<std::int64_t> instruction_sets() {
    return hwy::SupportedAndGeneratedTargets();
}

const char* name_of_instruction_set(std::int64_t target) {
    return hwy::TargetName(target);
}

InstructionSet::InstructionSet(std::int64_t target) {
    use(target);
}

InstructionSet::~InstructionSet() {
    use(kBest);
}

}  // namespace croupier::sampler::test
