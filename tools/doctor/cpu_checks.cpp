// Cores: which instructions they have, and how many are available.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "host/control_group.h"
#include "host/placement.h"
#include "sampler/instruction_set.h"
#include "tools/doctor/checks.h"

namespace croupier::tools::doctor {
namespace {

std::int64_t number(std::size_t count) {
    return static_cast<std::int64_t>(count);
}

const char* plural(std::size_t count) {
    return count == 1 ? "" : "s";
}

std::string samplers_in_words(const Examined& examined) {
    const std::uint32_t threads = examined.config.samplers.threads_per_sampler;
    const std::uint32_t samplers = examined.samplers();
    if (threads == 1) return fmt::format("{} sampler{}", samplers, plural(samplers));
    return fmt::format("{} sampler{} of {} threads", samplers, plural(samplers), threads);
}

std::uint32_t samplers_that_fit(std::size_t cores, std::uint32_t threads) {
    return std::max(1U, static_cast<std::uint32_t>(cores) / std::max(1U, threads));
}

// Of the usable ones, those that the configuration lets samplers use.
std::size_t cores_for_samplers(const Examined& examined) {
    const auto& allowed = examined.config.samplers.cores;
    if (allowed.empty()) return examined.usable_cores.size();
    return static_cast<std::size_t>(
        std::count_if(examined.usable_cores.begin(), examined.usable_cores.end(), [&](std::uint32_t core) {
            return std::find(allowed.begin(), allowed.end(), core) != allowed.end();
        }));
}

// Highway calls AVX-512 and its later parts AVX3, AVX3_DL and so on.
std::string usual_name(const std::string& of_highway) {
    return of_highway.starts_with("AVX3") ? "AVX-512" : of_highway;
}

std::string stops_in_words(std::uint64_t stops) {
    return stops == 0 ? "" : fmt::format("; the kernel has throttled the control group {} times", stops);
}

}  // namespace

Finding check_instructions(const Examined&) {
    const sampler::InstructionSet set = sampler::instruction_set();
    const std::vector<Fact> facts = {{"instruction_set", set.name},
                                     {"vector_bytes", static_cast<std::int64_t>(set.vector_bytes)}};
    const std::string what = fmt::format("samplers use {} instructions ({}-bit vectors)",
                                         usual_name(set.name), set.vector_bytes * 8);
    if (set.vector_bytes >= 32) return fine(what, facts);
    return slower(
        what + "; AVX2 and later have at least 256 bits",
        "use a newer processor; in a virtual machine, pass the host's processor through (-cpu host)", facts);
}

Finding check_cores(const Examined& examined) {
    const std::size_t usable = examined.usable_cores.size();
    if (usable == 0) return skipped("the cores of this host cannot be read in /sys/devices/system/cpu");
    const std::string online = examined.host.read("/sys/devices/system/cpu/online").value_or("?");
    const std::vector<Fact> facts = {
        {"usable", number(usable)}, {"online", online}, {"samplers", number(examined.samplers())}};
    if (usable == 1) {
        return slower(
            "samplers, supervisor and the engine's scheduler share one core and wait for each other",
            "give the container or the machine at least two cores, so that their work overlaps", facts);
    }
    return fine(fmt::format("{} cores can be used (online: {}), {} will run", usable, online,
                            samplers_in_words(examined)),
                facts);
}

Finding check_cpuset(const Examined& examined) {
    const std::size_t cores = cores_for_samplers(examined);
    const std::size_t usable = examined.usable_cores.size();
    const std::uint32_t wanted = examined.sampler_threads();
    const std::uint32_t threads = examined.config.samplers.threads_per_sampler;
    const std::vector<Fact> facts = {
        {"cores", number(cores)}, {"usable", number(usable)}, {"wanted", number(wanted)}};
    if (usable == 0) return skipped("the cores of this host cannot be read in /sys/devices/system/cpu");
    const auto& listed = examined.config.samplers.cores;
    if (cores < listed.size()) {
        return slower(
            fmt::format("samplers.cores lists {} core{}, and the daemon may run on {} of them: samplers "
                        "share cores, or are not pinned",
                        listed.size(), plural(listed.size()), cores),
            "list in samplers.cores the cores that `taskset -pc PID` prints for the daemon, or widen its "
            "cpuset (AllowedCPUs=, --cpuset-cpus)",
            facts);
    }
    if (wanted > cores && usable > 1) {
        return slower(
            fmt::format("{} share {} core{}: they wait for each other", samplers_in_words(examined), cores,
                        plural(cores)),
            fmt::format("set samplers.count to {}, or widen the cpuset (AllowedCPUs=, --cpuset-cpus)",
                        samplers_that_fit(cores - (listed.empty() ? 1 : 0), threads)),
            facts);
    }
    if (wanted == usable && usable > 1) {
        return slower("samplers use every core: none is left for the supervisor and the engine's scheduler",
                      fmt::format("set samplers.count to {}", samplers_that_fit(usable - 1, threads)), facts);
    }
    return fine(fmt::format("samplers use {} of the {} usable cores", wanted, cores), facts);
}

Finding check_quota(const Examined& examined) {
    const auto quota = host::cpu_quota(examined.host);
    if (!quota) return fine("no control group limits CPU time");
    const std::uint32_t wanted = examined.sampler_threads();
    const std::uint64_t stops = host::quota_stops(examined.host);
    const std::vector<Fact> facts = {
        {"quota", *quota}, {"wanted", number(wanted)}, {"stops", static_cast<std::int64_t>(stops)}};
    if (*quota < wanted || *quota < 2) {
        return slower(
            fmt::format("a quota of {:g} CPU{} for {} and the supervisor: the kernel throttles them in the "
                        "middle of a step",
                        *quota, *quota == 1 ? "" : "s", samplers_in_words(examined)),
            *quota < 2
                ? "raise the quota to 2 or more (Docker --cpus, systemd CPUQuota=), or use a cpuset instead"
                : fmt::format("set samplers.count to {}, raise the quota (Docker --cpus, systemd "
                              "CPUQuota=), or use a cpuset instead",
                              samplers_that_fit(static_cast<std::size_t>(*quota) - 1,
                                                examined.config.samplers.threads_per_sampler)),
            facts);
    }
    return fine(fmt::format("a quota of {:g} CPUs, {} will run{}", *quota, samplers_in_words(examined),
                            stops_in_words(stops)),
                facts);
}

Finding check_pinning(const Examined& examined) {
    if (!examined.config.samplers.pin) {
        return slower("samplers.pin is off: the kernel moves samplers between cores, away from their caches",
                      "set samplers.pin to true");
    }
    std::size_t seen = 0;
    std::string loose;
    for (const SamplerAnswer& sampler : examined.daemon.samplers) {
        host::HostView view = examined.host;
        view.process = std::to_string(sampler.pid);
        // In another PID namespace the number is another process's.
        const auto parent = host::field_of(view.read_of_process("status").value_or(""), "PPid");
        if (examined.host.is_this_process() || parent != examined.host.process) continue;
        ++seen;
        if (host::allowed_cores(view).value_or(0) > examined.config.samplers.threads_per_sampler &&
            examined.usable_cores.size() > 1) {
            loose += (loose.empty() ? "" : ", ") + view.process;
        }
    }
    if (!loose.empty()) {
        return slower("samplers without a core of their own: pid " + loose,
                      "read in the daemon's log why it could not pin them, then restart it");
    }
    if (seen == 0) return fine("each sampler thread will be pinned to one core");
    return fine(fmt::format("{} sampler{} running, pinned to {}", seen, seen == 1 ? " is" : "s are",
                            seen == 1 ? "its core" : "their cores"),
                {{"samplers", number(seen)}});
}

}  // namespace croupier::tools::doctor
