#include "measurement/read_once.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measurement/read_once.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace croupier::measurement::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t ReadOnce(const std::uint64_t* HWY_RESTRICT words, std::size_t count) {
    const hn::ScalableTag<std::uint64_t> d;
    const std::size_t lanes = hn::Lanes(d);
    auto a = hn::Zero(d);
    auto b = hn::Zero(d);
    auto c = hn::Zero(d);
    auto e = hn::Zero(d);
    std::size_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
        a = hn::Or(a, hn::LoadU(d, words + i));
        b = hn::Or(b, hn::LoadU(d, words + i + lanes));
        c = hn::Or(c, hn::LoadU(d, words + i + 2 * lanes));
        e = hn::Or(e, hn::LoadU(d, words + i + 3 * lanes));
    }
    std::uint64_t rest = 0;
    for (; i < count; ++i) rest |= words[i];
    return rest | hn::GetLane(hn::SumOfLanes(d, hn::Or(hn::Or(a, b), hn::Or(c, e))));
}

}  // namespace croupier::measurement::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::measurement {

HWY_EXPORT(ReadOnce);

std::uint64_t read_once(const void* bytes, std::size_t count) {
    return HWY_DYNAMIC_DISPATCH(ReadOnce)(static_cast<const std::uint64_t*>(bytes),
                                          count / sizeof(std::uint64_t));
}

}  // namespace croupier::measurement
#endif  // HWY_ONCE
