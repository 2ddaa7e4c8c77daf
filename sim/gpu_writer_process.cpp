// A rank whose logits are computed on a GPU. The model and the CUDA writer run on the worker's stream. Tokens
// come back from the segment: fetched by a thread, or awaited by the stream as in vLLM.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "croupier/writer.h"
#include "shm/column_due.h"
#include "shm/segment.h"
#include "shm/wait_strategy.h"
#include "sim/captured_enqueue.h"
#include "sim/drafter.h"
#include "sim/lm_head.h"
#include "sim/writer_process.h"

namespace croupier::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAttachPatience{60};
constexpr std::uint32_t kLookMs = 100;
// Much longer than a daemon's death and its successor's start take.
constexpr std::uint32_t kTokensMs = 60'000;

struct Detach {
    void operator()(croupier_writer* writer) const { croupier_writer_detach(writer); }
};
using Writer = std::unique_ptr<croupier_writer, Detach>;

int device_of(std::uint32_t rank) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        throw std::runtime_error("--writer cuda needs a CUDA device, but none is available");
    }
    return static_cast<int>(rank % static_cast<std::uint32_t>(devices));
}

class GpuRank {
  public:
    GpuRank(const World& world, std::uint32_t rank, LmHead& head, Writer writer,
            const std::string& segment_path)
        : world_(world),
          rank_(rank),
          head_(head),
          writer_(std::move(writer)),
          awaits_(world.options.awaits_tokens),
          held_(world.plan.size(), 0) {
        if (drafts()) drafter_.emplace(world);
        auto segment = shm::Segment::attach(segment_path, shm::Access::read_only);
        if (!segment) throw std::runtime_error(segment.error().message);
        segment_ = std::make_unique<shm::Segment>(std::move(segment).value());
    }

    void serve() {
        shm::WaitStrategy patience({shm::WaitMode::adaptive, std::chrono::milliseconds(2), {}});
        while (!writer_served(world_) && open()) {
            const bool found = (awaits_ ? take_awaited() : take_tokens()) || begin_next();
            // Nothing is in flight: begin_next() has already waited.
            patience.idle(found || in_flight_.empty() ? 1 : 0, [](std::chrono::nanoseconds) {
                std::this_thread::sleep_for(std::chrono::microseconds(50));
            });
        }
    }

  private:
    struct Step {
        std::uint64_t step = 0;
        std::vector<ColumnInput> inputs;
    };

    bool open() const {
        croupier_writer_state state;
        croupier_writer_state_init(&state);
        return croupier_writer_get_state(writer_.get(), &state, nullptr) == 0 && state.open != 0;
    }
    [[noreturn]] void fail(const croupier_error& error) const { throw std::runtime_error(error.text); }

    bool begin_next() {
        std::uint64_t step = 0;
        std::uint32_t columns = 0;
        croupier_error error{};
        const std::uint32_t patience_ms = in_flight_.empty() ? kLookMs : 0;
        if (croupier_writer_wait_step(writer_.get(), patience_ms, &step, &columns, &error) != 1) return false;
        if (awaits_ && !settle()) return false;
        const int begun = croupier_writer_begin(writer_.get(), step, &error);
        // Refused because the rank was fenced or the session closed; serve() handles both.
        if (begun != 0) return false;
        in_flight_.push_back({step, drafts() ? draft(step, columns) : inputs_of(step, columns)});
        head_.forward(segment_->slot_of(step), in_flight_.back().inputs);
        send(segment_->slot_of(step));
        if (world_.options.rows_copied) head_.spoil(segment_->slot_of(step));
        if (awaits_) await_tokens(step);
        return true;
    }

    void send(std::uint32_t slot) {
        if (!world_.options.replays_graphs) return enqueue(slot, head_.stream());
        // One graph for each buffer of logits, as an engine has one for each batch size.
        auto& graph = graphs_[slot];
        if (graph == nullptr)
            graph = std::make_unique<CapturedEnqueue>(head_.stream(),
                                                      [&](void* stream) { enqueue(slot, stream); });
        graph->replay();
    }
    void enqueue(std::uint32_t slot, void* stream) {
        croupier_error error{};
        if (world_.options.randoms_in_ring && rank_ == 0 &&
            croupier_writer_enqueue_randoms(writer_.get(), stream, &error) != 0) {
            fail(error);
        }
        croupier_rows rows;
        croupier_rows_init(&rows);
        rows.logits = head_.logits(slot);
        rows.row_stride = head_.row_stride();
        if (drafts()) {
            rows.row_of = head_.told(slot, ColumnArray::row_of);
            rows.inputs = head_.told(slot, ColumnArray::inputs);
            rows.parents = head_.told(slot, ColumnArray::parents);
            rows.positions = head_.told(slot, ColumnArray::positions);
        }
        if (croupier_writer_enqueue_rows(writer_.get(), stream, &rows, &error) != 0) fail(error);
    }

