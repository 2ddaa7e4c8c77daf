// The writer without a device: what is enqueued is done before the call returns.
#include <algorithm>
#include <utility>
#include <vector>

#include "gpu_writer/decided_tokens.h"
#include "gpu_writer/step_writer.h"
#include "proto/philox.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

class HostStepWriter final : public StepWriter {
  public:
    explicit HostStepWriter(RankWriter rank)
        : StepWriter(std::move(rank)), decided_(rank_writer().segment()) {
        const proto::Geometry& geometry = rank_writer().geometry();
        steps_.resize(geometry.slots);
        rows_.resize(geometry.max_batch);
        inputs_.resize(geometry.max_batch);
        seeds_.resize(geometry.max_batch);
    }

    std::uint64_t late_steps() const override { return late_steps_; }
    std::uint64_t finished() const override { return finished_; }
    std::uint64_t enqueued() const override { return finished_; }

    shm::Result<bool> enqueue(void* stream, const EnqueuedRows& rows, const EnqueuedHead* head) override {
        if (head != nullptr) {
            return shm::fail(
                Errc::bad_argument,
                "a host's writer computes no logits: enqueue them, or attach with a GPU's number "
                "as `device`");
        }
        const BegunStep* step = next(stream);
        if (step == nullptr) return nothing_begun(stream);
        if (step->windows && rows.inputs == nullptr) return windows_need_inputs(step->step);
        if (!step->windows && rows.row_of != nullptr) {
            CROUPIER_TRY(check_rows_of(*step, rows.row_of));
        }
        ++finished_;
        const std::size_t element = proto::element_bytes(rank_writer().geometry().dtype);
        for (std::uint32_t column = 0; column < step->columns; ++column) {
            const std::int64_t row = rows.row_of == nullptr ? std::int64_t{column} : rows.row_of[column];
            // Samplers do not read the row of a column that has none.
            const auto offset = static_cast<std::size_t>(std::max<std::int64_t>(row, 0)) * rows.row_stride;
            rows_[column] = static_cast<const std::byte*>(rows.logits) + offset * element;
            if (!step->windows) continue;
            const std::uint32_t before = column == 0 ? 0 : column - 1;
            inputs_[column] = {
                row < 0 ? proto::RowInput::kNone : rows.inputs[column],
                rows.parents == nullptr ? before : static_cast<std::uint32_t>(rows.parents[column])};
        }
        return mutable_rank_writer().send(step->step, std::span(rows_).first(step->columns),
                                          std::span(inputs_).first(step->windows ? step->columns : 0));
    }

    shm::Result<bool> enqueue_randoms(void* stream) override {
        if (rank_writer().geometry().is_lean()) return randoms_need_rows();
        const BegunStep* step = next(stream);
        if (step == nullptr) return nothing_begun(stream);
        const auto randoms = rank_writer().randoms(step->step);
        read_seeds(rank_writer().segment(), rank_writer().columns(step->step), seeds_);
        for (std::size_t column = 0; column < randoms.size(); ++column) {
            const auto& [seed, position, child] = seeds_[column];
            for (std::uint32_t index = 0; index < 4; ++index) {
                randoms[column].stream[index] = proto::random_at(seed, position, child, index);
            }
        }
        return mutable_rank_writer().publish_randoms(step->step);
    }

  private:
    shm::Result<bool> queue(const BegunStep& step) override {
        steps_[step.ticket % steps_.size()] = step;
        return true;
    }
    void forget_after(std::uint64_t /*finished*/) override {}
    shm::Result<bool> send_tokens(void* stream, const proto::StoredArray<const proto::Decision>& decisions,
                                  std::int32_t* tokens) override {
        if (stream != nullptr) return needs_no_stream();
        for (const proto::Decision decision : decisions) *tokens++ = decision.token;
        return true;
    }

    shm::Result<bool> await_tokens(void* stream, const BegunStep& step, std::chrono::milliseconds timeout,
                                   std::int32_t* tokens) override {
        if (stream != nullptr) return needs_no_stream();
        decided_.begin(step.step, step.columns);
        CROUPIER_TRY(wait_tokens(step.step, timeout));
        if (const auto in_time = decided_.more()) {
            for (const auto& [column, token] : in_time.value()) tokens[column] = token;
        }
        if (decided_.all_given()) return true;
        for (const auto& [column, token] : decided_.give_up()) tokens[column] = token;
        ++late_steps_;
        return true;
    }

    const BegunStep* next(void* stream) const {
        if (stream != nullptr || finished_ == begun()) return nullptr;
        return &steps_[(finished_ + 1) % steps_.size()];
    }

    // Without windows, samplers read the row of each column.
    static shm::Result<bool> check_rows_of(const BegunStep& step, const std::int32_t* row_of) {
        for (std::uint32_t column = 0; column < step.columns; ++column) {
            if (row_of[column] >= 0) continue;
            return shm::fail(Errc::bad_argument, "row_of[" + std::to_string(column) + "] is " +
                                                     std::to_string(row_of[column]) + ", and step " +
                                                     std::to_string(step.step) +
                                                     " has no windows: each column needs a row");
        }
        return true;
    }

    static shm::Result<bool> needs_no_stream() {
        return shm::fail(Errc::bad_argument, "a host's writer has no stream: give it NULL");
    }

    shm::Result<bool> nothing_begun(void* stream) const {
        if (stream != nullptr) return needs_no_stream();
        return shm::fail(Errc::bad_argument, "no step is begun that was not enqueued: begin one first");
    }

    DecidedTokens decided_;
    std::uint64_t late_steps_ = 0;
    std::vector<BegunStep> steps_;
    std::vector<const void*> rows_;
    std::vector<proto::RowInput> inputs_;
    std::vector<ColumnSeed> seeds_;
    std::uint64_t finished_ = 0;
};

}  // namespace

shm::Result<std::unique_ptr<StepWriter>> attach_host_writer(const WriterOptions& options) {
    CROUPIER_TRY_VALUE(rank, RankWriter::attach(options.segment_path, options.rank));
    return std::unique_ptr<StepWriter>(new HostStepWriter(std::move(rank)));
}

}  // namespace croupier::gpu_writer
