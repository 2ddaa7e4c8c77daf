// The kernel that brings wishes and tokens, compiled for this CPU.
#include "tests/gpu_kernels/emulated_answer.h"

#include "gpu_writer/answer_kernel.cu"  // NOLINT(bugprone-suspicious-include)

namespace croupier::testing {

void serve_link(const gpu_writer::Desk& desk, std::uint64_t turn, const gpu_writer::DeliveredTokens& tokens) {
    gpu::run_grid(1, 1, gpu_writer::kAnswerThreads,
                  [&] { gpu_writer::answer_wishes<proto::Dtype::bf16>({}, {}, desk, turn, tokens, {}); });
}

}  // namespace croupier::testing
