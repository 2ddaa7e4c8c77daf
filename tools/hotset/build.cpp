#include "tools/hotset/build.h"

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <iostream>
#include <numeric>

#include "explain/fields.h"
#include "hot_sets/coverage.h"
#include "hot_sets/ranking.h"
#include "shm/hotness_file.h"

namespace croupier::tools {
namespace {

constexpr double kMostWeight = 1e9;

struct CountedTrace {
    std::string path;
    double weight;
    double tokens;
};

struct Built {
    proto::HotnessOrder order;
    std::vector<CountedTrace> traces;
};

// Checked before reading the traces, which may take long.
void check_options(const BuildOptions& options) {
    if (options.model.vocab == 0 || options.model.vocab > proto::kMaxVocab) {
        throw explain::RequestError("--vocab is " + std::to_string(options.model.vocab) + "; allowed: 1 to " +
                                    std::to_string(proto::kMaxVocab));
    }
    if (const auto fault = proto::model_name_fault(options.model.name))
        throw explain::RequestError("--" + *fault);
    if (const auto fault = proto::smoothing_fault(options.smoothing))
        throw explain::RequestError("--" + *fault);
    if (!options.weights.empty() && options.weights.size() != options.traces.size()) {
        throw explain::RequestError("--weight was given " + std::to_string(options.weights.size()) +
                                    " times for " + std::to_string(options.traces.size()) +
                                    " traces; give one for each trace, in their order, or none");
    }
    const auto folder = std::filesystem::absolute(options.output).parent_path();
    if (!std::filesystem::is_directory(folder)) {
        throw explain::RequestError("--output: no such folder: '" + folder.string() + "'");
    }
    for (const double weight : options.weights) {
        if (weight > 0.0 && weight <= kMostWeight) continue;
        throw explain::RequestError(
            fmt::format("--weight is {}; allowed: above 0, up to {}", weight, kMostWeight));
    }
}

Built count_all(const BuildOptions& options) {
    Built built;
    command_line::Progress progress("MB", 1'000'000);
    std::vector<double> count_of_id(options.model.vocab);
    for (std::size_t i = 0; i < options.traces.size(); ++i) {
        const double weight = options.weights.empty() ? 1.0 : options.weights[i];
        const std::vector<double> counted = count_trace(options.traces[i], options.model, progress);
        for (std::size_t id = 0; id < counted.size(); ++id) count_of_id[id] += weight * counted[id];
        built.traces.push_back(
            {options.traces[i], weight, std::accumulate(counted.begin(), counted.end(), 0.0)});
    }
    built.order = hot_sets::rank_by_count(options.model.name, options.smoothing, count_of_id);
    return built;
}

void print_json(const BuildOptions& options, const Built& built) {
    nlohmann::ordered_json report = {{"file", options.output}};
    report.update(hot_sets::facts_json(built.order));
    for (const CountedTrace& trace : built.traces) {
        report["traces"].push_back(
            {{"file", trace.path}, {"weight", trace.weight}, {"tokens", trace.tokens}});
    }
    std::cout << report.dump(-1, ' ', false, explain::Json::error_handler_t::replace) << "\n";
}

void print_text(const BuildOptions& options, const Built& built) {
    for (const CountedTrace& trace : built.traces) {
        std::cout << fmt::format("{:>14.10g} tokens x {:<6g} {}\n", trace.tokens, trace.weight, trace.path);
    }
    const auto& order = built.order;
    std::cout << fmt::format("wrote {}: {} ids of '{}', {} of them counted\n", options.output,
                             order.ids.size(), order.model, hot_sets::ids_counted(order));
}

}  // namespace

void build_hotness(const BuildOptions& options) {
    check_options(options);
    const Built built = count_all(options);
    const auto saved = shm::save_hotness(options.output, built.order);
    if (!saved) throw explain::RequestError(saved.error().message);
    if (options.json) {
        print_json(options, built);
    } else {
        print_text(options, built);
    }
}

}  // namespace croupier::tools
