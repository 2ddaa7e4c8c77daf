// The kernel that brings block requests and tokens, on this CPU: the block that reads over the link, and what
// another one does for a request. That one waits for the first, which blocks that run one after another
// cannot.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu_writer/answer_kernel.h"

namespace croupier::testing {

// Until the block ends.
void serve_link(const gpu_writer::QueueMemory& queue, std::uint64_t turn,
                const gpu_writer::DeliveredTokens& tokens);
// A request for these blocks of a column.
void answer_blocks(const gpu_writer::LeanRows& rows, const gpu_writer::LeanSlice& slice,
                   const gpu_writer::WholeColumn& of, const std::vector<std::uint64_t>& bitmap,
                   const gpu_writer::ToldRows& told);

}  // namespace croupier::testing
