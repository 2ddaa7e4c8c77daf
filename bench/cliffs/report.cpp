#include "bench/cliffs/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

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
    std::function<bool(const MeasuredRequest&)> has;
};

void add_controls(std::vector<Group>& groups) {
    for (const std::string& name : control_names()) {
        groups.push_back({name, [name](const MeasuredRequest& of) {
                              const auto& own = of.drawn.controls;
                              return std::find(own.begin(), own.end(), name) != own.end();
                          }});
    }
    groups.push_back({"no control", [](const MeasuredRequest& of) { return of.drawn.controls.empty(); }});
    groups.push_back(
        {"greedy", [](const MeasuredRequest& of) { return of.drawn.request.params.temperature == 0.0; }});
    groups.push_back(
        {"T above 1.2", [](const MeasuredRequest& of) { return of.drawn.request.params.temperature > 1.2; }});
}

void add_histories(std::vector<Group>& groups) {
    groups.push_back(
        {"history of 10,000 or more", [](const MeasuredRequest& of) { return of.drawn.history >= 10'000; }});
    groups.push_back({"history that repeats", [](const MeasuredRequest& of) { return of.drawn.repeats; }});
}

void add_rows(std::vector<Group>& groups) {
    for (const proto::Dtype dtype : {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}) {
        groups.push_back(
            {proto::name_of(dtype), [dtype](const MeasuredRequest& of) { return of.drawn.dtype == dtype; }});
    }
    groups.push_back({"columns sent whole",
                      [](const MeasuredRequest& of) { return of.cost.lean && of.cost.lean->whole > 0.5; }});
    groups.push_back({"columns that ask for blocks",
                      [](const MeasuredRequest& of) { return of.cost.lean && of.cost.lean->tries > 1.5; }});
}

void add_paths(const CliffsReport& report, std::vector<Group>& groups) {
    std::set<std::string> paths;
    for (const MeasuredRequest& each : report.all) {
        for (const auto& [path, count] : each.cost.paths) paths.insert(path);
    }
    for (const std::string& path : paths) {
        groups.push_back(
            {"path " + path, [path](const MeasuredRequest& of) { return of.cost.paths.count(path) == 1; }});
    }
}

// In medians of all requests.
struct GroupCosts {
    std::string name;
    std::vector<double> all;    // dearest first
    std::vector<double> alone;  // of those with one control at most, likewise
    std::uint32_t too_dear = 0;
};

double median_of(const std::vector<double>& sorted) {
    return sorted.empty() ? 0.0 : sorted[sorted.size() / 2];
}
double dearest_of(const std::vector<double>& sorted) {
    return sorted.empty() ? 0.0 : sorted.front();
}

std::vector<GroupCosts> group_costs(const CliffsReport& report) {
    std::vector<Group> groups;
    add_controls(groups);
    add_histories(groups);
    add_rows(groups);
    add_paths(report, groups);
    const double median = report.median_us();
    std::vector<GroupCosts> costs;
    for (const Group& group : groups) {
        GroupCosts made{group.name, {}, {}, 0};
        for (const MeasuredRequest& each : report.all) {
            if (!group.has(each)) continue;
            const double medians = each.cost.us / median;
            made.all.push_back(medians);
            if (each.drawn.controls.size() <= 1) made.alone.push_back(medians);
            if (medians > report.most_medians) ++made.too_dear;
        }
        if (!made.all.empty()) costs.push_back(std::move(made));
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

void print_head(bool lean) {
    std::cout << fmt::format(
        "{:>8} {:>9} {:>7} {}{:>7}  {}\n", "medians", "us", "reads",
        lean ? fmt::format("{:>6} {:>6} {:>6} {:>6} {:>6} ", "tries", "whole", "sent", "asked", "KB") : "",
        "number", "controls; path; request");
}

void print_line(const CliffsReport& report, const MeasuredRequest& of) {
    const auto& [drawn, cost] = of;
    std::cout << fmt::format("{:>8.1f} {:>9.1f} {:>7.1f} {}{:>7}  {}; {}; {}\n", cost.us / report.median_us(),
                             cost.us, cost.reads, lean_columns(cost.lean), drawn.number, kind_of(drawn),
                             shown_paths(cost), describe(drawn));
}

// Of each kind the dearest request.
void print_dearest(const CliffsReport& report, std::size_t most_controls, std::uint32_t shown) {
    print_head(report.all.front().cost.lean.has_value());
    std::set<std::string> kinds;
    for (const MeasuredRequest& each : report.all) {
        if (kinds.size() >= shown) break;
        if (each.drawn.controls.size() > most_controls) continue;
        if (kinds.insert(kind_of(each.drawn)).second) print_line(report, each);
    }
}

void print_groups(const CliffsReport& report) {
    std::cout << fmt::format("\n{:<30} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}\n", "requests with",
                             "number", "median", "dearest", "too dear", "alone", "median", "dearest");
    for (const GroupCosts& each : group_costs(report)) {
        std::cout << fmt::format("{:<30} {:>8} {:>8.2f} {:>8.1f} {:>8} {:>9} {:>8.2f} {:>8.1f}\n", each.name,
                                 each.all.size(), median_of(each.all), dearest_of(each.all), each.too_dear,
                                 each.alone.size(), median_of(each.alone), dearest_of(each.alone));
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
    std::cout << fmt::format(
        "{} random requests, seed {}: {}\nmedian: {:.1f} us; the dearest request of each kind:\n",
        report.all.size(), report.seed, report.how, report.median_us());
    print_dearest(report, control_names().size(), shown);
    std::cout << "\nwith one or two controls:\n";
    print_dearest(report, 2, shown);
    print_groups(report);
    print_verdict(report);
}

void print_cliffs_json(const CliffsReport& report) {
    nlohmann::json requests = nlohmann::json::array();
    for (const MeasuredRequest& each : report.all) requests.push_back(to_json(report, each));
    nlohmann::json groups = nlohmann::json::array();
    for (const GroupCosts& each : group_costs(report)) {
        groups.push_back({{"requests_with", each.name},
                          {"number", each.all.size()},
                          {"median", median_of(each.all)},
                          {"dearest", dearest_of(each.all)},
                          {"too_dear", each.too_dear},
                          {"alone", each.alone.size()},
                          {"median_alone", median_of(each.alone)},
                          {"dearest_alone", dearest_of(each.alone)}});
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
