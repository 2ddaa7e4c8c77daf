#include "sampler/survivors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sampler/canonical_order.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// No token below it can pass min_p. Its slack exceeds the rounding of log and of the weights by far; what
// lies above it is judged by its weight, so that no bit of log reaches a decision.
double min_p_floor(double min_p, const Weigher& weigh) {
    if (min_p <= 0.0) return kNothing;
    const double reach = std::log(min_p) / weigh.scale;
    const double slack = 1e-9 * (1.0 + std::abs(weigh.maximum) + std::abs(reach));
    return weigh.maximum + reach - slack;
}

class SurvivorScan {
  public:
    SurvivorScan(double min_p, std::uint32_t top_k, const Weigher& weigh, Workspace& workspace)
        : min_p_(min_p),
          top_k_(top_k),
          weigh_(weigh),
          candidates_(workspace.candidates),
          floor_(min_p_floor(min_p, weigh)),
          // Twice k, so that a cut is paid for by k insertions; small k would cut too often.
          room_(std::min<std::uint64_t>(candidates_.size(), std::max(std::uint64_t{top_k} * 2, kLeastRoom))) {
    }

    bool may_pass(double value) const { return value >= floor_ && value > kNothing; }

    void offer(const Candidate& candidate) {
        if (min_p_ > 0.0 && weigh_(candidate.value) < min_p_) return;
        candidates_[count_++] = candidate;
        if (top_k_ > 0 && count_ == room_) cut();
    }

    std::uint32_t finish() {
        if (top_k_ > 0) cut();
        return count_;
    }

  private:
    static constexpr std::uint64_t kLeastRoom = 256;

    // Ties with the worst that is kept may still win by their id: the floor does not exclude them.
    void cut() {
        if (count_ <= top_k_) return;
        const auto kept = candidates_.begin() + (top_k_ - 1);
        std::nth_element(candidates_.begin(), kept, candidates_.begin() + count_, canonically_before);
        floor_ = std::max(floor_, kept->value);
        count_ = top_k_;
    }

    double min_p_;
    std::uint32_t top_k_;
    const Weigher& weigh_;
    std::span<Candidate> candidates_;
    double floor_;
    std::uint64_t room_;
    std::uint32_t count_ = 0;
};

bool scan_block(std::uint32_t block, const VocabularyOrder& order, const Workspace& workspace,
                SurvivorScan& scan) {
    for (std::uint32_t position = block * kBlock; position < (block + 1) * kBlock; ++position) {
        const double value = workspace.adjusted[position];
        if (!scan.may_pass(value)) continue;
        const auto token = order.token_at(position);
        if (!token) return false;
        scan.offer({value, *token, position});
    }
    return true;
}

// The first of 0 .. size for which `holds`, which stays true once it is: mass grows with the member.
template <typename Predicate>
std::uint32_t first_member(std::uint32_t size, Predicate holds) {
    std::uint32_t low = 0;
    std::uint32_t high = size;
    while (low < high) {
        const std::uint32_t middle = low + (high - low) / 2;
        if (holds(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

double mass_after(double before, std::uint32_t members, double weight) {
    return before + static_cast<double>(members) * weight;
}

}  // namespace

std::optional<std::uint32_t> keep_min_p_and_top_k(double min_p, std::int32_t top_k, const Weigher& weigh,
                                                  const VocabularyOrder& order, Workspace& workspace) {
    SurvivorScan scan(min_p, static_cast<std::uint32_t>(std::max(top_k, 0)), weigh, workspace);
    for (std::uint32_t block = 0; block < workspace.blocks; ++block) {
        if (!scan.may_pass(workspace.block_max[block])) continue;
        if (!scan_block(block, order, workspace, scan)) return std::nullopt;
    }
    return scan.finish();
}

Classes make_classes(std::uint32_t candidates, const Weigher& weigh, Workspace& workspace) {
    sort_canonically(workspace, candidates);
    Classes classes;
    for (std::uint32_t begin = 0; begin < candidates;) {
        const double value = workspace.candidates[begin].value;
        std::uint32_t end = begin + 1;
        while (end < candidates && workspace.candidates[end].value == value) ++end;
        const EqualClass equal = {weigh(value), begin, end - begin};
        workspace.classes[classes.count++] = equal;
        classes.mass = mass_after(classes.mass, equal.size, equal.weight);
        begin = end;
    }
    return classes;
}

Classes keep_top_p(const Classes& classes, double top_p, Workspace& workspace) {
    const double limit = top_p * classes.mass;
    Classes kept;
    while (kept.count < classes.count && kept.mass < limit) {
        EqualClass& equal = workspace.classes[kept.count++];
        const double before = kept.mass;
        equal.size = first_member(equal.size, [&](std::uint32_t member) {
            return mass_after(before, member, equal.weight) >= limit;
        });
        kept.mass = mass_after(before, equal.size, equal.weight);
    }
    return kept;
}

const Candidate& draw_survivor(const Classes& classes, std::uint32_t random, const Workspace& workspace) {
    const double target = uniform_of(random) * classes.mass;
    double before = 0.0;
    for (const EqualClass& equal : workspace.classes.first(classes.count)) {
        const double after = mass_after(before, equal.size, equal.weight);
        if (after > target) {
            const std::uint32_t member = first_member(equal.size, [&](std::uint32_t index) {
                return mass_after(before, index + 1, equal.weight) > target;
            });
            return workspace.candidates[equal.begin + member];
        }
        before = after;
    }
    const EqualClass& last = workspace.classes[classes.count - 1];
    return workspace.candidates[last.begin + last.size - 1];
}

}  // namespace croupier::sampler
