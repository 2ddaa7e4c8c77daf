#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/instruction_set.cpp"
#include <hwy/foreach_target.h>
// Highway includes this file once for each instruction set.
#include <hwy/highway.h>

#include "sampler/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

std::size_t vector_bytes() {
    const hwy::HWY_NAMESPACE::ScalableTag<std::uint8_t> bytes;
    return hwy::HWY_NAMESPACE::Lanes(bytes);
}
const char* name() {
    return hwy::TargetName(HWY_TARGET);
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(vector_bytes);
HWY_EXPORT(name);

InstructionSet instruction_set() {
    return {HWY_DYNAMIC_DISPATCH(name)(), HWY_DYNAMIC_DISPATCH(vector_bytes)()};
}

}  // namespace croupier::sampler
#endif
