// The case `full` of `croupier bench decide`, asked of a session.
#pragma once

#include "croupier/client.hpp"

namespace croupier::bench {

inline void ask_all_controls(client::Sequence& sequence) {
    sequence.params.temperature = 0.8;
    sequence.params.top_k = 50;
    sequence.params.top_p = 0.95;
    sequence.params.min_p = 0.02;
    sequence.params.repetition_penalty = 1.1;
    sequence.params.frequency_penalty = 0.1;
    sequence.params.presence_penalty = 0.1;
}

}  // namespace croupier::bench
