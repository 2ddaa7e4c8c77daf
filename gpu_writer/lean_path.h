// The lean way: one kernel on the worker's stream sends what can matter of a step's rows, and another one
// brings what samplers ask for, out of the rows, until the step is decided.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/head_rows.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/lean_replays.h"
#include "gpu_writer/named_ids.h"
#include "gpu_writer/request_answers.h"
#include "gpu_writer/request_queue.h"
#include "gpu_writer/sent_order.h"

namespace croupier::gpu_writer {

// Where a writer copies rows that may be written over behind their step.
struct RowCopies {
    std::size_t pitch = 0;           // bytes from row to row
    DeviceMemory<std::byte> memory;  // [slot][column]
    std::vector<Event> there;        // [slot]
};

// Where the GPU has the masks of the steps that were begun. They are copied then, most often long before the
// step's logits are there: read by its kernel out of the host's memory, 256 masks of 152,000 ids held a step
// up by 50 us.
struct MaskCopies {
    DeviceMemory<std::uint32_t> words;  // [slot][row][word]
    struct OfSlot {
        Event there;
        cudaError_t status = cudaSuccess;
        bool some = false;
    };
    std::vector<OfSlot> slots;
};

class LeanPath {
  public:
    // Where the GPU finds a place of the segment.
    using Address = std::function<std::uint64_t(const void*)>;

    // What a writer has beside the segment.
    struct Settings {
        bool copies = false;  // rows may be written over behind their step
        // In GPU memory and in pinned memory, for replays: launches that have found their step, and those
        // that found none.
        std::uint64_t* next = nullptr;
        std::uint64_t* empty_launches = nullptr;
    };
    static shm::Result<std::unique_ptr<LeanPath>> make(const shm::Segment& segment, std::uint32_t rank,
                                                       Address address, const Settings& settings);
    ~LeanPath();
    LeanPath(const LeanPath&) = delete;
    LeanPath& operator=(const LeanPath&) = delete;

    // Nothing waits on the GPU for block requests any more; steps that are sent later are not answered.
    void end_answers();

    // When the step is begun and watched: what its columns want.
    void prepare(const BegunStep& step, std::uint64_t opening);
    // `end`: but for the ready word and the stamps, which are the step's.
    shm::Result<bool> send(const EnqueuedRows& given, const EnqueuedHead* head, const BegunStep& step,
                           LeanEnd end, cudaStream_t worker);
    // Whether rows can be computed here, as send() does where a head is given.
    shm::Result<bool> can_compute() const { return head_rows_->can_compute(); }
    // Of GPU memory, for rows that are copied.
    std::uint64_t row_bytes() const;

    // Instead, where the enqueue was captured into a CUDA graph: what is requested of the step is answered,
    // and a replay sends it once it is published. `end` likewise.
    shm::Result<bool> expect(const BegunStep& step, LeanEnd end);
    void publish(std::uint64_t ticket) { replays_->publish(ticket); }
    // No replay sends the step until it is published anew.
    void forget(std::uint64_t ticket) { replays_->forget(ticket); }
    // Sends the expected step that is next when it runs, in a capture or outside.
    shm::Result<bool> send_expected(const EnqueuedRows& given, const EnqueuedHead* head, cudaStream_t worker);

    // Of the step that was sent or expected last in its slot: see RequestQueue.
    bool is_sent(std::uint64_t step) const { return queue_of(step).is_open_for(step); }
    shm::Result<std::uint64_t> answer_in(cudaStream_t stream, std::uint64_t step,
                                         const DeliveredTokens& tokens);
    void end_pass(std::uint64_t step, std::uint64_t pass) { queue_of(step).end_pass(pass); }

    // For the watcher's thread (StepWatcher::Calls).
    bool answer(const WatchedStep& step, const BlockRequest& request);
    void end(const WatchedStep& step) { queue_of(step.begun.step).close(step.opening); }
    bool rest(const WatchedStep& step) { return queue_of(step.begun.step).rest(step.opening); }
    bool rows_stay(const WatchedStep& step) const {
        return queue_of(step.begun.step).rows_stay(step.opening);
    }

  private:
    LeanPath(const shm::Segment& segment, std::uint32_t rank, Address address);
    shm::Result<bool> prepare_memory(const Settings& settings);
    shm::Result<bool> make_copies();
    shm::Result<bool> make_lists();
    shm::Result<bool> make_masks();
    void copy_masks(const BegunStep& step, std::span<const LeanWant> wants);
    // Behind this, the step's masks are there.
    shm::Result<StepMasks> await_masks(const BegunStep& step, cudaStream_t worker);
    LeanRows rows_of(const EnqueuedRows& given, std::uint64_t step, const StepMasks& masks) const;
    LeanSlice slice_of(const BegunStep& step) const;
    LeanEnd end_of(const BegunStep& step, LeanEnd end) const;
    LeanRecord record_of(const BegunStep& step, const LeanEnd& end);
    shm::Result<bool> launch_found(const EnqueuedRows& given, const EnqueuedHead* head,
                                   const FoundLimits& limits, cudaStream_t worker);
    shm::Result<bool> send_by_record(const EnqueuedRows& given, const EnqueuedHead* head,
                                     const BegunStep& step, const LeanEnd& end, cudaStream_t worker);
    std::byte* copies_of(std::uint32_t slot) const;
    StepMasks copied_masks(std::uint32_t slot) const;
    std::span<const LeanWant> wants_of(const BegunStep& step) const {
        return {wants_.get() + first_want(step.step), step.columns};
    }
    HeadRows::Wants head_wants(const BegunStep& step) const;
    // As record_of() has read it last; none without windows.
    std::span<const SentPlace> sent_of(const BegunStep& step) const {
        return step.windows ? order_.places() : std::span<const SentPlace>();
    }
    shm::Result<bool> send_beside(const LeanRows& rows, const LeanTarget& target, const BegunStep& step,
                                  std::span<const LeanWant> wants, cudaStream_t worker);
    // The rows as they are answered from, in memory that they keep.
    shm::Result<LeanRows> copy_rows(const LeanRows& rows, const BegunStep& step, cudaStream_t worker) const;
    std::size_t first_want(std::uint64_t step) const;
    RequestQueue& queue_of(std::uint64_t step) const { return *queues_[segment_.slot_of(step)]; }

    const shm::Segment& segment_;
    std::uint32_t rank_;
    Address address_;
    LeanShape shape_;
    DeviceMemory<std::byte> scratch_;
    DeviceMemory<std::byte> spread_scratch_;
    PinnedMemory<LeanWant> wants_;          // [slot][column]
    LeanWant* wants_there_ = nullptr;       // where the product reads them
    PinnedMemory<std::uint32_t> lists_;     // [slot][NamedIds::room_for()]
    std::uint32_t* lists_there_ = nullptr;  // where the kernel reads them
    std::vector<NamedIds> names_;           // [slot]
    Stream preparing_;                      // what a step waits for is made there before
    std::optional<LeanReplays> replays_;
    std::optional<RowCopies> copies_;
    std::optional<HeadRows> head_rows_;  // there is one behind make()
    std::optional<MaskCopies> masks_;
    std::vector<std::unique_ptr<RequestQueue>> queues_;  // [slot]
    std::vector<std::uint64_t> openings_;                // [slot]
    // Of the step that is prepared or sent.
    SentOrder order_;
    std::vector<WholeColumn> whole_;
    std::vector<SpreadColumn> spreads_;
    std::vector<std::uint64_t> bits_;  // the watcher's thread's
};

}  // namespace croupier::gpu_writer
