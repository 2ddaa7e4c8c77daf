#include "sampler/reference/propose.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <vector>

#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// One place of a block: a token, or padding.
struct Place {
    double raw = kNothing;
    double adjusted = kNothing;
    std::size_t token = 0;  // its index among those that are left
};

using Block = std::vector<Place>;

struct Proposal {
    Mass end;  // of the proposals' running mass
    Mass mass;
    Mass accepted;  // the part of it that is
    std::size_t token;
};

std::vector<Block> blocks_of(const Left& row, const Left& left) {
    std::uint32_t places = 0;
    for (const Token& token : row.tokens) places = std::max(places, token.place + 1);
    std::vector<Block> blocks((places + kProposalBlock - 1) / kProposalBlock, Block(kProposalBlock));
    const auto at = [&blocks](const Token& token) -> Place& {
        return blocks[token.place / kProposalBlock][token.place % kProposalBlock];
    };
    for (const Token& token : row.tokens) at(token).raw = token.value;
    for (std::size_t i = 0; i < left.tokens.size(); ++i) {
        at(left.tokens[i]).adjusted = left.tokens[i].value;
        at(left.tokens[i]).token = i;
    }
    return blocks;
}

double maximum_of(const Block& block) {
    double maximum = kNothing;
    for (const Place& place : block) maximum = std::max(maximum, place.raw);
    return maximum;
}

// Those whose maximum lies nearest the best one's, if they are few.
std::vector<bool> head_of(const std::vector<double>& maxima, const Weigher& raw) {
    for (const double reach : kHeadReaches) {
        const auto floor = static_cast<double>(head_floor(raw, reach));
        std::vector<bool> head;
        head.reserve(maxima.size());
        for (const double maximum : maxima) head.push_back(maximum >= floor);
        if (std::count(head.begin(), head.end(), true) <= std::ptrdiff_t{kMostHeadBlocks}) return head;
    }
    return std::vector<bool>(maxima.size(), false);
}

// The first so many of each slice's blocks.
std::vector<bool> hot_blocks_of(const RowView& view, std::span<const std::uint32_t> hot_blocks) {
    std::vector<bool> hot;
    for (std::size_t slice = 0; slice < view.slices.size(); ++slice) {
        const std::uint32_t blocks = (view.slices[slice].entries + kProposalBlock - 1) / kProposalBlock;
        for (std::uint32_t block = 0; block < blocks; ++block) hot.push_back(block < hot_blocks[slice]);
    }
    return hot;
}

class Proposals {
  public:
    explicit Proposals(const Weigher& weigh) : weigh_(weigh), bound_(weigh) {}

    // What an adjustment adds to a token.
    void add_lift(const Place& place) {
        if (place.adjusted <= place.raw) return;
        const Mass lift = weigh_.mass(place.adjusted) - weigh_.mass(place.raw);
        add(lift, lift, place.token);
    }
    // A token proposed as if its logit were `highest`.
    void add_token(const Place& place, double highest) {
        add(bound_.of(static_cast<float>(highest)), weigh_.mass(std::min(place.raw, place.adjusted)),
            place.token);
    }

    const Proposal& at(std::uint32_t random) const {
        const Mass target = draw_target(random, all_.back().end);
        return *std::partition_point(all_.begin(), all_.end(),
                                     [target](const Proposal& each) { return each.end <= target; });
    }

  private:
    void add(Mass mass, Mass accepted, std::size_t token) {
        all_.push_back({(all_.empty() ? 0 : all_.back().end) + mass, mass, accepted, token});
    }

    Weigher weigh_;
    MassBound bound_;
    std::vector<Proposal> all_;
};

// First all lifts, then the head's tokens, then the other blocks' places; each in vocabulary order.
Proposals proposals_of(const std::vector<Block>& blocks, std::vector<bool> head, double scale) {
    std::vector<double> maxima;
    maxima.reserve(blocks.size());
    for (const Block& block : blocks) maxima.push_back(maximum_of(block));
    double highest = kNothing;
    for (const double maximum : maxima) highest = std::max(highest, maximum);
    if (head.empty()) head = head_of(maxima, {highest, scale});
    head.resize(blocks.size());
    for (const Block& block : blocks) {
        for (const Place& place : block) highest = std::max(highest, place.adjusted);
    }

    Proposals proposals({highest, scale});
    for (const Block& block : blocks) {
        for (const Place& place : block) proposals.add_lift(place);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (!head[i]) continue;
        for (const Place& place : blocks[i]) proposals.add_token(place, place.raw);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (head[i]) continue;
        for (const Place& place : blocks[i]) proposals.add_token(place, maxima[i]);
    }
    return proposals;
}

}  // namespace

bool allows_few(const Request& request) {
    if (!request.allowed_ids.empty()) return true;
    if (request.mask.empty()) return false;
    std::uint32_t allowed = 0;
    for (const std::uint32_t word : request.mask) allowed += static_cast<std::uint32_t>(std::popcount(word));
    return allowed <= kFewAllowed;
}

ProposalRandoms randoms_of(const Request& request, std::uint32_t n) {
    const proto::SamplingParams& params = *request.params;
    return proposal_randoms(params.seed, random_position(request), params.child, n);
}

std::optional<Accepted> propose(const Request& request, const RowView& view, const Left& row,
                                const Left& left) {
    std::vector<bool> hot;
    if (!request.hot_blocks.empty()) hot = hot_blocks_of(view, request.hot_blocks);
    const Proposals proposals = proposals_of(blocks_of(row, left), hot, weigher_of(left).scale);
    for (std::uint32_t n = 0; n < kMostProposals; ++n) {
        const ProposalRandoms randoms = randoms_of(request, n);
        const Proposal& proposal = proposals.at(n == 0 ? request.random : randoms.choice);
        if (accepts(randoms.verdict, proposal.mass, proposal.accepted)) return Accepted{proposal.token, n};
    }
    return std::nullopt;
}

}  // namespace croupier::sampler::reference
