#include "gpu_writer/lean_path.h"

#include <algorithm>
#include <utility>

#include "gpu_writer/column_wants.h"
#include "shm/block_requests.h"

namespace croupier::gpu_writer {
namespace {

// Rows stand in whole blocks, and so are read and computed sixteen bytes at a time.
std::size_t pitch_of_copies(const SliceShape& slice) {
    return std::size_t{slice.blocks} * proto::kBlockIds * proto::element_bytes(slice.dtype);
}

}  // namespace

shm::Result<std::unique_ptr<LeanPath>> LeanPath::make(const shm::Segment& segment, std::uint32_t rank,
                                                      Address address, const Settings& settings) {
    std::unique_ptr<LeanPath> path(new LeanPath(segment, rank, std::move(address)));
    CROUPIER_TRY(path->prepare_memory(settings));
    if (settings.copies) {
        CROUPIER_TRY(path->make_copies());
    }
    return path;
}

LeanPath::LeanPath(const shm::Segment& segment, std::uint32_t rank, Address address)
    : segment_(segment),
      rank_(rank),
      address_(std::move(address)),
      shape_(lean_shape(segment.geometry(), rank, 1)),
      openings_(segment.geometry().slots),
      order_(segment.geometry().max_batch),
      bits_((shape_.slice.blocks + 63) / 64) {}

LeanPath::~LeanPath() {
    end_answers();
}

void LeanPath::end_answers() {
    for (const auto& queue : queues_) queue->close_for_good();
}

shm::Result<bool> LeanPath::prepare_memory(const Settings& settings) {
    const proto::Geometry& geometry = segment_.geometry();
    // The worker's stream may wait for the very tokens that an answer is for.
    CROUPIER_TRY(cuda_done(load_lean_kernels(geometry.dtype), "cannot load the kernel of lean steps"));
    CROUPIER_TRY(
        cuda_done(load_whole_columns_kernels(geometry.dtype), "cannot load the kernel of whole columns"));
    CROUPIER_TRY(cuda_done(load_spread_kernels(geometry.dtype), "cannot load the row-spread kernel"));
    CROUPIER_TRY(keep(
        scratch_,
        device_array<std::byte>(lean_scratch_bytes(geometry.dtype, shape_.slice.blocks, geometry.max_batch),
                                "what a lean step measures")));
    CROUPIER_TRY(keep(spread_scratch_, device_array<std::byte>(spread_scratch_bytes(), "row spreads")));
    const std::size_t columns = std::size_t{geometry.slots} * geometry.max_batch;
    CROUPIER_TRY(keep(wants_, pinned_array<LeanWant>(columns, "what columns want")));
    CROUPIER_TRY(keep(wants_there_, device_pointer<LeanWant>(wants_.get(), "what columns want")));
    CROUPIER_TRY(make_lists());
    for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
        CROUPIER_TRY_VALUE(queue, RequestQueue::make(geometry.dtype, shape_.slice.blocks));
        queues_.push_back(std::move(queue));
    }
    CROUPIER_TRY(keep(preparing_, make_stream()));
    CROUPIER_TRY_VALUE(replays, LeanReplays::make(geometry, settings.next, settings.empty_launches));
    replays_.emplace(std::move(replays));
    CROUPIER_TRY_VALUE(head,
                       HeadRows::make(shape_.slice, {scratch_.get(), geometry.max_batch, geometry.slots}));
    head_rows_.emplace(std::move(head));
    return make_masks();
}

shm::Result<bool> LeanPath::make_lists() {
    const proto::Geometry& geometry = segment_.geometry();
    const std::size_t room = NamedIds::room_for(geometry);
    CROUPIER_TRY(keep(lists_, pinned_array<std::uint32_t>(geometry.slots * room, "the ids that are named")));
    CROUPIER_TRY(keep(lists_there_, device_pointer<std::uint32_t>(lists_.get(), "the ids that are named")));
    for (std::uint32_t slot = 0; slot < geometry.slots; ++slot)
        names_.emplace_back(std::span(lists_.get() + slot * room, room), geometry.max_batch);
    return true;
}

shm::Result<bool> LeanPath::make_copies() {
    const proto::Geometry& geometry = segment_.geometry();
    RowCopies& copies = copies_.emplace();
    copies.pitch = pitch_of_copies(shape_.slice);
    const std::size_t bytes = copies.pitch * geometry.max_batch * geometry.slots;
    CROUPIER_TRY(keep(copies.memory, device_array<std::byte>(
                                         bytes, "the rows of " + std::to_string(geometry.slots) + " steps")));
    copies.there.resize(geometry.slots);
    for (Event& event : copies.there) {
        CROUPIER_TRY(keep(event, make_event()));
    }
    return true;
}

