#include "sim/daemon_options.h"

#include <sstream>

namespace croupier::sim {

testing::OwnDaemonOptions daemon_options(const SimOptions& options, const std::string& instance) {
    std::ostringstream yaml;
    yaml << "samplers:\n  count: " << options.samplers
         << "\n  threads_per_sampler: " << options.threads_per_sampler << "\n  wait: "
         << options.wait
         // Not pinned: simulated GPUs compute on the same cores, and the kernel balances them better.
         << "\n  pin: false\n  restart_backoff_ms: 1"
         << "\nsessions:\n  max_batch: " << options.rows_at_most() << "\n  max_vocab: " << options.vocab
         << "\n  max_sequences: " << 2 * options.rows_at_most() * options.microbatches()
         << "\n  max_sequence_tokens: " << options.prompt_max + options.output_max + 2
         << "\n  reattach_grace_ms: 60000\n  drain_timeout_ms: 1000\n";
    return {options.croupierd, instance, options.shm_dir, yaml.str(), options.keep};
}

}  // namespace croupier::sim
