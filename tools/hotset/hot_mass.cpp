#include "tools/hotset/hot_mass.h"

#include <algorithm>

#include "sampler/blocked_row.h"
#include "sampler/proposals.h"

namespace croupier::tools {
namespace {

using sampler::kProposalBlock;

struct BlockMass {
    double actual = 0.0;
    double bound_each = 0.0;     // sum of its tokens' bounds
    double bound_by_most = 0.0;  // 64 times the bound of its largest logit
};

std::vector<BlockMass> weigh(const measurement::BenchRows& rows, std::uint32_t row, double temperature) {
    const std::uint32_t blocks = rows.places() / kProposalBlock;
    const float* maxima = rows.maxima(row);
    const sampler::Weigher weigher = {*std::max_element(maxima, maxima + blocks), 1.0 / temperature};
    const sampler::MassBound bound(weigher);
    std::vector<BlockMass> masses(blocks);
    for (std::uint32_t i = 0; i < rows.places(); ++i) {
        const float value = sampler::value_of_code(proto::Dtype::bf16, rows.row(row)[i]);
        BlockMass& block = masses[i / kProposalBlock];
        block.actual += static_cast<double>(weigher.mass(value));
        block.bound_each += static_cast<double>(bound.of(value));
    }
    for (std::uint32_t i = 0; i < blocks; ++i) {
        masses[i].bound_by_most = kProposalBlock * static_cast<double>(bound.of(maxima[i]));
    }
    return masses;
}

}  // namespace

HotMass hot_mass_of(const measurement::BenchRows& rows, double temperature) {
    const std::uint32_t blocks = rows.places() / kProposalBlock;
    HotMass mean = {std::vector<double>(blocks + 1), std::vector<double>(blocks + 1)};
    for (std::uint32_t row = 0; row < rows.count(); ++row) {
        const std::vector<BlockMass> masses = weigh(rows, row, temperature);
        double all = 0.0;
        double proposed = 0.0;
        for (const BlockMass& each : masses) {
            all += each.actual;
            proposed += each.bound_by_most;
        }
        double covered = 0.0;
        for (std::uint32_t hot = 0; hot <= blocks; ++hot) {
            mean.alpha[hot] += covered / all / rows.count();
            mean.proposals[hot] += proposed / all / rows.count();
            if (hot == blocks) break;
            covered += masses[hot].actual;
            proposed += masses[hot].bound_each - masses[hot].bound_by_most;
        }
    }
    return mean;
}

}  // namespace croupier::tools
