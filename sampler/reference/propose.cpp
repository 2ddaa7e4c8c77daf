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
    const std::size_t ids = row.tokens.empty() ? 0 : static_cast<std::size_t>(row.tokens.back().id) + 1;
    std::vector<Block> blocks((ids + kProposalBlock - 1) / kProposalBlock, Block(kProposalBlock));
    const auto at = [&blocks](const Token& token) -> Place& {
        const auto id = static_cast<std::size_t>(token.id);
        return blocks[id / kProposalBlock][id % kProposalBlock];
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
std::vector<std::uint32_t> head_of(const std::vector<double>& maxima, const Weigher& raw) {
    for (const double reach : kHeadReaches) {
        const auto floor = static_cast<double>(head_floor(raw, reach));
        std::vector<std::uint32_t> head;
        for (std::uint32_t block = 0; block < maxima.size(); ++block) {
            if (maxima[block] >= floor) head.push_back(block);
        }
        if (head.size() <= kMostHeadBlocks) return head;
    }
    return {};
}

// The set that the request names, in its order.
std::vector<std::uint32_t> hot_blocks_of(const Request& request, std::size_t blocks) {
    std::vector<std::uint32_t> hot;
    for (const std::uint32_t block : request.hot_blocks) {
        const bool again = std::find(hot.begin(), hot.end(), block) != hot.end();
        if (block < blocks && !again) hot.push_back(block);
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

// First all lifts, then the head's tokens, then the other blocks' places.
Proposals proposals_of(const std::vector<Block>& blocks, const Request& request, double scale) {
    std::vector<double> maxima;
    maxima.reserve(blocks.size());
    for (const Block& block : blocks) maxima.push_back(maximum_of(block));
    double highest = kNothing;
    for (const double maximum : maxima) highest = std::max(highest, maximum);
    const std::vector<std::uint32_t> head = request.hot_blocks.empty()
                                                ? head_of(maxima, {highest, scale})
                                                : hot_blocks_of(request, blocks.size());
    for (const Block& block : blocks) {
        for (const Place& place : block) highest = std::max(highest, place.adjusted);
    }

    Proposals proposals({highest, scale});
    for (const Block& block : blocks) {
        for (const Place& place : block) proposals.add_lift(place);
    }
    for (const std::uint32_t block : head) {
        for (const Place& place : blocks[block]) proposals.add_token(place, place.raw);
    }
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
        if (std::find(head.begin(), head.end(), i) != head.end()) continue;
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

std::optional<Accepted> propose(const Request& request, const Left& row, const Left& left) {
    const Proposals proposals = proposals_of(blocks_of(row, left), request, weigher_of(left).scale);
    for (std::uint32_t n = 0; n < kMostProposals; ++n) {
        const ProposalRandoms randoms = randoms_of(request, n);
        const Proposal& proposal = proposals.at(n == 0 ? request.random : randoms.choice);
        if (accepts(randoms.verdict, proposal.mass, proposal.accepted)) return Accepted{proposal.token, n};
    }
    return std::nullopt;
}

}  // namespace croupier::sampler::reference
