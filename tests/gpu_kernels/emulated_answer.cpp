// The kernel that brings block requests and tokens, compiled for this CPU.
#include "tests/gpu_kernels/emulated_answer.h"

#include "gpu_writer/answer_kernel.cu"  // NOLINT(bugprone-suspicious-include)

namespace croupier::testing {

void serve_link(const gpu_writer::QueueMemory& queue, std::uint64_t turn,
                const gpu_writer::DeliveredTokens& tokens) {
    gpu::run_grid(1, 1, gpu_writer::kAnswerThreads,
                  [&] { gpu_writer::answer_requests<proto::Dtype::bf16>({}, {}, queue, turn, tokens, {}); });
}

}  // namespace croupier::testing
