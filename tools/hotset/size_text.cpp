#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "measurement/environment.h"
#include "tools/hotset/size.h"

namespace croupier::tools {
namespace {

std::string row_of(const measurement::HotDraws& draws, const std::string& expected) {
    return fmt::format("{:>8} {} {:>10.4f} {:>10.3f} {:>8.1f} {:>10.2f} {:>10.2f}",
                       draws.hot == 0 ? "per row" : std::to_string(draws.hot), expected,
                       draws.per_draw(draws.hot_path), draws.per_draw(draws.proposals),
                       draws.per_draw(draws.blocks_read), draws.hot_path_us(), draws.mean_us());
}

nlohmann::ordered_json measured_json(const measurement::HotDraws& draws) {
    return {{"hot", draws.hot},
            {"accepted_at_once", draws.per_draw(draws.hot_path)},
            {"proposals", draws.per_draw(draws.proposals)},
            {"blocks_read", draws.per_draw(draws.blocks_read)},
            {"hot_path_us", draws.hot_path_us()},
            {"mean_us", draws.mean_us()},
            {"tokens_per_s", 1e6 / draws.mean_us()}};
}

std::string conclusions(const SizeResults& results) {
    const hot_sets::SizedCost& best = results.grid[results.best.place];
    std::string text =
        fmt::format("hot path: {:.3f} us + {:.4f} ns x H, R2 {:.4f}; each further proposal: {:.4f} us\n",
                    results.hot_path.c0, results.hot_path.c * 1e3, results.hot_path.r2, results.proposal_us);
    text += fmt::format(
        "F(H) = c0 + c H + t (rho(H) - 1) has its minimum at H = {:.0f}; best measured size next to it: H* = "
        "{}\n",
        results.best.stationary, best.hot);
    text += fmt::format("H*: {:.0f} draws/s, {:.1f}% of the fastest size (H = {})\n", 1e6 / best.mean_us,
                        100.0 * results.throughput_of_best(), results.grid[results.fastest].hot);
    text += fmt::format("blocks chosen per row: {:.0f} draws/s, {:.2f} times that of H*\n",
                        1e6 / results.own_choice.mean_us(), best.mean_us / results.own_choice.mean_us());
    return text + fmt::format("equation 10 of the paper (scan of the whole tail): H = {}\n",
                              results.grid[results.paper_best.place].hot);
}

}  // namespace

std::string size_table(const SizeResults& results) {
    std::string text =
        fmt::format("{} rows of {} logits, temperature {:g}, {} draws per row and size\n\n", results.rows,
                    results.options.vocab, results.options.temperature, results.options.rounds);
    text += fmt::format("{:>8} {:>8} {:>9} {:>10} {:>10} {:>8} {:>10} {:>10} {:>10}\n", "H", "alpha", "rho",
                        "at once", "proposals", "blocks", "hot us", "mean us", "F(H) us");
    for (std::size_t i = 0; i < results.grid.size(); ++i) {
        const hot_sets::SizedCost& each = results.grid[i];
        const std::string expected = fmt::format("{:>8.4f} {:>9.3f}", each.alpha, each.proposals);
        text +=
            row_of(results.draws[i], expected) + fmt::format(" {:>10.2f}\n", results.expected.us(each.hot));
    }
    text += row_of(results.own_choice, fmt::format("{:>8} {:>9}", "", "")) + "\n\n";
    return text + conclusions(results);
}

std::string size_json(const SizeResults& results) {
    nlohmann::ordered_json grid = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < results.grid.size(); ++i) {
        nlohmann::ordered_json each = measured_json(results.draws[i]);
        each["alpha"] = results.grid[i].alpha;
        each["rho"] = results.grid[i].proposals;
        each["expected_us"] = results.expected.us(results.grid[i].hot);
        each["hot_path_residual_us"] = results.grid[i].hot_path_us - results.hot_path.us(results.grid[i].hot);
        grid.push_back(each);
    }
    const nlohmann::ordered_json all = {
        {"vocab", results.options.vocab},
        {"rows", results.rows},
        {"rounds", results.options.rounds},
        {"temperature", results.options.temperature},
        {"grid", grid},
        {"own_choice", measured_json(results.own_choice)},
        {"hot_path",
         {{"c_us", results.hot_path.c}, {"c0_us", results.hot_path.c0}, {"r2", results.hot_path.r2}}},
        {"proposal_us", results.proposal_us},
        {"stationary", results.best.stationary},
        {"best_expected", results.grid[results.best.place].hot},
        {"best_measured", results.grid[results.fastest].hot},
        {"throughput_of_expected", results.throughput_of_best()},
        {"own_choice_over_expected", results.grid[results.best.place].mean_us / results.own_choice.mean_us()},
        {"paper",
         {{"stationary", results.paper_best.stationary},
          {"best_expected", results.grid[results.paper_best.place].hot}}},
        {"environment", measurement::environment()}};
    return all.dump() + "\n";
}

}  // namespace croupier::tools
