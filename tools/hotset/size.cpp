#include "tools/hotset/size.h"

#include <algorithm>
#include <stdexcept>

#include "measurement/row_order.h"
#include "sampler/proposals.h"
#include "tools/hotset/hot_mass.h"

namespace croupier::tools {
namespace {

std::vector<std::uint32_t> grid_of(const SizeOptions& options) {
    auto sizes = options.sizes.empty() ? measurement::sizes_to_try(options.vocab)
                                       : measurement::whole_blocks(options.sizes, options.vocab);
    // Size 0 is always measured, but is not part of the model.
    sizes.erase(std::remove(sizes.begin(), sizes.end(), 0U), sizes.end());
    if (sizes.size() < 3) {
        throw std::runtime_error("--sizes names " + std::to_string(sizes.size()) +
                                 " different sizes in blocks of 64 ids; a fit needs 3 or more");
    }
    return sizes;
}

void check(const SizeOptions& options) {
    if (!(options.temperature > 0.0 && options.temperature <= 100.0)) {
        throw std::runtime_error("--temperature is " + std::to_string(options.temperature) +
                                 "; allowed: above 0, to 100");
    }
    if (options.rounds < 4) {
        throw std::runtime_error("--rounds is " + std::to_string(options.rounds) + "; allowed: 4 or more");
    }
}

void fit(SizeResults& results, const HotMass& mass) {
    for (const measurement::HotDraws& each : results.draws) {
        const std::size_t blocks = (each.hot + sampler::kProposalBlock - 1) / sampler::kProposalBlock;
        if (each.hot_path == 0) {
            throw std::runtime_error(
                "no draw with a hot set of " + std::to_string(each.hot) +
                " accepted its first proposal from it: use larger --sizes, or check --hot");
        }
        results.grid.push_back(
            {each.hot, mass.alpha[blocks], each.hot_path_us(), each.mean_us(), mass.proposals[blocks]});
    }
    results.hot_path = hot_sets::fit_hot_path(results.grid);
    results.proposal_us = hot_sets::fit_proposal_us(results.hot_path, results.grid);
    results.expected = hot_sets::proposals_cost(results.hot_path, results.proposal_us, results.grid);
    results.best = hot_sets::best_expected(results.expected, results.grid);
    results.paper_best = hot_sets::best_expected(
        hot_sets::paper_cost(results.hot_path, results.grid, results.options.vocab), results.grid);
    results.fastest = hot_sets::best_measured(results.grid);
}

}  // namespace

SizeResults measure_sizes(const SizeOptions& options) {
    check(options);
    std::vector<std::uint32_t> sizes = grid_of(options);
    sizes.insert(sizes.begin(), 0);
    command_line::Progress progress("rounds", 1);
    const measurement::BenchRows rows = measurement::BenchRows::from_file(options.rows, options.vocab)
                                            .in_order(measurement::read_order(options.hot, options.vocab));
    proto::SamplingParams params;
    params.temperature = options.temperature;
    params.rng = proto::Rng::shvs;
    params.flags = proto::kNoLogprob;
    progress.begin("drawing with " + std::to_string(sizes.size()) + " hot sets", options.rounds);
    SizeResults results;
    results.options = options;
    results.rows = rows.count();
    results.draws = measurement::measure_draws(rows, params, sizes, options.rounds, progress);
    results.own_choice = results.draws.front();
    results.draws.erase(results.draws.begin());
    fit(results, hot_mass_of(rows, options.temperature));
    return results;
}

}  // namespace croupier::tools
