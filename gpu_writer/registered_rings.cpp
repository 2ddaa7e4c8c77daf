#include "gpu_writer/registered_rings.h"

#include <utility>

namespace croupier::gpu_writer {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

std::string part_of(std::uint32_t rank, const char* part, std::uint32_t slot) {
    return "rank " + std::to_string(rank) + "'s " + part + " of slot " + std::to_string(slot);
}

}  // namespace

shm::Result<bool> RegisteredRings::add_all(const shm::Segment& segment, std::uint32_t rank) {
    const proto::SegmentLayout& layout = segment.layout();
    const std::uint32_t slots = segment.geometry().slots;
    CROUPIER_TRY(add(&segment.ready(0, 0), layout.ready_stride * slots, "the ready words"));
    if (rank == 0) {
        CROUPIER_TRY(add(&segment.randoms_ready(0), layout.random_stride * slots, "the random ring"));
    }
    CROUPIER_TRY(add(segment.inputs(0, 0), layout.input_stride * slots, "the rows' inputs"));
    CROUPIER_TRY(add(&segment.decision_head(0), layout.decision_stride * slots, "the decision ring"));
    const std::uint64_t end =
        rank + 1 < segment.geometry().tp ? layout.rank_offset[rank + 1] : layout.logits_stride;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        CROUPIER_TRY(
            add(segment.logits(slot, rank), end - layout.rank_offset[rank], part_of(rank, "part", slot)));
    }
    return true;
}

shm::Result<bool> RegisteredRings::add_lean(const shm::Segment& segment, std::uint32_t rank) {
    const proto::SegmentLayout& layout = segment.layout();
    const std::uint32_t slots = segment.geometry().slots;
    CROUPIER_TRY(add(&segment.request_board(0), layout.request_slot_stride * slots, "the block requests"));
    if (segment.geometry().mask_rows != 0) {
        CROUPIER_TRY(add(segment.mask_row(0, 0), layout.mask_stride * slots, "the grammar masks"));
    }
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        CROUPIER_TRY(
            add(segment.lean(slot, rank), layout.lean_rank_stride, part_of(rank, "lean part", slot)));
    }
    return true;
}

shm::Result<bool> RegisteredRings::add(void* begin, std::size_t bytes, const std::string& what) {
    Part part{static_cast<const std::byte*>(begin), whole_pages(bytes), nullptr, nullptr};
    void* device = nullptr;
    CROUPIER_TRY(keep(part.registered, register_memory(begin, part.bytes, what)));
    CROUPIER_TRY(keep(device, device_address(begin, what)));
    part.device = static_cast<std::byte*>(device);
    parts_.push_back(std::move(part));
    return true;
}

std::uint64_t RegisteredRings::address(const void* host) const {
    const auto* at = static_cast<const std::byte*>(host);
    for (const Part& part : parts_) {
        if (at >= part.begin && at < part.begin + part.bytes) {
            return reinterpret_cast<std::uint64_t>(part.device + (at - part.begin));
        }
    }
    return 0;
}

}  // namespace croupier::gpu_writer
