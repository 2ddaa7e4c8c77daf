#include "bench/cliffs/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "measurement/environment.h"

namespace croupier::bench {
namespace {

std::string kind_of(const DrawnRequest& drawn) {
    std::string kind;
    for (const std::string& each : drawn.controls) kind += (kind.empty() ? "" : " + ") + each;
    return kind.empty() ? "none" : kind;
}

std::string shown_paths(const RequestCost& cost) {
    std::string text;
    for (const auto& [path, count] : cost.paths) text += (text.empty() ? "" : ", ") + path;
    return text;
}

std::string reproduction(const CliffsReport& report, const DrawnRequest& drawn) {
    return fmt::format("{} --seed {} --only {}", report.reproduced, report.seed, drawn.number);
}

// Requests that have something in common.
struct Group {
    std::string name;
    std::function<bool(const DrawnRequest&)> has;
};

std::vector<Group> groups_of_controls() {
    std::vector<Group> groups;
    for (const std::string& name : control_names()) {
        groups.push_back({name, [name](const DrawnRequest& drawn) {
                              const auto& own = drawn.controls;
                              return std::find(own.begin(), own.end(), name) != own.end();
                          }});
    }
    return groups;
}

std::vector<Group> all_groups() {
    std::vector<Group> groups = groups_of_controls();
    for (const proto::Dtype dtype : {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}) {
        groups.push_back(
            {proto::name_of(dtype), [dtype](const DrawnRequest& drawn) { return drawn.dtype == dtype; }});
    }
    groups.push_back({"no control", [](const DrawnRequest& drawn) { return drawn.controls.empty(); }});
    groups.push_back({"one control", [](const DrawnRequest& drawn) { return drawn.controls.size() == 1; }});
    groups.push_back(
        {"greedy", [](const DrawnRequest& drawn) { return drawn.request.params.temperature == 0.0; }});
    groups.push_back(
        {"T above 1.2", [](const DrawnRequest& drawn) { return drawn.request.params.temperature > 1.2; }});
    groups.push_back(
        {"history of 10,000 or more", [](const DrawnRequest& drawn) { return drawn.history >= 10'000; }});
    groups.push_back({"history that repeats", [](const DrawnRequest& drawn) { return drawn.repeats; }});
    return groups;
}

// In medians of all requests.
struct GroupCosts {
    std::string name;
    std::vector<double> medians;  // dearest first
    std::uint32_t too_dear = 0;

    double median() const { return medians[medians.size() / 2]; }
};

std::vector<GroupCosts> group_costs(const CliffsReport& report) {
    const double median = report.median_us();
    std::vector<GroupCosts> costs;
    for (const Group& group : all_groups()) {
        GroupCosts made{group.name, {}, 0};
        for (const MeasuredRequest& each : report.all) {
            if (!group.has(each.drawn)) continue;
            made.medians.push_back(each.cost.us / median);
            if (made.medians.back() > report.most_medians) ++made.too_dear;
        }
        if (!made.medians.empty()) costs.push_back(std::move(made));
    }
    return costs;
}

std::string lean_columns(const std::optional<LeanCost>& lean) {
    if (!lean) return "";
    // A session does not tell what its writer sent.
    const bool told = lean->bytes > 0.0;
    return fmt::format("{:>6.1f} {:>6.2f} {:>6} {:>6} {:>6} ", lean->tries, lean->whole,
                       told ? fmt::format("{:.0f}", lean->blocks_sent) : "-",
                       told ? fmt::format("{:.0f}", lean->blocks_asked) : "-",
                       told ? fmt::format("{:.0f}", lean->bytes * 1e-3) : "-");
}

void print_dearest(const CliffsReport& report, std::uint32_t shown) {
    const bool lean = report.all.front().cost.lean.has_value();
    std::cout << fmt::format(
        "{:>8} {:>9} {:>7} {}{:>7}  {}\n", "medians", "us", "reads",
        lean ? fmt::format("{:>6} {:>6} {:>6} {:>6} {:>6} ", "tries", "whole", "sent", "asked", "KB") : "",
        "number", "controls; path; request");
    for (std::size_t i = 0; i < std::min<std::size_t>(shown, report.all.size()); ++i) {
        const auto& [drawn, cost] = report.all[i];
        std::cout << fmt::format("{:>8.1f} {:>9.1f} {:>7.1f} {}{:>7}  {}; {}; {}\n",
                                 cost.us / report.median_us(), cost.us, cost.reads, lean_columns(cost.lean),
                                 drawn.number, kind_of(drawn), shown_paths(cost), describe(drawn));
    }
}

void print_groups(const CliffsReport& report) {
    std::cout << fmt::format("\n{:<26} {:>8} {:>8} {:>8} {:>8}\n", "requests with", "number", "median",
                             "dearest", "too dear");
    for (const GroupCosts& each : group_costs(report)) {
        std::cout << fmt::format("{:<26} {:>8} {:>8.2f} {:>8.1f} {:>8}\n", each.name, each.medians.size(),
                                 each.median(), each.medians.front(), each.too_dear);
    }
}

void print_verdict(const CliffsReport& report) {
    std::uint64_t verified = 0;
    std::uint64_t differing = 0;
    for (const auto& [drawn, cost] : report.all) {
        verified += cost.verified;
        if (cost.difference.empty()) continue;
        if (differing++ == 0)
            std::cout << fmt::format("\nrun failed: {}, {}\n  {}\n", drawn.request.name, cost.difference,
                                     reproduction(report, drawn));
    }
    const auto& [dearest, cost] = report.all.front();
    std::cout << fmt::format(
        "\n{} decisions verified; {} requests differ from the reference\n"
        "the dearest request costs {:.1f} medians; allowed: {}\n  {}\n",
        verified, differing, cost.us / report.median_us(), report.most_medians,
        reproduction(report, dearest));
}

nlohmann::json to_json(const CliffsReport& report, const MeasuredRequest& of) {
    const auto& [drawn, cost] = of;
    nlohmann::json made{{"number", drawn.number},
                        {"controls", drawn.controls},
                        {"request", describe(drawn)},
                        {"dtype", proto::name_of(drawn.dtype)},
                        {"temperature", drawn.request.params.temperature},
                        {"history", drawn.history},
                        {"us", cost.us},
                        {"medians", cost.us / report.median_us()},
                        {"decision_us", cost.decision_us},
                        {"reads", cost.reads},
                        {"paths", cost.paths},
                        {"verified", cost.verified}};
    if (!cost.difference.empty()) made["difference"] = cost.difference;
    if (cost.lean) {
        made["lean"] = {{"bytes", cost.lean->bytes},
                        {"blocks_sent", cost.lean->blocks_sent},
                        {"blocks_asked", cost.lean->blocks_asked},
                        {"tries", cost.lean->tries},
                        {"whole", cost.lean->whole}};
    }
    return made;
}

}  // namespace

double CliffsReport::median_us() const {
    return all[all.size() / 2].cost.us;
}

bool CliffsReport::differs() const {
    return std::any_of(all.begin(), all.end(),
                       [](const MeasuredRequest& each) { return !each.cost.difference.empty(); });
}

void print_cliffs(const CliffsReport& report, std::uint32_t shown) {
    std::cout << fmt::format("{} random requests, seed {}: {}\nmedian: {:.1f} us\n\n", report.all.size(),
                             report.seed, report.how, report.median_us());
    print_dearest(report, shown);
    print_groups(report);
    print_verdict(report);
}

void print_cliffs_json(const CliffsReport& report) {
    nlohmann::json requests = nlohmann::json::array();
    for (const MeasuredRequest& each : report.all) requests.push_back(to_json(report, each));
    nlohmann::json groups = nlohmann::json::array();
    for (const GroupCosts& each : group_costs(report)) {
        groups.push_back({{"requests_with", each.name},
                          {"number", each.medians.size()},
                          {"median", each.median()},
                          {"dearest", each.medians.front()},
                          {"too_dear", each.too_dear}});
    }
    std::cout << nlohmann::json{{"how", report.how},
                                {"seed", report.seed},
                                {"median_us", report.median_us()},
                                {"dearest_medians", report.all.front().cost.us / report.median_us()},
                                {"most_medians", report.most_medians},
                                {"reproduce", reproduction(report, report.all.front().drawn)},
                                {"differs", report.differs()},
                                {"groups", groups},
                                {"requests", requests},
                                {"environment", measurement::environment()}}
              << "\n";
}

}  // namespace croupier::bench
