#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_launch.cuh"

namespace croupier::gpu_writer {
namespace {

const lean::LeanLaunches& launches_for(proto::Dtype dtype) {
    if (dtype == proto::Dtype::bf16) return lean::kBf16Launches;
    return dtype == proto::Dtype::fp16 ? lean::kFp16Launches : lean::kFp32Launches;
}

}  // namespace

cudaError_t load_lean_kernels(proto::Dtype dtype) {
    return launches_for(dtype).load();
}

std::size_t lean_scratch_bytes(proto::Dtype dtype, std::uint32_t blocks, std::uint32_t max_batch) {
    return Scratch::bytes(dtype, blocks, max_batch);
}

LeanMeasured lean_measured(void* scratch, proto::Dtype dtype, std::uint32_t blocks, std::uint32_t columns) {
    const Scratch memory(scratch, dtype, blocks, columns);
    return {memory.maxima, memory.maxima_stride, memory.of_blocks, memory.race_stride, memory.floors};
}

cudaError_t launch_lean(const LeanRows& rows, const LeanTarget& target, std::span<const LeanWant> wants,
                        const LeanEnd& end, void* scratch, cudaStream_t stream) {
    const auto columns = static_cast<std::uint32_t>(wants.size());
    launches_for(rows.dtype)
        .send(rows, target, wants, end, Scratch(scratch, rows.dtype, rows.blocks, columns), stream);
    return cudaGetLastError();
}

cudaError_t launch_send_found(const LeanRows& rows, const LeanTarget& target, const ReplayRing& ring,
                              std::uint32_t columns, bool gathers, void* scratch, cudaStream_t stream) {
    const Scratch memory(scratch, rows.dtype, rows.blocks, ring.max_batch);
    launches_for(rows.dtype).send_found(rows, target, ring.step, columns, gathers, memory, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
