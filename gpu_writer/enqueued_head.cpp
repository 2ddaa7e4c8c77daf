#include "gpu_writer/enqueued_head.h"

#include <string>

#include "gpu_writer/lean_layout.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

// Rows are read sixteen bytes at a time.
constexpr std::uint64_t kAligned = 16;
constexpr std::uint64_t kTogether = 8;
// As far as the GPU's copy engine counts bytes from row to row.
constexpr std::uint64_t kMostApart = (std::uint64_t{1} << 30U) - 8;

shm::Result<bool> check_rows(const std::string& name, const void* first, const std::string& stride_name,
                             std::uint64_t stride, std::uint32_t elements) {
    const auto address = reinterpret_cast<std::uintptr_t>(first);
    if (address % kAligned != 0) {
        return shm::fail(Errc::bad_argument, name + " begins " + std::to_string(address % kAligned) +
                                                 " bytes behind a multiple of 16, allowed: at one");
    }
    if (stride > kMostApart) {
        return shm::fail(Errc::bad_argument, stride_name + " is " + std::to_string(stride) +
                                                 ", allowed: at most " + std::to_string(kMostApart));
    }
    if (stride < elements || stride % kTogether != 0) {
        return shm::fail(Errc::bad_argument, stride_name + " is " + std::to_string(stride) +
                                                 ", allowed: a multiple of 8 from " +
                                                 std::to_string(elements) + " on, the elements of a row");
    }
    return true;
}

shm::Result<bool> check_head(const EnqueuedHead& head, const proto::Geometry& geometry) {
    if (!geometry.is_lean()) {
        return shm::fail(Errc::bad_argument,
                         "the session's transport is rows, whose logits an engine computes: open it with the "
                         "transport lean, or enqueue logits");
    }
    if (geometry.dtype == proto::Dtype::fp32) {
        return shm::fail(
            Errc::bad_argument,
            "the session's logits are fp32, allowed for hidden states and an LM head: bf16 or fp16");
    }
    if (head.elements == 0 || head.elements % kTogether != 0) {
        return shm::fail(Errc::bad_argument, "elements of croupier_head is " + std::to_string(head.elements) +
                                                 ", allowed: a multiple of 8 from 8 on");
    }
    if (head.rows == 0 || head.rows > geometry.max_batch) {
        return shm::fail(Errc::bad_argument, "rows of croupier_head is " + std::to_string(head.rows) +
                                                 ", allowed: 1 to " + std::to_string(geometry.max_batch) +
                                                 ", the session's max_batch");
    }
    CROUPIER_TRY(check_rows("hidden", head.hidden, "hidden_stride", head.hidden_stride, head.elements));
    return check_rows("weight", head.weight, "weight_stride", head.weight_stride, head.elements);
}

}  // namespace

std::uint32_t head_row_elements(const proto::Geometry& geometry, std::uint32_t rank) {
    return lean_shape(geometry, rank, 1).slice.blocks * proto::kBlockIds;
}

shm::Result<EnqueuedRows> computed_rows(const EnqueuedHead& head, const EnqueuedRows& to,
                                        const proto::Geometry& geometry, std::uint32_t rank) {
    CROUPIER_TRY(check_head(head, geometry));
    const SliceShape slice = lean_shape(geometry, rank, 1).slice;
    CROUPIER_TRY(
        check_rows("logits", to.logits, "row_stride", to.row_stride, head_row_elements(geometry, rank)));
    EnqueuedRows computed = to;
    computed.logits = static_cast<const std::uint16_t*>(to.logits) + slice.lead;
    return computed;
}

}  // namespace croupier::gpu_writer
