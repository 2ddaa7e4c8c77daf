#include "lean_parts.h"

#include <array>

#include "sampler/plan.h"
#include "sampler/row_mass.h"

namespace croupier::sampler::test {
namespace {

template <typename T, std::size_t N>
T one_of(const std::array<T, N>& choices, std::mt19937_64& generator) {
    return choices[generator() % N];
}

double scale_of(const RandomCase& of) {
    const auto vocab = static_cast<std::uint32_t>(of.logits.size());
    return plan_of(of.params, of.request, vocab).cut.scale;
}

}  // namespace

SentParts random_parts(const RandomCase& of, std::mt19937_64& generator) {
    SentParts parts;
    const auto kind = generator() % 8;
    if (kind >= 2 && kind < 5) parts.best = one_of(std::array{1U, 4U, 32U}, generator);
    if (kind == 4 || kind == 5) parts.random = static_cast<std::uint32_t>(generator() % 6);
    parts.all = kind == 6;
    if (generator() % 2 == 0) parts.ids = named_ids(of.request);
    // As a writer sends them that has read another request's.
    if (generator() % 8 == 0) parts.ids.assign(3, 0);
    if (generator() % 3 == 0) parts.listed = one_of(std::array{1U, 20U, 300U}, generator);
    parts.sums = generator() % 2 == 0;
    parts.scale = generator() % 4 == 0 ? 0.75 : scale_of(of);
    parts.spread = generator() % 2 == 0;
    parts.block_weights = generator() % 2 == 0;
    // Whatever it asks for: it is the decision that knows what may be drawn so.
    if (generator() % 2 == 0) parts.drawn_by = drawn_by(of.request);
    parts.racers = one_of(std::array{0U, 1U, 3U, proto::kMostRacers}, generator);
    parts.summed_before = static_cast<std::uint32_t>(generator() % 5);
    const double most = (of.params.flags & proto::kNoLogprob) != 0 ? 0.99 : 0.7;
    parts.error = one_of(std::array{0.0, most, -most}, generator) * kSentWeightError;
    if (!of.request.mask.empty() && generator() % 4 != 0) {
        parts.mask = of.request.mask;
        parts.masks_every_second = generator() % 4 == 0;
    }
    return parts;
}

}  // namespace croupier::sampler::test
