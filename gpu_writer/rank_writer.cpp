#include "gpu_writer/rank_writer.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>

#include "gpu_writer/lean_host.h"
#include "gpu_writer/tile_layout.h"
#include "proto/hotness_order.h"
#include "shm/bell.h"
#include "shm/step_window.h"
#include "shm/wait_strategy.h"

namespace croupier::gpu_writer {
namespace {

// Nothing wakes a writer: its work before a step is the model's forward pass, which takes milliseconds.
constexpr shm::WaitSettings kStepWait{shm::WaitMode::adaptive, std::chrono::microseconds(50),
                                      std::chrono::microseconds(200)};

// A private copy, checked: it is followed into the caller's rows.
shm::Result<std::vector<std::uint32_t>> copy_order(const shm::Segment& segment, std::uint32_t rank) {
    const auto all = segment.order(rank);
    std::vector<std::uint32_t> order(all.begin(), all.end());
    const std::uint32_t first = segment.geometry().shards[rank].first_block();
    if (auto fault = proto::block_order_fault(order, first)) {
        return shm::fail(shm::Errc::corrupt_header, segment.path() + ": the order of rank " +
                                                        std::to_string(rank) + " is refused: " + *fault);
    }
    for (std::uint32_t& block : order) block -= first;
    return order;
}

void check_count(std::uint64_t step, std::uint32_t columns, std::size_t given) {
    if (given == columns) return;
    throw std::out_of_range("step " + std::to_string(step) + " has " + std::to_string(columns) +
                            " columns, not " + std::to_string(given));
}

}  // namespace

RankWriter::RankWriter(std::unique_ptr<shm::Segment> segment, std::vector<std::uint32_t> order,
                       shm::LogitsPublisher publisher)
    : segment_(std::move(segment)), order_(std::move(order)), publisher_(publisher) {}

RankWriter::RankWriter(RankWriter&&) noexcept = default;

RankWriter::~RankWriter() {
    // Its thread stores into the segment: a successor comes when that has ended.
    lean_.reset();
    if (segment_ != nullptr) publisher_.leave();
}

shm::Result<RankWriter> RankWriter::attach(const std::string& segment_path, std::uint32_t rank) {
    CROUPIER_TRY_VALUE(attached, shm::Segment::attach(segment_path, shm::Access::read_write));
    auto segment = std::make_unique<shm::Segment>(std::move(attached));
    CROUPIER_TRY_VALUE(publisher, shm::LogitsPublisher::attach(*segment, rank));
    CROUPIER_TRY_VALUE(order, copy_order(*segment, rank));
    return RankWriter(std::move(segment), std::move(order), publisher);
}

std::optional<std::uint64_t> RankWriter::wait_step(std::chrono::milliseconds timeout, std::uint64_t from) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    shm::WaitStrategy strategy(kStepWait);
    while (true) {
        // First: a step that was in flight at its end is still there.
        if (session_ended()) return std::nullopt;
        if (const auto step = publisher_.next_step(from)) return step;
        const auto left = deadline - std::chrono::steady_clock::now();
        if (left <= left.zero()) return std::nullopt;
        strategy.idle(0, [&](std::chrono::nanoseconds longest) {
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(longest, left));
        });
    }
}

std::uint32_t RankWriter::column_count(std::uint64_t step) const {
    return std::min(publisher_.record(step).columns, geometry().max_batch);
}

proto::StoredArray<const proto::ScheduleColumn> RankWriter::columns(std::uint64_t step) const {
    return publisher_.columns(step).part(0, column_count(step));
}

std::span<float> RankWriter::maxima(std::uint64_t step) const {
    const std::span<float> all = publisher_.maxima(step);
    if (all.empty()) return {};
    return all.first(std::size_t{geometry().maxima_stride(rank())} * column_count(step));
}

SliceMemory RankWriter::memory_of(std::uint64_t step) const {
    return {slice(step), maxima(step).data(), geometry().maxima_stride(rank())};
}

// A writer that was fenced learns it when it publishes.
void RankWriter::withdraw_part(std::uint64_t step) {
    if (publisher_.is_partial(step)) (void)begin_anew();
}

