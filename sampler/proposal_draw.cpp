#include "sampler/proposal_draw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "sampler/changed_tokens.h"
#include "sampler/mass_bounds.h"
#include "sampler/race_arrivals.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

static_assert(kBlock == kProposalBlock);

constexpr double kNothing = -std::numeric_limits<double>::infinity();

}  // namespace

bool allows_few(const Request& request) noexcept {
    if (!request.allowed_ids.empty()) return true;
    if (request.mask.empty()) return false;
    std::uint32_t allowed = 0;
    for (const std::uint32_t word : request.mask) allowed += static_cast<std::uint32_t>(std::popcount(word));
    return allowed <= kFewAllowed;
}

ProposalRandoms randoms_of(const proto::SamplingParams& params, const Request& request,
                           std::uint32_t n) noexcept {
    return proposal_randoms(params.seed, random_position(request), params.child, n);
}

void ProposalDraw::gather_lifts() {
    const std::size_t count = list_raised(adjust_, on_, row_, workspace_, workspace_.lifts).size();
    lifts_ = workspace_.lifts.first(count);
    std::sort(lifts_.begin(), lifts_.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

Mass ProposalDraw::lift_of(const Candidate& lifted) const {
    return weigher_.mass(lifted.value) - weigher_.mass(static_cast<double>(row_.value_at(lifted.token)));
}

// The blocks whose maximum lies nearest the best one's, if they are few.
void ProposalDraw::choose_head() {
    const std::span<const float> maxima = workspace_.block_max.first(row_.blocks);
    std::array<float, std::size(kHeadReaches)> floors;
    std::transform(std::begin(kHeadReaches), std::end(kHeadReaches), floors.begin(),
                   [this](double reach) { return head_floor(weigher_, reach); });
    std::array<std::uint32_t, floors.size()> counts;
    count_at_least_each(maxima, floors, counts);
    for (std::size_t i = 0; i < floors.size(); ++i) {
        if (counts[i] > kMostHeadBlocks) continue;
        head_ = workspace_.reached_blocks.first(list_reaching(maxima, floors[i], workspace_.reached_blocks));
        return;
    }
}

// The request's blocks, in its order. A set: what is named twice, or is no block of the row, is left out.
void ProposalDraw::take_hot_blocks(std::span<const std::uint32_t> hot_blocks) {
    std::uint32_t count = 0;
    const auto word_of = [this](std::uint32_t block) -> std::uint64_t& {
        return workspace_.listed[block / 64];
    };
    for (const std::uint32_t block : hot_blocks) {
        if (block >= row_.blocks) continue;
        const std::uint64_t bit = std::uint64_t{1} << (block % 64);
        if ((word_of(block) & bit) == 0) workspace_.reached_blocks[count++] = block;
        word_of(block) |= bit;
    }
    head_ = workspace_.reached_blocks.first(count);
    for (const std::uint32_t block : head_) word_of(block) = 0;
}

bool ProposalDraw::prepare(const Request& request, double scale) {
    const std::span<const float> maxima = workspace_.block_max.first(row_.blocks);
    weigher_ = {static_cast<double>(largest_of(maxima)), scale};
    if (weigher_.maximum == kNothing) return false;
    gather_lifts();
    if (request.hot_blocks.empty()) {
        choose_head();
    } else {
        take_hot_blocks(request.hot_blocks);
    }
    workspace_.answer_space.blocks_read += static_cast<std::uint32_t>(head_.size());
    for (const Candidate& each : lifts_) weigher_.maximum = std::max(weigher_.maximum, each.value);
    for (const Candidate& each : lifts_) lifted_ += lift_of(each);
    bound_ = MassBound(weigher_);
    in_tail_ = bound_each(maxima, bound_, workspace_.block_mass, workspace_.group_mass) * kBlock;
    for (std::size_t i = 0; i < head_.size(); ++i) {
        const std::uint32_t block = head_[i];
        const Mass mass = bound_block(row_, block, bound_);
        const Mass bound = std::exchange(workspace_.block_mass[block], 0);
        workspace_.group_mass[block / kBoundGroup] -= bound;
        workspace_.head_mass[i] = mass;
        in_head_ += mass;
        in_tail_ -= bound * kBlock;
    }
    total_ = lifted_ + in_head_ + in_tail_;
    return total_ > 0;
}

ProposalDraw::Proposal ProposalDraw::in_head(Mass target) const {
    std::size_t i = 0;
    while (target >= workspace_.head_mass[i]) target -= workspace_.head_mass[i++];
    const std::byte* const elements = row_.block(head_[i]);
    for (std::uint32_t entry = 0; entry < kBlock; ++entry) {
        const Mass mass = bound_.of(row_.value_in(elements, entry));
        if (target < mass) return {head_[i] * kBlock + entry, mass};
        target -= mass;
    }
    // Only a row that is written to meanwhile comes here: no token of it is taken.
    return {row_.vocab, 0};
}

ProposalDraw::Proposal ProposalDraw::in_tail(Mass target) const {
    // The row is written to meanwhile: a raised token had another value when total_ was added up.
    if (target >= in_tail_) return {row_.vocab, 0};
    std::uint32_t group = 0;
    while (target >= workspace_.group_mass[group] * kBlock) target -= workspace_.group_mass[group++] * kBlock;
    std::uint32_t block = group * kBoundGroup;
    while (target >= workspace_.block_mass[block] * kBlock) target -= workspace_.block_mass[block++] * kBlock;
    const Mass mass = workspace_.block_mass[block];
    return {block * kBlock + static_cast<std::uint32_t>(target / mass), mass};
}

std::optional<Candidate> ProposalDraw::judge(const Proposal& proposal, std::uint64_t verdict) const {
    if (proposal.token >= row_.vocab) return std::nullopt;
    const float raw = row_.value_at(proposal.token);
    const double adjusted = adjust_(proposal.token, raw, on_);
    const Mass own = weigher_.mass(std::min(static_cast<double>(raw), adjusted));
    if (!accepts(verdict, proposal.mass, own)) return std::nullopt;
    return Candidate{adjusted, proposal.token};
}

std::optional<Candidate> ProposalDraw::draw(const proto::SamplingParams& params, const Request& request,
                                            double scale) {
    if (!prepare(request, scale) || row_.lacks_blocks()) return std::nullopt;
    Answer& answer = workspace_.answer_space;
    answer.path = DecisionPath::proposals;
    // Where one's token is not there, those that may be made after it are asked for too.
    const std::uint32_t asked_before = row_.asked();
    for (std::uint32_t n = 0; n < kMostProposals && !row_.asked_enough(asked_before); ++n) {
        ++answer.candidates;
        ++answer.proposals;
        answer.region = Region::hot;
        const ProposalRandoms randoms = randoms_of(params, request, n);
        Mass target = draw_target(n == 0 ? request.random : randoms.choice, total_);
        for (const Candidate& each : lifts_) {
            const Mass lift = lift_of(each);
            if (target < lift) return each;
            target -= lift;
        }
        const bool hot = target < in_head_;
        const Proposal proposal = hot ? in_head(target) : in_tail(target - in_head_);
        answer.region = hot ? Region::hot : Region::tail;
        answer.blocks_read += hot ? 0 : 1;
        if (const auto drawn = judge(proposal, randoms.verdict)) return drawn;
    }
    answer.region = Region::none;
    return std::nullopt;
}

}  // namespace croupier::sampler
