#include "strange_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "row_fixture.h"
#include "sampler/workspace.h"

namespace croupier::sampler::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> row_of_kind(std::uint32_t kind, std::uint32_t vocab, std::mt19937_64& generator) {
    std::vector<float> logits(vocab, 1.0F);
    const auto any = [&] { return static_cast<std::uint32_t>(generator() % vocab); };
    switch (kind) {
        case 0:  // all equal
            break;
        case 1:  // two values
            for (float& logit : logits) logit = generator() % 2 == 0 ? 1.0F : 0.5F;
            break;
        case 2:  // the best in the last block
            logits.back() = 9.0F;
            break;
        case 3:  // -inf but for a few
            std::fill(logits.begin(), logits.end(), -kInfinity);
            for (int i = 0; i < 5; ++i) logits[any()] = static_cast<float>(i);
            break;
        case 4:  // -inf from somewhere on
            std::fill(logits.begin() + any(), logits.end(), -kInfinity);
            break;
        case 5:  // nothing at all
            std::fill(logits.begin(), logits.end(), -kInfinity);
            break;
        case 6:
            logits[any()] = std::numeric_limits<float>::quiet_NaN();
            break;
        case 7:
            logits[any()] = kInfinity;
            break;
        case 8:  // zeros of either sign
            for (float& logit : logits) logit = generator() % 2 == 0 ? 0.0F : -0.0F;
            break;
        case 9:  // each block has one that counts, wherever its race begins
            std::fill(logits.begin(), logits.end(), -kInfinity);
            for (std::uint32_t i = 0; i < vocab; i += kBlock) {
                logits[std::min<std::uint32_t>(vocab - 1, i + any() % kBlock)] = 2.0F;
            }
            break;
        default:  // a slope: each block a little better than the one before
            for (std::uint32_t i = 0; i < vocab; ++i) {
                const std::uint32_t block = i / kBlock;
                logits[i] = static_cast<float>(block) * 0.0625F;
            }
    }
    return logits;
}

}  // namespace

std::vector<float> strange_row(std::uint32_t kind, std::uint32_t vocab, proto::Dtype dtype,
                               std::mt19937_64& generator) {
    std::vector<float> logits = row_of_kind(kind, vocab, generator);
    for (float& logit : logits) logit = std::isfinite(logit) ? quantised(logit, dtype) : logit;
    return logits;
}

}  // namespace croupier::sampler::test
