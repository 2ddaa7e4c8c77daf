#include "sampler/value_counts.h"

#include <cstddef>
#include <span>
#include <utility>

#include "sampler/params.h"

namespace croupier::sampler {
namespace {

using proto::Step;

constexpr std::uint32_t kSign = 0x8000U;

// -0 is the same value as +0.
std::uint32_t code_of(std::uint16_t element) {
    return element == kSign ? 0U : element;
}

const std::uint16_t* elements_of(const BlockRun& run, std::uint32_t block) {
    return reinterpret_cast<const std::uint16_t*>(run.elements + block * run.stride);
}

}  // namespace

bool ValueCounts::apply_to(const BlockedRow& row, const proto::SamplingParams& params,
                           const VocabularyOrder& order) {
    if (row.dtype == proto::Dtype::fp32 || !order.is_identity()) return false;
    if (has_mirostat(params) || has_adaptive_p(params)) return false;
    constexpr Step kOthers[] = {Step::penalties, Step::dry,       Step::top_n_sigma, Step::min_p,
                                Step::top_k,     Step::typical_p, Step::xtc};
    for (const Step step : kOthers) {
        if (takes_step(params, step)) return false;
    }
    return true;
}

void ValueCounts::count() {
    const std::span<std::uint32_t> counts = workspace_.value_counts;
    for (const BlockRun& run : row_.runs) {
        for (std::uint32_t block = 0; block < run.blocks; ++block) {
            const std::uint16_t* elements = elements_of(run, block);
            for (std::uint32_t i = 0; i < kBlock; ++i) ++counts[elements[i]];
        }
    }
}

// In canonical order; a class's begin is its code. The counts are all zero again afterwards.
std::uint32_t ValueCounts::make_classes() {
    const std::span<std::uint32_t> counts = workspace_.value_counts;
    const std::uint32_t nothing = negative_infinity_code(row_.dtype);
    counts[0] += std::exchange(counts[kSign], 0);
    std::uint32_t classes = 0;
    const auto add = [&](std::uint32_t code) {
        const std::uint32_t count = std::exchange(counts[code], 0);
        if (count == 0 || code >= nothing || classes == workspace_.vocab) return;
        const auto value = static_cast<double>(value_of_code(row_.dtype, code));
        workspace_.classes[classes++] = {value, 0.0, 0, code, count};
    };
    for (std::uint32_t code = kSign; code-- > 0;) add(code);
    for (std::uint32_t code = kSign; code < 2 * kSign; ++code) add(code);
    return classes;
}

std::optional<Candidate> ValueCounts::draw(Chain& chain, std::uint32_t random) {
    count();
    const std::uint32_t classes = make_classes();
    if (classes == 0) return std::nullopt;
    Survivors survivors = Survivors::of_classes(workspace_, classes);
    if (!chain.apply(survivors, {true, true, true, false}, {})) return std::nullopt;
    const Survivors::Place drawn = survivors.place_past(draw_target(random, survivors.total()));
    return find(*drawn.of, drawn.index);
}

// The token that has `index` of its value before it.
std::optional<Candidate> ValueCounts::find(const EqualClass& of, std::uint32_t index) const {
    for (const BlockRun& run : row_.runs) {
        for (std::uint32_t block = 0; block < run.blocks; ++block) {
            const std::uint16_t* elements = elements_of(run, block);
            std::uint32_t here = 0;
            for (std::uint32_t i = 0; i < kBlock; ++i) here += code_of(elements[i]) == of.begin ? 1U : 0U;
            if (index >= here) {
                index -= here;
                continue;
            }
            std::uint32_t i = 0;
            while (i + 1 < kBlock && (code_of(elements[i]) != of.begin || index-- > 0)) ++i;
            const std::uint32_t position = run.first_position + block * kBlock + i;
            if (position >= workspace_.vocab) return std::nullopt;
            return Candidate{of.value, position, position};
        }
    }
    return std::nullopt;
}

}  // namespace croupier::sampler
