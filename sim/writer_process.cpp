#include "sim/writer_process.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpu_writer/rank_writer.h"
#include "proto/philox.h"
#include "shm/column_due.h"
#include "shm/futex.h"
#include "shm/step_window.h"
#include "sim/drafter.h"
#include "sim/keyed_hash.h"

namespace croupier::sim {
namespace {

using gpu_writer::RankWriter;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kAttachPatience{30};
constexpr std::uint64_t kPerturbKey = 12;
constexpr double kPerturbed = 0.05;
constexpr float kPerturbedTo = 40.0F;

// The rank may stay locked until the kernel has cleaned up a killed writer.
std::optional<RankWriter> attach(const World& world, std::uint32_t rank) {
    const auto deadline = Clock::now() + kAttachPatience;
    while (!writer_served(world)) {
        const std::string path = await_segment(world);
        if (path.empty()) continue;
        auto writer = RankWriter::attach(path, rank);
        if (writer) return std::move(writer).value();
        if (Clock::now() > deadline) throw std::runtime_error(writer.error().message);
    }
    return std::nullopt;
}

class WriterLoop {
  public:
    WriterLoop(const World& world, RankWriter writer)
        : world_(world), writer_(std::move(writer)), shard_(writer_.geometry().shards[writer_.rank()]) {
        if (world.options.draft > 0) drafter_.emplace(world);
        const std::size_t row_bytes =
            std::size_t{shard_.count} * proto::element_bytes(writer_.geometry().dtype);
        row_bytes_ = (row_bytes + 63) / 64 * 64;
        rows_.resize(row_bytes_ * writer_.geometry().max_batch);
    }

    void serve() {
        while (writer_.session_open() && !writer_served(world_)) {
            const auto step = writer_.wait_step(kLook);
            if (!step) continue;
            const auto seen = Clock::now();
            if (!make_rows(*step)) continue;
            await_stage(seen);
            publish(*step);
        }
    }

  private:
    // Returns false if the writer must attach again.
    bool make_rows(std::uint64_t step) {
        const auto columns = writer_.columns(step);
        const std::uint32_t writers = writers_so_far(writer_.segment());
        pointers_.clear();
        inputs_.clear();
        for (std::uint32_t head = 0, next = 0; head < columns.size(); head = next) {
            for (next = head + 1; next < columns.size() && columns[next].load().row != 0;) ++next;
            const auto due = await_due(step, head, columns[head]);
            if (!due) return false;
            const Request& request = request_of(columns[head]);
            const std::int32_t* log = writer_.segment().token_log(columns[head].load().sequence_slot);
            const std::span<const std::int32_t> prompt(log, request.prompt_length);
            draft(request, prompt, {prompt.data() + prompt.size(), due->outputs}, next - head, writers);
            for (const DraftedRow& drafted : drafted_) make_row(request, prompt.back(), drafted, head);
            if (world_.options.replay > 0 && next == head + 1) perturb(step, request);
        }
        return true;
    }

    const Request& request_of(const proto::ScheduleColumn& asked) const {
        return world_.plan[static_cast<std::uint32_t>(asked.sequence_uid - 1)];
    }

    void draft(const Request& request, std::span<const std::int32_t> prompt,
               std::span<const std::int32_t> output, std::uint32_t rows, std::uint32_t writers) {
        if (rows == 1) {
            drafted_.assign(1, head_behind(output));
        } else if (world_.options.replay > 0) {
            // What a truncate cuts off stands in the log until it is decided again.
            drafted_ = replayed_behind(output, {output.data() + output.size(), rows - 1});
        } else {
            drafted_ = drafter_->draft(request, prompt, output, rows, writers);
        }
    }

    void make_row(const Request& request, std::int32_t prompt_end, const DraftedRow& drafted,
                  std::uint32_t head) {
        std::byte* row = rows_.data() + pointers_.size() * row_bytes_;
        const std::int32_t previous = drafted.input == proto::RowInput::kAny ? prompt_end : drafted.input;
        world_.rows.write(request, drafted.position, previous, shard_.first_id, shard_.count, row);
        pointers_.push_back(row);
        inputs_.push_back({drafted.input, head + drafted.parent});
    }

