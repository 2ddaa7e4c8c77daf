#include "sampler/history.h"

namespace croupier::sampler {

History::History(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output,
                 const VocabularyOrder& order, Workspace& workspace)
    : workspace_(workspace), valid_(count(prompt, 0, order) && count(output, 1, order)) {}

History::~History() {
    for (const std::uint32_t position : positions()) workspace_.counts[position] = 0;
}

bool History::count(std::span<const std::int32_t> tokens, std::uint32_t weight,
                    const VocabularyOrder& order) {
    for (const std::int32_t token : tokens) {
        const auto position = order.position_of(token);
        if (!position) return false;
        std::uint32_t& standing = workspace_.counts[*position];
        if (standing == 0) {
            workspace_.touched[distinct_++] = *position;
            standing = kSeen;
        }
        standing += weight;
    }
    return true;
}

}  // namespace croupier::sampler
