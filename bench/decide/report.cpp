#include "bench/decide/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "measurement/environment.h"

namespace croupier::bench {
namespace {

std::string shown_history(std::uint32_t tokens) {
    return tokens % 1024 == 0 ? fmt::format("{}k", tokens / 1024) : std::to_string(tokens);
}

// The case's name and the settings that differ between results.
class Labels {
  public:
    explicit Labels(const std::vector<Measured>& all) {
        std::set<std::uint32_t> histories;
        std::set<proto::Dtype> dtypes;
        std::set<std::string> ranks;
        std::set<std::pair<std::string, double>> temperatures;
        std::set<std::string> names;
        for (const Measured& each : all) {
            histories.insert(each.history);
            dtypes.insert(each.dtype);
            ranks.insert(each.ranks);
            temperatures.insert({each.name, each.temperature});
            names.insert(each.name);
        }
        tempered_ = temperatures.size() > names.size();
        remembered_ = histories.size() > 1;
        typed_ = dtypes.size() > 1;
        sliced_ = ranks.size() > 1;
    }

    std::string of(const Measured& each) const {
        std::string text = each.name;
        if (tempered_ && each.temperature > 0.0) text += fmt::format(" T={}", each.temperature);
        if (remembered_) text += " history=" + shown_history(each.history);
        if (typed_) text += fmt::format(" {}", proto::name_of(each.dtype));
        if (sliced_) text += " ranks=" + each.ranks;
        return text;
    }

  private:
    bool tempered_ = false;
    bool remembered_ = false;
    bool typed_ = false;
    bool sliced_ = false;
};

std::string shown_tries(const CaseTimes& times) {
    if (times.lean_decisions == 0) return "";
    const auto each = [&](std::uint64_t all) {
        return static_cast<double>(all) / static_cast<double>(times.lean_decisions);
    };
    return fmt::format("; {:.2f} tries, {:.1f} blocks sent, {:.1f} requested", each(times.lean_tries),
                       each(times.blocks_sent), each(times.blocks_asked));
}

std::string shown_paths(const CaseTimes& times) {
    std::uint64_t all = 0;
    for (const auto& [path, count] : times.paths) all += count;
    if (times.paths.size() == 1) return times.paths.begin()->first;
    std::string text;
    for (const auto& [path, count] : times.paths)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", path, count);
    return text + fmt::format(" of {}", all);
}

nlohmann::json to_json(const measurement::Percentiles& times, double read_us) {
    return {{"p50_us", times.p50},
            {"p99_us", times.p99},
            {"ratio", times.p50 / read_us},
            {"p99_ratio", times.p99 / read_us}};
}

std::set<std::string> reads_of(const std::vector<Measured>& all) {
    std::set<std::string> reads;
    for (const Measured& each : all) {
        reads.insert(fmt::format("a plain read of a {} row, ranks {}: {:.2f} us", proto::name_of(each.dtype),
                                 each.ranks, each.read_us));
    }
    return reads;
}

}  // namespace

// Times of a decision.
nlohmann::json lean_of(const CaseTimes& times) {
    const auto each = [&](std::uint64_t all) {
        return static_cast<double>(all) / static_cast<double>(times.lean_decisions);
    };
    return {{"tries", each(times.lean_tries)},
            {"blocks_sent", each(times.blocks_sent)},
            {"blocks_asked", each(times.blocks_asked)}};
}

void print_json(const DecideReport& report) {
    const Labels labels(report.all);
    nlohmann::json cases;
    for (const Measured& each : report.all) {
        nlohmann::json& made = cases[labels.of(each)];
        made = to_json(each.times.plain, each.read_us);
        made["summaries"] = to_json(each.times.summarised, each.read_us);
        made["paths"] = each.times.paths;
        if (each.times.lean_decisions > 0) made["lean"] = lean_of(each.times);
        made["case"] = each.name;
        made["what"] = each.what;
        made["temperature"] = each.temperature;
        made["history"] = each.history;
        made["dtype"] = proto::name_of(each.dtype);
        made["ranks"] = each.ranks;
        made["read_once_us"] = each.read_us;
    }
    std::cout << nlohmann::json{{"read_once_us", report.all.front().read_us},
                                {"cases", cases},
                                {"vocab", report.vocab},
                                {"rows", report.rows},
                                {"history", report.all.front().history},
                                {"rounds", report.rounds},
                                {"environment", measurement::environment()}}
              << "\n";
}

void print_table(const DecideReport& report) {
    const Labels labels(report.all);
    std::size_t width = 12;
    for (const Measured& each : report.all) width = std::max(width, labels.of(each).size());
    for (const std::string& read : reads_of(report.all)) std::cout << read << "\n";
    std::cout << fmt::format("\n{:<{}} {:>9} {:>7} {:>9} {:>7}   {:>9} {:>7} {:>9} {:>7}   {}\n", "", width,
                             "p50 us", "x read", "p99 us", "x read", "with sum.", "x read", "p99 us",
                             "x read", "path");
    for (const Measured& each : report.all) {
        const auto columns = [&each](const measurement::Percentiles& times) {
            return fmt::format("{:>9.2f} {:>7.2f} {:>9.2f} {:>7.2f}", times.p50, times.p50 / each.read_us,
                               times.p99, times.p99 / each.read_us);
        };
        std::cout << fmt::format("{:<{}} {}   {}   {}\n", labels.of(each), width, columns(each.times.plain),
                                 columns(each.times.summarised),
                                 shown_paths(each.times) + shown_tries(each.times));
    }
}

void print_markdown(const DecideReport& report) {
    const Labels labels(report.all);
    for (const std::string& read : reads_of(report.all)) std::cout << read << "\n";
    std::cout
        << "\n| case | p50 us | x read | p99 us | x read | with summaries, p50 us | x read | p99 us | x read "
           "| path |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: | --- |\n";
    for (const Measured& each : report.all) {
        const auto columns = [&each](const measurement::Percentiles& times) {
            return fmt::format("{:.1f} | {:.2f} | {:.1f} | {:.2f}", times.p50, times.p50 / each.read_us,
                               times.p99, times.p99 / each.read_us);
        };
        std::cout << fmt::format("| {} | {} | {} | {} |\n", labels.of(each), columns(each.times.plain),
                                 columns(each.times.summarised), shown_paths(each.times));
    }
}

}  // namespace croupier::bench