void RankWriter::write_column(std::uint64_t step, std::uint32_t column, const void* values) {
    const SliceShape shape = slice_shape(geometry(), rank(), column_count(step), order_);
    if (column >= shape.columns) {
        throw std::out_of_range("step " + std::to_string(step) + " has " + std::to_string(shape.columns) +
                                " columns: there is no column " + std::to_string(column));
    }
    withdraw_part(step);
    lay_rows(shape, column, {&values, 1}, memory_of(step));
}

void RankWriter::write_all(std::uint64_t step, std::span<const void* const> column_values) {
    check_count(step, column_count(step), column_values.size());
    lay_all(step, column_values);
}

void RankWriter::lay_all(std::uint64_t step, std::span<const void* const> column_values) {
    const auto columns = static_cast<std::uint32_t>(column_values.size());
    withdraw_part(step);
    lay_rows(slice_shape(geometry(), rank(), columns, order_), 0, column_values, memory_of(step));
}

shm::Result<bool> RankWriter::announce(shm::Result<bool> published) {
    if (published) shm::ring(header().bell);
    return published;
}

shm::Result<bool> RankWriter::publish(std::uint64_t step, std::uint32_t tiles) {
    return announce(publisher_.publish(step, tiles));
}

shm::Result<bool> RankWriter::publish_all(std::uint64_t step) {
    return announce(publisher_.publish_all(step));
}

// Visible with the first part of the step that is announced.
void RankWriter::store_inputs(std::uint64_t step, std::span<const proto::RowInput> inputs) {
    std::atomic<std::uint64_t>* to = segment_->inputs(segment_->slot_of(step), rank());
    for (const proto::RowInput& input : inputs) (to++)->store(input.pack(), std::memory_order_relaxed);
}

shm::Result<bool> RankWriter::send(std::uint64_t step, std::span<const void* const> column_values,
                                   std::span<const proto::RowInput> inputs) {
    // A step all of whose columns are void ends without this rank's logits, and its slot may be another
    // step's by now. A count that was read before the step is found in flight is the step's own.
    const std::uint32_t columns = column_count(step);
    const bool windows = (publisher_.record(step).flags & proto::kWindows) != 0;
    // SYNC: the count is read before the window of steps in flight is.
    std::atomic_thread_fence(std::memory_order_acquire);
    CROUPIER_TRY_VALUE(word, publisher_.begin(step));
    check_count(step, columns, column_values.size());
    if (windows) {
        check_count(step, columns, inputs.size());
        store_inputs(step, inputs);
    }
    if (!geometry().is_lean()) {
        lay_all(step, column_values);
        return publish_all(step);
    }
    if (lean_ == nullptr) lean_ = std::make_unique<LeanHost>(*segment_, rank());
    lean_->lay({step, 0, columns, word}, column_values);
    auto published = publish_all(step);
    // Its last part's columns became void while it was laid, and those before were decided.
    const bool over = !published && session_open() && step < shm::steps_in_flight(*segment_).first;
    if (over) return true;
    return published;
}

std::span<proto::ColumnRandoms> RankWriter::randoms(std::uint64_t step) const {
    return {segment_->randoms(segment_->slot_of(step)), column_count(step)};
}

shm::Result<bool> RankWriter::publish_randoms(std::uint64_t step) {
    if (rank() != 0) {
        return shm::fail(shm::Errc::bad_argument,
                         "rank " + std::to_string(rank()) + " has no random ring: rank 0 writes it");
    }
    return announce(publisher_.publish_randoms(step));
}

bool RankWriter::session_ended() const {
    const auto& header = segment_->header();
    const auto state = header.state.load(std::memory_order_acquire);
    if (state == proto::SessionState::closed || state == proto::SessionState::fenced) return true;
    return header.writers[rank()].epoch.load(std::memory_order_acquire) != publisher_.epoch();
}

shm::Result<bool> RankWriter::not_ended() const {
    if (!session_ended()) return true;
    const auto& header = segment_->header();
    const std::string over = "the session is over for the writer of rank " + std::to_string(rank());
    if (header.state.load(std::memory_order_acquire) == proto::SessionState::closed)
        return shm::fail(shm::Errc::session_closed, over + ": it was closed");
    return shm::fail(shm::Errc::stale_epoch, over + ": another writer or client took over");
}

bool RankWriter::session_open() const {
    if (session_ended()) return false;
    // Either of them brings the session on: a daemon that restarts adopts it while its client lives.
    return segment_->is_held(shm::Role::daemon) || segment_->is_held(shm::Role::client);
}

}  // namespace croupier::gpu_writer