std::uint64_t LeanPath::row_bytes() const {
    if (!copies_) return 0;
    const proto::Geometry& geometry = segment_.geometry();
    return std::uint64_t{copies_->pitch} * geometry.max_batch * geometry.slots;
}

shm::Result<LeanRows> LeanPath::copy_rows(const LeanRows& rows, const BegunStep& step,
                                          cudaStream_t worker) const {
    const std::size_t element = proto::element_bytes(rows.dtype);
    const std::uint32_t slot = segment_.slot_of(step.step);
    std::byte* const to = copies_of(slot);
    if (rows.entries > 0) {
        CROUPIER_TRY(cuda_done(
            cudaMemcpy2DAsync(to, copies_->pitch, rows.logits, rows.row_stride * element,
                              std::size_t{rows.entries} * element, step.columns, cudaMemcpyDefault, worker),
            "cannot copy a step's rows"));
    }
    CROUPIER_TRY(cuda_done(cudaEventRecord(copies_->there[slot].get(), worker), "cannot mark copied rows"));
    LeanRows kept = rows;
    kept.logits = to;
    kept.row_stride = copies_->pitch / element;
    return kept;
}

shm::Result<bool> LeanPath::make_masks() {
    const proto::Geometry& geometry = segment_.geometry();
    if (geometry.mask_rows == 0) return true;
    MaskCopies& masks = masks_.emplace();
    const std::size_t words = segment_.layout().mask_row_words * geometry.mask_rows;
    CROUPIER_TRY(
        keep(masks.words, device_array<std::uint32_t>(words * geometry.slots, "the steps' grammar masks")));
    masks.slots.resize(geometry.slots);
    for (MaskCopies::OfSlot& slot : masks.slots) {
        CROUPIER_TRY(keep(slot.there, make_event()));
    }
    return true;
}

// They stand in the step's first rows, one behind the other.
void LeanPath::copy_masks(const BegunStep& step, std::span<const LeanWant> wants) {
    if (!masks_) return;
    std::uint32_t rows = 0;
    for (const LeanWant& want : wants) rows = std::max<std::uint32_t>(rows, want.mask_row);
    const std::uint32_t slot = segment_.slot_of(step.step);
    MaskCopies::OfSlot& own = masks_->slots[slot];
    own.some = rows > 0;
    if (!own.some) return;
    const StepMasks from = masks_of(segment_, step.step);
    const std::size_t bytes = from.row_words * sizeof(*from.words);
    own.status = cudaMemcpyAsync(masks_->words.get() + slot * from.row_words * segment_.geometry().mask_rows,
                                 from.words, bytes * rows, cudaMemcpyHostToDevice, preparing_.get());
    if (own.status == cudaSuccess) own.status = cudaEventRecord(own.there.get(), preparing_.get());
}

StepMasks LeanPath::copied_masks(std::uint32_t slot) const {
    const std::uint64_t words = segment_.layout().mask_row_words;
    return {masks_->words.get() + slot * words * segment_.geometry().mask_rows, words};
}

shm::Result<StepMasks> LeanPath::await_masks(const BegunStep& step, cudaStream_t worker) {
    const std::uint32_t slot = segment_.slot_of(step.step);
    if (!masks_ || !masks_->slots[slot].some) return StepMasks{};
    const MaskCopies::OfSlot& own = masks_->slots[slot];
    CROUPIER_TRY(cuda_done(own.status, "cannot copy a step's grammar masks to the GPU"));
    CROUPIER_TRY(
        cuda_done(cudaStreamWaitEvent(worker, own.there.get()), "cannot wait for a step's grammar masks"));
    return copied_masks(slot);
}

LeanRows LeanPath::rows_of(const EnqueuedRows& given, std::uint64_t step, const StepMasks& masks) const {
    const SliceShape& slice = shape_.slice;
    return {given.logits,
            given.row_stride,
            slice.dtype,
            slice.lead,
            slice.entries,
            slice.blocks,
            shape_.first_block,
            masks,
            {lists_there_ + segment_.slot_of(step) * NamedIds::room_for(segment_.geometry())},
            given.row_of,
            given.row_end};
}

LeanSlice LeanPath::slice_of(const BegunStep& step) const {
    return {address_(segment_.logits(segment_.slot_of(step.step), rank_)), step.columns,
            segment_.geometry().row_places(step.columns)};
}

LeanEnd LeanPath::end_of(const BegunStep& step, LeanEnd end) const {
    const auto& ready = segment_.ready(segment_.slot_of(step.step), rank_);
    proto::ReadyWord complete = step.word;
    complete.tiles = proto::ReadyWord::kLean;
    end.ready = address_(&ready.word);
    end.word = complete.pack();
    end.stamps = address_(ready.stamps);
    return end;
}

