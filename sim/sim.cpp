#include <csignal>
#include <exception>
#include <iostream>

#include "sim/command.h"
#include "sim/orchestrator.h"
#include "sim/report_text.h"

namespace croupier::sim {
namespace {

// The exit code by which shells report a program ended by SIGINT.
constexpr int kInterrupted = 128 + SIGINT;

// The reason for a failure comes first; the summary follows only if there are tokens.
void print(const Report& report, const World& world) {
    if (report.only_interrupted()) {
        std::cout << interruption_text(report);
        return;
    }
    if (!report.passed()) std::cerr << "croupier sim: run failed: " << failure_text(report) << std::endl;
    if (report.tokens > 0) std::cout << to_text(report, world);
    if (report.passed() && world.options.demo) std::cout << next_commands();
}

}  // namespace

int run_sim(const SimOptions& options) {
    try {
        Orchestrator orchestrator(options);
        const Report report = orchestrator.run();
        if (!options.streams_out.empty()) write_streams(orchestrator.world(), options.streams_out);
        if (options.json) {
            if (!report.fault.empty()) std::cerr << "croupier sim: " << report.fault << "\n";
            std::cout << to_json(report, options) << "\n";
        } else {
            print(report, orchestrator.world());
        }
        std::cout << std::flush;
        if (report.only_interrupted()) return kInterrupted;
        return report.passed() ? 0 : 1;
    } catch (const std::exception& failure) {
        std::cerr << "croupier sim: " << failure.what() << "\n";
        return 1;
    }
}

}  // namespace croupier::sim
