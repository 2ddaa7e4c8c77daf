#include "sampler/loops.h"

#include <algorithm>
#include <cstddef>

namespace croupier::sampler {
namespace {

// Whether the `count` tokens before `end` equal those one period before them. The last ones are compared
// first: where a text has left a loop, these differ.
bool repeats(const std::int32_t* end, std::size_t count, std::size_t period) noexcept {
    constexpr std::size_t kBlock = 64;
    while (count > 0) {
        const std::size_t block = std::min(count, kBlock);
        end -= block;
        if (!std::equal(end, end + block, end - period)) return false;
        count -= block;
    }
    return true;
}

}  // namespace

bool completes_loop(const proto::SamplingParams& params, std::span<const std::int32_t> output,
                    std::int32_t token) noexcept {
    const std::size_t count = params.loop_count;
    const std::size_t longest = std::min<std::size_t>(params.loop_max_period, (output.size() + 1) / count);
    const std::int32_t* const end = output.data() + output.size();
    for (std::size_t period = std::max<std::size_t>(params.loop_min_period, 1); period <= longest; ++period) {
        if (*(end - period) == token && repeats(end, period * (count - 1) - 1, period)) return true;
    }
    return false;
}

}  // namespace croupier::sampler