std::byte* LeanPath::copies_of(std::uint32_t slot) const {
    const std::size_t before = std::size_t{shape_.slice.lead} * proto::element_bytes(shape_.slice.dtype);
    return copies_->memory.get() + std::size_t{slot} * segment_.geometry().max_batch * copies_->pitch +
           before;
}

std::size_t LeanPath::first_want(std::uint64_t step) const {
    return std::size_t{segment_.slot_of(step)} * segment_.geometry().max_batch;
}

void LeanPath::prepare(const BegunStep& step, std::uint64_t opening) {
    openings_[segment_.slot_of(step.step)] = opening;
    const std::span<LeanWant> wants(wants_.get() + first_want(step.step), step.columns);
    const std::uint32_t slot = segment_.slot_of(step.step);
    read_wants(segment_, segment_.schedule_columns(slot).part(0, step.columns), names_[slot], wants);
    copy_masks(step, wants);
    head_rows_->copy_wants(head_wants(step), preparing_.get());
}

HeadRows::Wants LeanPath::head_wants(const BegunStep& step) const {
    return {wants_of(step), wants_there_ + first_want(step.step), segment_.slot_of(step.step)};
}

shm::Result<bool> LeanPath::send(const EnqueuedRows& given, const EnqueuedHead* head, const BegunStep& step,
                                 LeanEnd end, cudaStream_t worker) {
    const bool gathers = step.windows || given.row_of != nullptr || given.positions != nullptr;
    if (gathers) return send_by_record(given, head, step, end, worker);
    RequestQueue& queue = queue_of(step.step);
    CROUPIER_TRY_VALUE(masks, await_masks(step, worker));
    LeanRows rows = rows_of(given, step.step, masks);
    // What is still laid of a step that had the slot and was given up comes before all of this one.
    CROUPIER_TRY(queue.hold(worker));
    const std::uint32_t slot = segment_.slot_of(step.step);
    if (head != nullptr) {
        CROUPIER_TRY(head_rows_->compute(*head, head_wants(step), !copies_, rows, worker));
    }
    const LeanTarget target{address_(segment_.lean(slot, rank_)), shape_.layout, shape_.room};
    CROUPIER_TRY(send_beside(rows, target, step, wants_of(step), worker));
    CROUPIER_TRY(
        cuda_done(launch_lean(rows, target, wants_of(step), end_of(step, end), scratch_.get(), worker),
                  "cannot launch a lean step"));
    // Behind the step, which does not wait for the copy. What is requested meanwhile is asked for again.
    // Where it fails the step is on its way all the same, and what is requested is answered from the rows.
    shm::Result<LeanRows> kept = rows;
    if (copies_) kept = copy_rows(rows, step, worker);
    const bool stay = copies_ && kept;
    queue.open({kept ? kept.value() : rows, slice_of(step), step.step, openings_[slot], worker,
                stay ? copies_->there[slot].get() : nullptr, nullptr, stay});
    if (!kept) return kept.error();
    return true;
}

LeanRecord LeanPath::record_of(const BegunStep& step, const LeanEnd& end) {
    LeanRecord record;
    record.ticket = step.ticket;
    record.slot = segment_.slot_of(step.step);
    record.opening = openings_[record.slot];
    record.part = address_(segment_.lean(record.slot, rank_));
    record.slice = slice_of(step);
    record.end = end_of(step, end);
    record.order = proto::LeanOrder(step.columns);
    record.names = rows_of({}, step.step, {}).names;
    if (copies_) record.kept = copies_of(record.slot);
    if (!step.windows) return record;
    record.windows = 1;
    record.inputs = address_(segment_.inputs(record.slot, rank_));
    order_.read(segment_.schedule_columns(record.slot).part(0, step.columns), step.windows);
    for (const SentPlace& place : order_.places()) {
        if (place.part < order_.last_part()) ++record.part_sizes[place.part];
    }
    return record;
}

// What the engine's arrays say is known when its launch runs, and only on the GPU: as with a replay's step, a
// kernel before it finds what the others need.
shm::Result<bool> LeanPath::send_by_record(const EnqueuedRows& given, const EnqueuedHead* head,
                                           const BegunStep& step, const LeanEnd& end, cudaStream_t worker) {
    RequestQueue& queue = queue_of(step.step);
    LeanRecord record = record_of(step, end);
    CROUPIER_TRY_VALUE(masks, await_masks(step, worker));
    record.masks = masks;
    // What is still laid of a step that had the slot and was given up comes before all of this one.
    CROUPIER_TRY(queue.hold(worker));
    queue.open({rows_of({}, step.step, {}), record.slice, step.step, record.opening, worker, nullptr,
                replays_->rows(record.slot), copies_.has_value()});
    CROUPIER_TRY(replays_->prepare(record, wants_of(step), sent_of(step), nullptr));
    replays_->publish(step.ticket);
    FoundLimits limits{step.columns, false, false};
    for (const LeanWant& want : wants_of(step)) {
        limits.has_whole = limits.has_whole || want.flags.has(Want::whole);
        limits.has_spreads = limits.has_spreads || sums_spread(want);
    }
    return launch_found(given, head, limits, worker);
}

