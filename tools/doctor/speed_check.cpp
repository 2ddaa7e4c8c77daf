#include "tools/doctor/speed_check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>

#include "tools/doctor/checks.h"

namespace croupier::tools::doctor {
namespace {

constexpr const char* kFaster =
    "cpupower frequency-set -g performance; look for heat and power limits in the BMC";
constexpr const char* kAskLater =
    "run it again when other processes use these cores less (press 1 in `top` to see the load of each), or "
    "skip this check: --skip cpu.speed";

std::int64_t number(std::size_t count) {
    return static_cast<std::int64_t>(count);
}

// Of cpufreq: a governor or a limit that keeps a core below what it could do. Empty: none, or not told.
std::string frequency_limit(const host::HostView& host, std::uint32_t core) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/", core);
    const auto governor = host.read(folder + "scaling_governor");
    const auto driver = host.read(folder + "scaling_driver");
    // intel_pstate's and amd-pstate's own powersave goes up to the whole frequency.
    const bool chooses_itself =
        driver && (driver->starts_with("intel_pstate") || driver->starts_with("amd-pstate"));
    if (governor == "powersave" && !chooses_itself) return "its governor is powersave";
    const auto limit = host.read(folder + "scaling_max_freq");
    const auto most = host.read(folder + "cpuinfo_max_freq");
    if (!limit || !most) return "";
    const double share = std::atof(limit->c_str()) / std::max(1.0, std::atof(most->c_str()));
    return share < 0.9 ? fmt::format("its frequency is limited to {:.0f} % (scaling_max_freq)", share * 100)
                       : "";
}

std::optional<Finding> limited_cores(const Examined& examined) {
    std::string limited;
    std::size_t limits = 0;
    for (const std::uint32_t core : examined.usable_cores) {
        const std::string limit = frequency_limit(examined.host, core);
        if (!limit.empty() && limits++ == 0) limited = fmt::format("core {}: {}", core, limit);
    }
    if (limits == 0) return std::nullopt;
    return slower(limited + (limits > 1 ? fmt::format(" (and {} more)", limits - 1) : ""), kFaster,
                  {{"limited", number(limits)}});
}

std::vector<std::uint32_t> every_core(const std::vector<std::string>& lists) {
    std::vector<std::uint32_t> cores;
    for (const std::string& list : lists) {
        for (std::size_t at = 0; at < list.size();) {
            const std::size_t comma = std::min(list.find(',', at), list.size());
            cores.push_back(static_cast<std::uint32_t>(std::stoul(list.substr(at, comma - at))));
            at = comma + 1;
        }
    }
    std::sort(cores.begin(), cores.end());
    cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
    return cores;
}

bool is_slower(const CoreSpeed& a, const CoreSpeed& b) {
    return a.turns_per_us < b.turns_per_us;
}

bool has_less(const CoreSpeed& a, const CoreSpeed& b) {
    return a.share < b.share;
}

// What a core does between others' turns says nothing of the core.
std::vector<CoreSpeed> had_alone(const std::vector<CoreSpeed>& cores) {
    std::vector<CoreSpeed> alone;
    std::copy_if(cores.begin(), cores.end(), std::back_inserter(alone),
                 [](const CoreSpeed& core) { return core.turns_per_us > 0; });
    return alone;
}

struct Extremes {
    CoreSpeed slowest;
    CoreSpeed fastest;

    double ratio() const { return slowest.turns_per_us / fastest.turns_per_us; }
};

// Nothing: there are no two to compare.
std::optional<Extremes> extremes_of(const std::vector<CoreSpeed>& alone) {
    if (alone.size() < 2) return std::nullopt;
    const auto [slowest, fastest] = std::minmax_element(alone.begin(), alone.end(), is_slower);
    return Extremes{*slowest, *fastest};
}

std::vector<Fact> facts_of(const std::vector<CoreSpeed>& cores, const std::optional<Extremes>& extremes) {
    const CoreSpeed& least = *std::min_element(cores.begin(), cores.end(), has_less);
    std::vector<Fact> facts = {{"measured", number(cores.size())},
                               {"least_share_core", number(least.core)},
                               {"least_share", least.share}};
    if (extremes) {
        facts.emplace_back("slowest_core", number(extremes->slowest.core));
        facts.emplace_back("slowest_to_fastest", extremes->ratio());
    }
    return facts;
}

Finding throttled(const Extremes& extremes, const std::vector<Fact>& facts) {
    return slower(
        fmt::format("core {} does {:.0f} % of the work of core {}: it is throttled, or shares its hardware",
                    extremes.slowest.core, 100 * extremes.ratio(), extremes.fastest.core),
        std::string(kFaster) + "; or remove it from samplers.cores", facts);
}

}  // namespace

Finding judge_speeds(const CoreSpeeds& speeds, bool daemon_lives) {
    const auto& cores = speeds.cores;
    if (!speeds.in_time)
        return skipped("too busy to measure: the samplers' cores were not available in time", kAskLater);
    if (cores.empty()) return skipped("none of the samplers' cores could be measured from here");
    const std::vector<CoreSpeed> alone = had_alone(cores);
    const auto extremes = extremes_of(alone);
    const std::vector<Fact> facts = facts_of(cores, extremes);
    if (extremes && extremes->ratio() < 0.75) return throttled(*extremes, facts);
    const CoreSpeed& least = *std::min_element(cores.begin(), cores.end(), has_less);
    const std::string share =
        fmt::format("core {} was available {:.0f} % of the time", least.core, 100 * least.share);
    if (least.share < 0.5 && !daemon_lives) {
        return slower(share + ": other processes use it",
                      "keep other processes off the samplers' cores (taskset, cpusets), or list free cores "
                      "in samplers.cores",
                      facts);
    }
    if (cores.size() == 1) return fine("the sampler's " + share, facts);
    if (!extremes)
        return skipped("too busy to measure: no two of the samplers' cores were free of other work",
                       kAskLater);
    return fine(
        fmt::format("{} cores of samplers measured: the slowest has {:.0f} % of the speed of the fastest",
                    alone.size(), 100 * extremes->ratio()),
        facts);
}

Finding check_speed(const Examined& examined) {
    if (auto limited = limited_cores(examined)) return *std::move(limited);
    if (!examined.host.is_real()) return judge_speeds({}, false);
    const std::chrono::milliseconds patience(examined.request.patience_ms / 2);
    return judge_speeds(measure_cores(every_core(examined.sampler_cores), patience), examined.daemon_lives());
}

}  // namespace croupier::tools::doctor