    void await_tokens(std::uint64_t step) {
        const std::uint32_t slot = segment_->slot_of(step);
        croupier_error error{};
        if (croupier_writer_enqueue_awaited_tokens(writer_.get(), head_.stream(), step, kTokensMs,
                                                   head_.tokens(slot), &error) != 0) {
            fail(error);
        }
        head_.keep_tokens(slot);
    }

    // Tokens that the stream waits for arrive within microseconds, or the wait times out. Returns false if
    // the session is over.
    bool settle() {
        while (!in_flight_.empty() && !take_awaited()) {
            if (!open()) return false;
        }
        return true;
    }

    // A token that did not come back to this GPU is sent with the step, as an engine does after a restart.
    std::vector<ColumnInput> inputs_of(std::uint64_t step, std::uint32_t columns) {
        const auto columns_of_step = segment_->schedule_columns(segment_->slot_of(step));
        std::vector<ColumnInput> inputs;
        for (std::uint32_t column = 0; column < columns; ++column) {
            const proto::ScheduleColumn asked = columns_of_step[column];
            const auto index = static_cast<std::uint32_t>(asked.sequence_uid - 1);
            const std::uint32_t position = asked.position;
            const bool here = position > 0 && held_[index] == position;
            inputs.push_back(
                {index, position, here ? kInGpuMemory : world_.previous_token(world_.plan[index], position)});
        }
        return inputs;
    }

    bool drafts() const { return world_.options.draft > 0; }

    // The same where steps have windows: nothing of their rows is in the GPU's memory. The rows stand in the
    // columns' order from the last to the first.
    std::vector<ColumnInput> draft(std::uint64_t step, std::uint32_t columns) {
        const std::uint32_t slot = segment_->slot_of(step);
        const auto asked = segment_->schedule_columns(slot).part(0, columns);
        const std::uint32_t writers = writers_so_far(*segment_);
        std::vector<ColumnInput> inputs;
        ColumnArrays told;
        for (std::uint32_t head = 0, next = 0; head < columns; head = next) {
            for (next = head + 1; next < columns && asked[next].load().row != 0;) ++next;
            draft_window(step, head, next - head, writers, inputs, told);
        }
        for (std::uint32_t column = 0; column < columns; ++column) {
            const bool absent = told[static_cast<std::size_t>(ColumnArray::inputs)][column] < 0 &&
                                asked[column].load().row != 0;
            told[static_cast<std::size_t>(ColumnArray::row_of)].push_back(
                absent ? -1 : static_cast<std::int32_t>(columns - 1 - column));
        }
        head_.tell(slot, told);
        std::reverse(inputs.begin(), inputs.end());
        return inputs;
    }
    void draft_window(std::uint64_t step, std::uint32_t head, std::uint32_t rows, std::uint32_t writers,
                      std::vector<ColumnInput>& inputs, ColumnArrays& told) {
        const proto::ScheduleColumn asked = segment_->schedule_columns(segment_->slot_of(step))[head];
        const Request& request = world_.plan[static_cast<std::uint32_t>(asked.sequence_uid - 1)];
        // No earlier step has the sequence (--ahead); of a void one the rows are not read.
        const std::uint32_t outputs = shm::due_of(*segment_, step, head, asked).outputs;
        const std::int32_t* log = segment_->token_log(asked.sequence_slot);
        const std::span prompt(log, request.prompt_length);
        const std::span output(log + request.prompt_length, outputs);
        const auto tell = [&](ColumnArray which, std::int64_t number) {
            told[static_cast<std::size_t>(which)].push_back(static_cast<std::int32_t>(number));
        };
        const std::vector<DraftedRow> window = rows == 1
                                                   ? std::vector{head_behind(output)}
                                                   : drafter_->draft(request, prompt, output, rows, writers);
        for (const DraftedRow& drafted : window) {
            tell(ColumnArray::inputs, drafted.input);
            tell(ColumnArray::parents, head + drafted.parent);
            tell(ColumnArray::positions, std::int64_t{request.prompt_length} + drafted.position - 1);
            const bool first = drafted.input == proto::RowInput::kAny;
            inputs.push_back({request.index, drafted.position, first ? prompt.back() : drafted.input});
        }
    }

