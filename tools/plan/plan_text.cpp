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
    return fmt::format(
               "{} columns of {} {} logits, {} rank{}, a stage of {:g} ms, mix {}; {}{}\n", setting.batch,
               setting.vocab, requests.dtype, setting.tp, setting.tp == 1 ? "" : "s", setting.stage_ms,
               requests.mix,
               requests.transport == "lean" ? "lean steps, answered by a host's writer" : "whole rows",
               requests.summaries ? " with summaries" : "") +
           fmt::format("measured: {} run{} of croupier sim on {}, {} core{}\n\n", plan.runs,
                       plan.runs == 1 ? "" : "s", plan.host.processor, plan.host.cores,
                       plan.host.cores == 1 ? "" : "s");
}

std::string table_text(const Plan& plan) {
    std::string text = fmt::format("  {:>8} {:>10} {:>10} {:>10} {:>12}  {}\n", "samplers", "step p50", "p99",
                                   "a column", "of a stage", "hides");
    for (const Prediction& each : plan.by_samplers) {
        text += fmt::format("{} {:>8} {:>10} {:>10} {:>10} {:>10.1f} %  {}\n",
                            each.samplers == plan.chosen.samplers ? "*" : " ", each.samplers,
                            time_text(each.p50_us), time_text(each.p99_us), time_text(each.column_us),
                            plan.share_of_stage(each) * 100.0, plan.hides(each) ? "yes" : "NO");
    }
    return text;
}

std::string why_text(const Plan& plan) {
    const double share = plan.question.share_of_stage * 100.0;
    if (plan.question.samplers != 0) {
        const bool crowded = plan.question.samplers > plan.host.most_samplers(plan.question.setting.tp);
        return crowded ? "as was asked, more than have a core to themselves" : "as was asked";
    }
    if (!plan.enough) {
        return fmt::format(
            "not enough to keep a step within {:.0f} % of a stage.\n"
            "             Try --summaries, --transport lean, a smaller --batch or more cores",
            share);
    }
    if (plan.chosen.samplers < kLeastSamplers)
        return fmt::format(
            "it keeps a step within {:.0f} % of a stage, and no token is decided while it restarts", share);
    return fmt::format(
        "the fewest that keep a step within {:.0f} % of a stage{}", share,
        plan.chosen.samplers == kLeastSamplers ? ", and one to go on while the other restarts" : "");
}

std::string samplers_text(const Plan& plan) {
    const std::uint32_t tp = plan.question.setting.tp;
    return fmt::format(
        "\nsamplers     {} of the {} that have room here beside a scheduler and {} rank{}\n             {}\n",
        plan.chosen.samplers, plan.host.most_samplers(tp), tp, tp == 1 ? "" : "s", why_text(plan));
}

std::string step_text(const Plan& plan) {
    const double share = plan.share_of_stage(plan.chosen) * 100.0;
    return fmt::format(
               "a step       {} from its last logit to its last token, p50; its columns alone take {}\n",
               time_text(plan.chosen.p50_us), time_text(plan.chosen.played_us)) +
           fmt::format("behind       F = {}, T_cycle = {}: decisions {}\n", time_text(plan.chosen.p50_us),
                       time_text(plan.stage_us()),
                       plan.hides(plan.chosen) ? "hide behind another microbatch's stage"
                                               : "do NOT hide behind a stage: they set the pace") +
           fmt::format(
               "alone        an engine that waits for each step before the next takes {:.1f} % more\n",
               share);
}

std::string memory_text(const Plan& plan) {
    const PlannedMemory& memory = plan.memory;
    const std::uint32_t sessions = plan.question.room.sessions;
    return fmt::format(
               "/dev/shm     {:.0f} MiB: {:.0f} MiB a session, of {}, and one more while one is taken over\n",
               static_cast<double>(memory.shm_bytes) / kMib, static_cast<double>(memory.segment_bytes) / kMib,
               sessions) +
           fmt::format(
               "processes    {:.0f} MiB beside it, with the histories of all sequences at their longest\n",
               static_cast<double>(memory.process_bytes) / kMib);
}

std::string hot_set_text(const Plan& plan) {
    const HotSetAnswer& hot = plan.hot_set;
    if (!hot.measured) {
        return "hot set      none: draws are races, which need none; for `rng: shvs`, --rows and --hot "
               "measure one\n";
    }
    return fmt::format(
        "hot set      {}: H* = {} draws in {:.1f} us by F(H); the race takes {:.1f} us, and where each "
        "row chooses {:.1f}\n",
        hot.pays_for_race()   ? "it pays for untruncated draws"
        : hot.pays_for_shvs() ? "it pays for `rng: shvs` alone"
                              : "it does not pay",
        hot.size, hot.expected_us, hot.race_us, hot.own_choice_us);
}

std::string check_text(const Plan& plan) {
    if (!plan.check) return "";
    return fmt::format(
        "check        predicted {}, croupier sim measured {} over {} steps of {} runs: {:+.1f} %\n",
        time_text(plan.chosen.p50_us), time_text(plan.check->p50_us), plan.check->steps, plan.check->runs,
        plan.error() * 100.0);
}

}  // namespace

std::string plan_text(const Plan& plan) {
    std::string text = asked_text(plan) + table_text(plan) + samplers_text(plan) + step_text(plan) +
                       memory_text(plan) + hot_set_text(plan) + check_text(plan);
    for (const std::string& note : plan.notes) text += "note         " + note + "\n";
    return text + fmt::format("\nIn croupierd.yaml: samplers: {{count: {}}}. Kubernetes: --kubernetes.{}\n",
                              plan.chosen.samplers, plan.check ? "" : " Against croupier sim: --check.");
}

std::string plan_kubernetes(const Plan& plan) {
    const std::uint32_t cpus = kubernetes_cpus(plan);
    const std::uint64_t memory = kubernetes_memory_mib(plan);
    return fmt::format(
        "# croupier plan: {} sampler{} and the supervisor; whole CPUs, so that a static CPU manager gives "
        "them alone.\n"
        "# The memory volume's pages are charged to the daemon's container.\n"
        "resources:\n"
        "  requests: {{cpu: \"{}\", memory: {}Mi}}\n"
        "  limits: {{cpu: \"{}\", memory: {}Mi}}\n"
        "# of the pod:\n"
        "volumes:\n"
        "- {{name: croupier-shm, emptyDir: {{medium: Memory, sizeLimit: {}Mi}}}}\n",
        plan.chosen.samplers, plan.chosen.samplers == 1 ? "" : "s", cpus, memory, cpus, memory,
        kubernetes_shm_mib(plan));
}

}  // namespace croupier::tools
