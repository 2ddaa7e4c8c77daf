// The block that reads over the link, of the kernel that brings block requests and tokens, on this CPU. Other
// blocks wait for it, which blocks that run one after another cannot.
#pragma once

#include <cstdint>

#include "gpu_writer/answer_kernel.h"

namespace croupier::testing {

// Until the block ends.
void serve_link(const gpu_writer::QueueMemory& queue, std::uint64_t turn,
                const gpu_writer::DeliveredTokens& tokens);

}  // namespace croupier::testing