shm::Result<bool> LeanPath::expect(const BegunStep& step, LeanEnd end) {
    const BesideCapture beside;
    LeanRecord record = record_of(step, end);
    RequestQueue& queue = queue_of(step.step);
    // What is still laid of a step that had the slot and was given up comes before all of this one.
    CROUPIER_TRY_VALUE(is_prepared, queue.hold(preparing_.get()));
    if (masks_ && masks_->slots[record.slot].some) {
        CROUPIER_TRY(
            cuda_done(masks_->slots[record.slot].status, "cannot copy a step's grammar masks to the GPU"));
        record.masks = copied_masks(record.slot);
        is_prepared = true;
    }
    // Behind that: for a kernel of this opening's the step would wait as well.
    queue.open({rows_of({}, step.step, {}), record.slice, step.step, record.opening, std::nullopt, nullptr,
                replays_->rows(record.slot), copies_.has_value()});
    return replays_->prepare(record, wants_of(step), sent_of(step), is_prepared ? preparing_.get() : nullptr);
}

shm::Result<bool> LeanPath::send_expected(const EnqueuedRows& given, const EnqueuedHead* head,
                                          cudaStream_t worker) {
    return launch_found(given, head, {segment_.geometry().max_batch}, worker);
}

shm::Result<bool> LeanPath::launch_found(const EnqueuedRows& given, const EnqueuedHead* head,
                                         const FoundLimits& limits, cudaStream_t worker) {
    const EnqueuedRows found = head == nullptr ? given : head_rows_->found(given, *head);
    const LeanRows rows = rows_of(found, 0, {});
    const LeanTarget target{0, shape_.layout, shape_.room};
    const ReplayRing& ring = replays_->ring();
    CROUPIER_TRY(cuda_done(launch_find_step(rows, found, ring, worker),
                           "cannot launch what finds a lean step on the GPU"));
    if (head != nullptr) {
        CROUPIER_TRY(head_rows_->compute_found(*head, found, ring.step, worker));
    }
    CROUPIER_TRY(cuda_done(launch_found_lean(rows, found.has_arrays(), limits, target, ring, scratch_.get(),
                                             spread_scratch_.get(), worker),
                           "cannot launch a lean step that is found on the GPU"));
    if (!copies_) return true;
    return cuda_done(launch_keep_rows(rows, replays_->ring(), copies_->pitch, worker),
                     "cannot launch the copy of a lean step's rows");
}

// What only some columns have, by kernels of their own: before the step's, so that its word covers it.
shm::Result<bool> LeanPath::send_beside(const LeanRows& rows, const LeanTarget& target, const BegunStep& step,
                                        std::span<const LeanWant> wants, cudaStream_t worker) {
    whole_.clear();
    spreads_.clear();
    for (std::uint32_t column = 0; column < step.columns; ++column) {
        const LeanWant& want = wants[column];
        if (want.flags.has(Want::whole)) {
            whole_.push_back({column, want.place});
        } else if (sums_spread(want)) {
            spreads_.push_back({column, want.mask_row, want.scale});
        }
    }
    CROUPIER_TRY(cuda_done(launch_whole_columns(rows, slice_of(step), whole_, worker),
                           "cannot launch a lean step's whole columns"));
    return cuda_done(launch_spreads(rows, target, spreads_, spread_scratch_.get(), worker),
                     "cannot launch a lean step's spreads");
}

shm::Result<std::uint64_t> LeanPath::answer_in(cudaStream_t stream, std::uint64_t step,
                                               const DeliveredTokens& tokens) {
    return queue_of(step).answer_in(stream, tokens);
}

bool LeanPath::answer(const WatchedStep& step, const BlockRequest& request) {
    const std::uint64_t number = step.begun.step;
    const shm::BlockRequests board(segment_, number, shm::writer_epochs(segment_));
    own_bits(request.bits, shape_.first_block, shape_.slice.blocks, bits_);
    return queue_of(number).post(step.opening,
                                 {request.column, wants_of(step.begun)[request.column].place, bits_,
                                  address_(&board.answer(request.column, rank_)), request.word});
}

}  // namespace croupier::gpu_writer
