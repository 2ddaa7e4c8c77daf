#include <spdlog/fmt/fmt.h>

#include "tools/plan/plan.h"

namespace croupier::tools {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

std::string time_text(double us) {
    if (us < 1000.0) return fmt::format("{:.0f} us", us);
    return fmt::format("{:.{}f} ms", us * 1e-3, us < 10000.0 ? 2 : 1);
}

std::string asked_text(const Plan& plan) {
    const Setting& setting = plan.question.setting;
    const Requests& requests = setting.requests;
    return fmt::format("{} columns of {} {} logits, {} rank{}, a stage of {:g} ms, mix {}; {}{}\n",
                       setting.batch, setting.vocab, requests.dtype, setting.tp, setting.tp == 1 ? "" : "s",
                       setting.stage_ms, requests.mix,
                       requests.transport == "lean" ? "lean steps from a CPU writer" : "whole rows",
                       requests.summaries ? " with summaries" : "") +
           fmt::format("measured: {} run{} of croupier sim on {}, {} core{}\n\n", plan.runs,
                       plan.runs == 1 ? "" : "s", plan.host.processor, plan.host.cores,
                       plan.host.cores == 1 ? "" : "s");
}

std::string table_text(const Plan& plan) {
    std::string text = fmt::format("  {:>8} {:>10} {:>10} {:>10} {:>12}  {}\n", "samplers", "step p50",
                                   "step p99", "column", "% of stage", "hidden");
    for (const Prediction& each : plan.by_samplers) {
        text += fmt::format("{} {:>8} {:>10} {:>10} {:>10} {:>10.1f} %  {}\n",
                            each.samplers == plan.chosen.samplers ? "*" : " ", each.samplers,
                            time_text(each.p50_us), time_text(each.p99_us), time_text(each.column_us),
                            plan.share_of_stage(each) * 100.0, plan.is_hidden(each) ? "yes" : "NO");
    }
    return text;
}

std::string why_text(const Plan& plan) {
    const double share = plan.question.share_of_stage * 100.0;
    if (plan.question.samplers != 0) {
        const bool crowded = plan.question.samplers > plan.host.most_samplers(plan.question.setting.tp);
        return crowded ? "as requested, but they share cores" : "as requested";
    }
    if (!plan.enough) {
        const bool lean = plan.question.setting.requests.transport == "lean";
        return fmt::format(
            "too few: a step takes more than {:.0f} % of a stage.\n"
            "             Try {}a smaller --batch or more cores",
            share, lean ? "" : "--transport lean, ");
    }
    if (plan.chosen.samplers < kLeastSamplers)
        return fmt::format(
            "a step takes at most {:.0f} % of a stage; decisions pause while the only sampler restarts",
            share);
    return fmt::format(
        "the smallest number with which a step takes at most {:.0f} % of a stage{}", share,
        plan.chosen.samplers == kLeastSamplers ? "; the second one continues while the first restarts" : "");
}

std::string samplers_text(const Plan& plan) {
    const std::uint32_t tp = plan.question.setting.tp;
    const char* origin = plan.question.samplers != 0 ? "requested" : "recommended";
    return fmt::format(
        "\nsamplers     {} {}; room for {} beside a scheduler and {} rank{}\n             {}\n",
        plan.chosen.samplers, origin, plan.host.most_samplers(tp), tp, tp == 1 ? "" : "s", why_text(plan));
}

std::string step_text(const Plan& plan) {
    const double share = plan.share_of_stage(plan.chosen) * 100.0;
    return fmt::format(
               "step         {} from its last logit to its last token (p50), of which columns take {}\n",
               time_text(plan.chosen.p50_us), time_text(plan.chosen.columns_us)) +
           fmt::format("pipelined    F = {}, T_cycle = {}: decisions {}\n", time_text(plan.chosen.p50_us),
                       time_text(plan.stage_us()),
                       plan.is_hidden(plan.chosen)
                           ? "are hidden behind another microbatch's stage"
                           : "are NOT hidden behind a stage and limit the throughput") +
           fmt::format(
               "sequential   {:.1f} % slower than without decisions, if the engine waits for each step\n",
               share);
}

std::string memory_text(const Plan& plan) {
    const PlannedMemory& memory = plan.memory;
    const std::uint32_t sessions = plan.question.room.sessions;
    return fmt::format(
               "/dev/shm     {:.0f} MiB: {:.0f} MiB per session for {}, and one more during a takeover\n",
               static_cast<double>(memory.shm_bytes) / kMib, static_cast<double>(memory.segment_bytes) / kMib,
               sessions) +
           fmt::format("processes    {:.0f} MiB in addition, if all sequences have their maximum length\n",
                       static_cast<double>(memory.process_bytes) / kMib);
}

std::string hot_set_text(const Plan& plan) {
    const HotSetAnswer& hot = plan.hot_set;
    if (!hot.measured) {
        return "hot set      none: the default rng (race) needs none; for `rng: shvs`, use --rows and "
               "--hot\n";
    }
    return fmt::format(
        "hot set      {}: a draw takes {:.1f} us with H* = {}, {:.1f} us by race, {:.1f} us with blocks "
        "chosen per row\n",
        hot.pays_for_race()   ? "faster for unfiltered draws"
        : hot.pays_for_shvs() ? "faster for `rng: shvs` only"
                              : "not faster",
        hot.expected_us, hot.size, hot.race_us, hot.own_choice_us);
}

std::string check_text(const Plan& plan) {
    if (!plan.check) return "";
    return fmt::format(
        "check        predicted {}; croupier sim measured {} over {} steps in {} runs (error {:+.1f} %)\n",
        time_text(plan.chosen.p50_us), time_text(plan.check->p50_us), plan.check->steps, plan.check->runs,
        plan.error() * 100.0);
}

}  // namespace

std::string plan_text(const Plan& plan) {
    std::string text = asked_text(plan) + table_text(plan) + samplers_text(plan) + step_text(plan) +
                       memory_text(plan) + hot_set_text(plan) + check_text(plan);
    for (const std::string& note : plan.notes) text += "note         " + note + "\n";
    return text +
           fmt::format("\nFor croupierd.yaml: samplers: {{count: {}}}. For Kubernetes: --kubernetes.{}\n",
                       plan.chosen.samplers, plan.check ? "" : " To verify with croupier sim: --check.");
}

std::string plan_kubernetes(const Plan& plan) {
    const std::uint32_t cpus = kubernetes_cpus(plan);
    const std::uint64_t memory = kubernetes_memory_mib(plan);
    return fmt::format(
        "# croupier plan: {} sampler{} and the supervisor. Whole CPUs, so that a static CPU manager assigns "
        "exclusive cores.\n"
        "# The memory volume counts towards the memory limit of the daemon's container.\n"
        "resources:\n"
        "  requests: {{cpu: \"{}\", memory: {}Mi}}\n"
        "  limits: {{cpu: \"{}\", memory: {}Mi}}\n"
        "# In the pod:\n"
        "volumes:\n"
        "- {{name: croupier-shm, emptyDir: {{medium: Memory, sizeLimit: {}Mi}}}}\n",
        plan.chosen.samplers, plan.chosen.samplers == 1 ? "" : "s", cpus, memory, cpus, memory,
        kubernetes_shm_mib(plan));
}

}  // namespace croupier::tools