    // Of the last row: all ranks perturb the same steps' rows.
    void perturb(std::uint64_t step, const Request& request) {
        KeyedStream random(key_of(world_.options.seed, kPerturbKey, step, request.index));
        if (!random.chance(kPerturbed)) return;
        const std::uint32_t token = random.below(world_.options.vocab) - shard_.first_id;
        if (token >= shard_.count) return;
        world_.rows.set_value(rows_.data() + (pointers_.size() - 1) * row_bytes_, token, kPerturbedTo);
    }

    // Waits for the tokens with which the next forward pass begins. Returns nothing if they are not decided
    // while this writer is attached. It must not guess: with daemon and scheduler dead the step is still in
    // flight, and a row for another token would be used.
    std::optional<shm::DueColumn> await_due(std::uint64_t step, std::uint32_t column,
                                            const proto::ScheduleColumn& asked) {
        const shm::Segment& segment = writer_.segment();
        const auto& bell = segment.header().decided_bell;
        while (true) {
            const std::uint32_t seen = bell.load(std::memory_order_acquire);
            const shm::DueColumn found = shm::due_of(segment, step, column, asked);
            // The row of a void column is not read: its outputs are 0.
            if (found.due != shm::Due::later) return found;
            // All its columns became void, and `asked` may be another step's.
            if (step < shm::steps_in_flight(segment).first) return shm::DueColumn{shm::Due::never, 0};
            if (!writer_.session_open()) return std::nullopt;
            shm::futex_wait(bell, seen, std::chrono::milliseconds(1));
        }
    }

    // The simulated forward pass: a step passes all stages, and one step leaves the pipeline per stage.
    void await_stage(Clock::time_point seen) {
        const auto stage = std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double, std::milli>(world_.options.stage_ms));
        due_ = std::max(due_ + stage, seen + stage * world_.options.pp);
        std::this_thread::sleep_until(due_);
    }

    void publish(std::uint64_t step) {
        if (world_.options.randoms_in_ring && writer_.rank() == 0) supply_randoms(step);
        // Refused if this rank was fenced meanwhile (serve() then attaches again), or if all columns became
        // void and the step is over.
        (void)writer_.send(step, pointers_, inputs_);
        if (writer_.rank() == 0) world_.ledger.head().block_requests = block_requests_of(writer_.segment());
    }

    void supply_randoms(std::uint64_t step) {
        const auto columns = writer_.columns(step);
        const auto randoms = writer_.randoms(step);
        for (std::size_t column = 0; column < columns.size(); ++column) {
            const proto::ScheduleColumn asked = columns[column];
            const Request& request = request_of(asked);
            const std::uint32_t position = request.prompt_length + asked.position;
            for (std::uint32_t stream = 0; stream < 4; ++stream) {
                randoms[column].stream[stream] =
                    proto::random_at(request.params.seed, position, request.params.child, stream);
            }
        }
        (void)writer_.publish_randoms(step);
    }

    const World& world_;
    RankWriter writer_;
    proto::RankShard shard_;
    std::size_t row_bytes_ = 0;
    std::vector<std::byte> rows_;
    std::vector<const void*> pointers_;
    std::vector<proto::RowInput> inputs_;  // of the same columns
    std::optional<Drafter> drafter_;
    std::vector<DraftedRow> drafted_;
    Clock::time_point due_{};
};

}  // namespace

std::uint32_t writers_so_far(const shm::Segment& segment) {
    std::uint32_t writers = 0;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank)
        writers += segment.header().writers[rank].attached.load(std::memory_order_relaxed);
    return writers;
}

std::uint64_t block_requests_of(const shm::Segment& segment) {
    return segment.header().counter(proto::SessionCounter::block_requests).load(std::memory_order_relaxed);
}

bool writer_served(const World& world) {
    return world.ledger.head().served.load(std::memory_order_acquire) != 0;
}

std::string await_segment(const World& world) {
    const std::uint32_t bell = world.ledger.head().bell.load(std::memory_order_acquire);
    std::string path = world.ledger.segment_path();
    // The path is known: the caller retries because its rank is still locked.
    shm::futex_wait(world.ledger.head().bell, bell, path.empty() ? kLook : std::chrono::milliseconds(2));
    return path.empty() ? world.ledger.segment_path() : path;
}

void run_writer(const World& world, std::uint32_t rank) {
    while (auto writer = attach(world, rank)) WriterLoop(world, std::move(*writer)).serve();
}

}  // namespace croupier::sim
