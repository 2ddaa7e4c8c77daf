#include "gpu_writer/answer_entries.cuh"
#include "gpu_writer/head_product.h"

namespace croupier::gpu_writer {
namespace {

template <Dtype D>
struct Answering {
    static void launch(const LeanRows& rows, const LeanSlice& slice, const QueueMemory& queue,
                       std::uint64_t pass, const DeliveredTokens& tokens, const ToldRows& told,
                       cudaStream_t stream) {
        launch_answers<D>(rows, slice, queue, pass, tokens, told, StoredBlocks{}, stream);
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) { load(answer_requests<D, StoredBlocks>, *status); }
};

}  // namespace

cudaError_t load_answer_kernel(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

cudaError_t launch_answering(const LeanRows& rows, const LeanSlice& slice, const QueueMemory& queue,
                             std::uint64_t pass, const DeliveredTokens& tokens, const ToldRows& told,
                             cudaStream_t stream) {
    if (rows.source.hidden != nullptr)
        return head::launch_computed_answers(rows, slice, queue, pass, tokens, told, stream);
    launch_of<Answering>(rows.dtype, rows, slice, queue, pass, tokens, told, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
