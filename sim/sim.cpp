#include <exception>
#include <iostream>

#include "sim/command.h"
#include "sim/orchestrator.h"

namespace croupier::sim {

int run_sim(const SimOptions& options) {
    try {
        sim::Orchestrator orchestrator(options);
        const sim::Report report = orchestrator.run();
        if (!options.streams_out.empty()) sim::write_streams(orchestrator.world(), options.streams_out);
        if (options.json) {
            if (!report.fault.empty()) std::cerr << "croupier sim: " << report.fault << "\n";
            std::cout << sim::to_json(report, options) << std::endl;
        } else {
            std::cout << sim::to_text(report, orchestrator.world()) << std::flush;
        }
        return report.sound() ? 0 : 1;
    } catch (const std::exception& failure) {
        std::cerr << "croupier sim: " << failure.what() << "\n";
        return 1;
    }
}

}  // namespace croupier::sim