    bool take_awaited() {
        if (in_flight_.empty()) return false;
        const std::uint32_t slot = segment_->slot_of(in_flight_.front().step);
        if (!head_.are_kept(slot)) return false;
        const std::vector<ColumnInput> inputs = std::move(in_flight_.front().inputs);
        in_flight_.pop_front();
        note_block_requests();
        if (!came_late()) note_latency(slot, inputs);
        // -1: an error or a late token; the scheduler handles both.
        const std::vector<std::int32_t> kept = head_.kept_tokens(slot);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (kept[i] >= 0 && !drafts()) held_[inputs[i].request] = inputs[i].position + 1;
        }
        return true;
    }

    // Whether another awaited step had no tokens in time.
    bool came_late() {
        croupier_writer_state state;
        croupier_writer_state_init(&state);
        if (croupier_writer_get_state(writer_.get(), &state, nullptr) != 0) return true;
        const std::uint64_t more = state.late_steps - late_steps_;
        late_steps_ = state.late_steps;
        world_.ledger.head().late_steps.fetch_add(more);
        return more > 0;
    }

    void note_block_requests() const {
        if (rank_ == 0) world_.ledger.head().block_requests = block_requests_of(*segment_);
    }
    // Called before the slot's next step is launched. Without --await-tokens, the fetch was launched a few
    // microseconds ago.
    void note_latency(std::uint32_t slot, const std::vector<ColumnInput>& inputs) const {
        if (inputs.size() == world_.options.batch)
            world_.ledger.head().gpu_latency.add(head_.latency_ns(slot));
    }

    bool take_tokens() {
        if (in_flight_.empty()) return false;
        const std::uint64_t step = in_flight_.front().step;
        const std::uint32_t slot = segment_->slot_of(step);
        const int decided = croupier_writer_wait_tokens(writer_.get(), step, 0, nullptr);
        if (decided == 0) return false;
        const std::vector<ColumnInput> inputs = std::move(in_flight_.front().inputs);
        in_flight_.pop_front();
        note_block_requests();
        // The scheduler was faster, the step was refused or the session has ended: the tokens are sent with
        // the next step.
        if (decided < 0 || croupier_writer_enqueue_tokens(writer_.get(), head_.stream(), step,
                                                          head_.tokens(slot), nullptr) != 0) {
            return true;
        }
        head_.keep_tokens(slot);
        // Not read from the segment, whose slot may already hold the next step.
        if (!drafts()) {
            for (const ColumnInput& input : inputs) held_[input.request] = input.position + 1;
        }
        note_latency(slot, inputs);
        return true;
    }

    const World& world_;
    std::uint32_t rank_;
    LmHead& head_;
    Writer writer_;
    bool awaits_;
    std::uint64_t late_steps_ = 0;
    std::unique_ptr<shm::Segment> segment_;
    std::vector<std::uint32_t> held_;  // by request: positions whose tokens are on the GPU
    std::deque<Step> in_flight_;
    std::optional<Drafter> drafter_;
    // Destroyed before the writer, whose memory they use.
    std::map<std::uint32_t, std::unique_ptr<CapturedEnqueue>> graphs_;  // by slot
};

// Retries like the CPU writer: a dead process may hold the rank until the kernel has cleaned up.
Writer attach(const World& world, std::uint32_t rank, int device, std::string& path) {
    const auto deadline = Clock::now() + kAttachPatience;
    while (!writer_served(world)) {
        path = await_segment(world);
        if (path.empty()) continue;
        croupier_writer_options options;
        croupier_writer_options_init(&options);
        options.segment_path = path.c_str();
        options.rank = rank;
        options.device = device;
        options.rows = world.options.rows_copied ? CROUPIER_WRITER_ROWS_COPIED : CROUPIER_WRITER_ROWS_LENT;
        croupier_writer* writer = nullptr;
        croupier_error error{};
        if (croupier_writer_attach(&options, &writer, &error) == 0) return Writer(writer);
        if (Clock::now() > deadline) throw std::runtime_error(error.text);
    }
    return nullptr;
}

}  // namespace

void run_gpu_writer(const World& world, std::uint32_t rank) {
    const int device = device_of(rank);
    LmHead head(world, rank, device);
    std::string path;
    while (Writer writer = attach(world, rank, device, path)) {
        GpuRank(world, rank, head, std::move(writer), path).serve();
    }
}

}  // namespace croupier::sim
