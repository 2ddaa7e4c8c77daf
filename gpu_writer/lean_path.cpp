#include "gpu_writer/lean_path.h"

#include <algorithm>
#include <utility>

#include "gpu_writer/column_wants.h"
#include "proto/hotness_order.h"
#include "shm/wishes.h"

namespace croupier::gpu_writer {

shm::Result<std::unique_ptr<LeanPath>> LeanPath::make(const shm::Segment& segment, std::uint32_t rank,
                                                      std::span<const std::uint32_t> order, int device,
                                                      Address address) {
    std::unique_ptr<LeanPath> path(new LeanPath(segment, rank, device, std::move(address)));
    CROUPIER_TRY(path->prepare_memory(order));
    path->server_.emplace(segment, rank,
                          [lean = path.get()](const BegunStep& step, std::span<const Wish> wishes) {
                              lean->answer(step, wishes);
                          });
    return path;
}

LeanPath::LeanPath(const shm::Segment& segment, std::uint32_t rank, int device, Address address)
    : segment_(segment),
      rank_(rank),
      device_(device),
      address_(std::move(address)),
      shape_(lean_shape(segment.geometry(), rank, 1, {})),
      bitmap_words_((shape_.slice.blocks + 63) / 64),
      kept_(segment.geometry().slots) {}

LeanPath::~LeanPath() {
    server_.reset();
    const DeviceScope scope(device_);
    (void)cudaStreamSynchronize(answering_.get());
}

shm::Result<bool> LeanPath::prepare_memory(std::span<const std::uint32_t> order) {
    const proto::Geometry& geometry = segment_.geometry();
    const std::size_t columns = std::size_t{geometry.slots} * geometry.max_batch;
    // The worker's stream may wait for the very tokens that an answer is for.
    CROUPIER_TRY(keep(answering_, make_urgent_stream()));
    CROUPIER_TRY(keep(answered_, make_event()));
    CROUPIER_TRY(cuda_done(load_lean_kernels(geometry.dtype), "cannot load the kernel of lean steps"));
    CROUPIER_TRY(cuda_done(load_answer_kernels(geometry.dtype), "cannot load the kernels of wishes"));
    CROUPIER_TRY(keep(
        scratch_,
        device_array<std::byte>(lean_scratch_bytes(geometry.dtype, shape_.slice.blocks, geometry.max_batch),
                                "what a lean step measures")));
    CROUPIER_TRY(keep(answer_scratch_, device_array<std::byte>(answer_scratch_bytes(), "what wishes count")));
    CROUPIER_TRY(keep(wants_, pinned_array<LeanWant>(columns, "what columns want")));
    CROUPIER_TRY(keep(bitmaps_, pinned_array<std::uint64_t>(columns * bitmap_words_, "wishes")));
    CROUPIER_TRY(keep(wants_address_, device_pointer(wants_.get(), "what columns want")));
    CROUPIER_TRY(keep(bitmaps_address_, device_pointer(bitmaps_.get(), "wishes")));
    return keep_places(order);
}

shm::Result<bool> LeanPath::keep_places(std::span<const std::uint32_t> order) {
    if (order.empty()) return true;
    const std::vector<std::uint32_t> places = proto::places_of(order, 0);
    CROUPIER_TRY(keep(places_, device_array<std::uint32_t>(places.size(), "the blocks' places")));
    return cuda_done(
        cudaMemcpy(places_.get(), places.data(), places.size() * sizeof(places[0]), cudaMemcpyHostToDevice),
        "cannot copy the blocks' places to the GPU");
}

LeanRows LeanPath::rows_of(const Kept& kept) const {
    const SliceShape& slice = shape_.slice;
    return {kept.logits,   kept.row_stride, slice.dtype,       slice.lead,
            slice.entries, slice.blocks,    shape_.first_block};
}

LeanSlice LeanPath::slice_of(const BegunStep& step) const {
    return {address_(segment_.logits(segment_.slot_of(step.step), rank_)), places_.get(), shape_.slice.tile,
            segment_.geometry().tiles(rank_), step.columns};
}

std::uint64_t* LeanPath::bitmap(std::uint32_t slot, std::uint32_t column) const {
    const std::size_t at = std::size_t{slot} * segment_.geometry().max_batch + column;
    return bitmaps_.get() + at * bitmap_words_;
}

void LeanPath::prepare(const BegunStep& step) {
    const std::uint32_t slot = segment_.slot_of(step.step);
    LeanWant* const wants = wants_.get() + std::size_t{slot} * segment_.geometry().max_batch;
    read_wants(segment_, segment_.schedule_columns(slot).part(0, step.columns), {wants, step.columns});
}

shm::Result<bool> LeanPath::send(const void* logits, std::uint64_t row_stride, const BegunStep& step,
                                 LeanEnd end, cudaStream_t worker) {
    CROUPIER_TRY(cuda_done(static_cast<cudaError_t>(failure_.load(std::memory_order_relaxed)),
                           "a sampler's wish could not be answered"));
    const std::uint32_t slot = segment_.slot_of(step.step);
    const std::size_t first = std::size_t{slot} * segment_.geometry().max_batch;
    server_->watch(step);
    kept_[slot] = {logits, row_stride};
    LeanStep sent{wants_address_ + first, step.columns, {}};
    scales_.clear();
    bool sums = false;
    std::vector<std::uint32_t> whole;
    for (std::uint32_t column = 0; column < step.columns; ++column) {
        const std::uint32_t flags = wants_[first + column].flags;
        sums = sums || (flags & (kSumAtOne | kSumAtScale)) != 0;
        scales_.push_back(lean_scales(wants_[first + column]));
        if ((flags & kWhole) != 0) whole.push_back(column);
    }
    if (sums) sent.scales = scales_;
    const LeanRows rows = rows_of(kept_[slot]);
    if (!whole.empty()) {
        // Behind what is still under way of a step that had the slot and was given up.
        CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(worker, answered_.get(), 0), "a stream cannot wait"));
        CROUPIER_TRY(cuda_done(launch_whole_columns(rows, slice_of(step), whole, worker),
                               "cannot launch a lean step's whole columns"));
    }
    proto::ReadyWord complete = step.word;
    complete.tiles = proto::ReadyWord::kLean;
    end.ready = address_(&segment_.ready(slot, rank_).word);
    end.word = complete.pack();
    const LeanTarget target{address_(segment_.lean(slot, rank_)), shape_.layout, shape_.room};
    return cuda_done(launch_lean(rows, target, sent, end, scratch_.get(), worker),
                     "cannot launch a lean step");
}

