// What the C ABI drives: a rank's writer, on a host or on a GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu_writer/begun_steps.h"
#include "gpu_writer/decided_tokens.h"
#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/rank_writer.h"

namespace croupier::gpu_writer {

// How whole rows leave a GPU.
enum class RowPath : std::uint32_t { automatic = 0, store = 1, copy = 2 };
// Whether rows may be written over before a lean step is decided.
enum class RowsAre : std::uint32_t { automatic = 0, lent = 1, copied = 2 };

struct WriterOptions {
    std::string segment_path;
    std::uint32_t rank = 0;
    int device = -1;
    RowPath path = RowPath::automatic;
    std::uint32_t store_blocks = 0;
    RowsAre rows = RowsAre::automatic;
};

class StepWriter {
  public:
    virtual ~StepWriter() = default;
    StepWriter(const StepWriter&) = delete;
    StepWriter& operator=(const StepWriter&) = delete;

    const RankWriter& rank_writer() const { return rank_writer_; }
    std::optional<std::uint64_t> wait_step(std::chrono::milliseconds timeout) {
        return rank_writer_.wait_step(timeout, steps_.next_wanted());
    }
    std::uint64_t begun() const { return steps_.begun(); }
    enum class Begin { begun, busy };  // busy: as CROUPIER_WRITER_BUSY
    shm::Result<Begin> begin(std::uint64_t step);
    shm::Result<bool> abandon();

    virtual std::uint64_t finished() const = 0;
    // Of the steps that were begun, how many an enqueue took; all of them where graphs are replayed.
    virtual std::uint64_t enqueued() const = 0;
    virtual std::uint64_t empty_launches() const { return 0; }
    virtual std::uint64_t late_steps() const = 0;
    virtual std::uint32_t store_blocks() const { return 0; }
    // Of the GPU's memory, for rows that the writer copies.
    virtual std::uint64_t row_bytes() const { return 0; }
    // As croupier_writer_info has them.
    virtual std::uint32_t head_rows() const { return 0; }
    // `head`: null, or the rows are computed from it.
    virtual shm::Result<bool> enqueue(void* stream, const EnqueuedRows& rows, const EnqueuedHead* head) = 0;
    virtual shm::Result<bool> enqueue_randoms(void* stream) = 0;

    enum class Wait { decided, timed_out, ended };  // ended: the session is, before it was decided
    shm::Result<Wait> wait_tokens(std::uint64_t step, std::chrono::milliseconds timeout) const;
    shm::Result<bool> enqueue_tokens(void* stream, std::uint64_t step, std::int32_t* tokens);
    // Of a step that need not be decided yet; -1 in its columns when it is not in time.
    shm::Result<bool> enqueue_awaited_tokens(void* stream, std::uint64_t step,
                                             std::chrono::milliseconds timeout, std::int32_t* tokens);

  protected:
    explicit StepWriter(RankWriter rank)
        : rank_writer_(std::move(rank)), steps_(rank_writer_), latest_(rank_writer_.geometry().slots) {}

    RankWriter& mutable_rank_writer() { return rank_writer_; }
    static shm::Result<bool> windows_need_inputs(std::uint64_t step);
    // What a session of the transport lean answers to a writer that would supply randoms.
    static shm::Result<bool> randoms_need_rows();
    // Called when there is room for it. Where it fails the step is not begun.
    virtual shm::Result<bool> queue(const BegunStep& step) = 0;
    // What was enqueued is finished, once its stream has come to it.
    virtual shm::Result<bool> settle() { return true; }
    virtual void forget_after(std::uint64_t finished) = 0;
    virtual shm::Result<bool> send_tokens(void* stream,
                                          const proto::StoredArray<const proto::Decision>& decisions,
                                          std::int32_t* tokens) = 0;

    virtual shm::Result<bool> await_tokens(void* stream, const BegunStep& step,
                                           std::chrono::milliseconds timeout, std::int32_t* tokens) = 0;

  private:
    // As this writer began it last.
    shm::Result<BegunStep> begun_step(std::uint64_t step) const;
    // Of a step that this writer began: whether its tokens are there.
    shm::Result<StepState> state_of_begun(std::uint64_t step) const;

    RankWriter rank_writer_;
    BegunSteps steps_;
    std::vector<BegunStep> latest_;  // by slot
};

shm::Result<std::unique_ptr<StepWriter>> attach_host_writer(const WriterOptions& options);
// Without CUDA in this build: refused, with a text that says so.
shm::Result<std::unique_ptr<StepWriter>> attach_cuda_writer(const WriterOptions& options);

}  // namespace croupier::gpu_writer