void LeanPath::answer(const BegunStep& step, std::span<const Wish> wishes) {
    // This thread's own, for good: to go back to the device that a new thread has would make a context there.
    (void)cudaSetDevice(device_);
    const std::uint32_t slot = segment_.slot_of(step.step);
    const shm::Wishes board(segment_, step.step, shm::slice_epochs(segment_, step.step));
    answers_.clear();
    lists_.resize(std::max(lists_.size(), wishes.size()));
    for (const Wish& wish : wishes) {
        // A column is asked for again when this is answered: its place is free.
        std::uint64_t* const own = bitmap(slot, wish.column);
        own_bits(wish.bits, shape_.first_block, shape_.slice.blocks, {own, bitmap_words_});
        const bool any = std::any_of(own, own + bitmap_words_, [](std::uint64_t word) { return word != 0; });
        std::vector<std::uint16_t>& list = lists_[answers_.size()];
        list_bits({own, bitmap_words_}, list);
        const auto address = reinterpret_cast<std::uint64_t>(bitmaps_address_ + (own - bitmaps_.get()));
        answers_.push_back({list, any ? address : 0, address_(&board.answer(wish.column, rank_)), wish.word,
                            wish.column, 0});
    }
    const cudaError_t launched = launch_answers(rows_of(kept_[slot]), slice_of(step), answers_,
                                                answer_scratch_.get(), answering_.get());
    (void)cudaEventRecord(answered_.get(), answering_.get());
    if (launched != cudaSuccess) failure_.store(launched, std::memory_order_relaxed);
}

}  // namespace croupier::gpu_writer
