// A rank's logits writer: all of it where the rows are in the host's memory, and what the CUDA writer stands
// on.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu_writer/tile_layout.h"
#include "proto/logits_slot.h"
#include "proto/schedule_slot.h"
#include "shm/logits_publisher.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

class LeanHost;

class RankWriter {
  public:
    static shm::Result<RankWriter> attach(const std::string& segment_path, std::uint32_t rank);
    RankWriter(RankWriter&&) noexcept;
    RankWriter& operator=(RankWriter&&) = delete;
    ~RankWriter();

    const proto::Geometry& geometry() const { return segment_->geometry(); }
    std::uint32_t rank() const { return publisher_.rank(); }
    // Which of this rank's blocks stands at each place of the slice, counted from its first one; empty: they
    // stand in the order of their ids.
    std::span<const std::uint32_t> order() const { return order_; }

    // The oldest step in flight, of those from `from` on, that wants this rank's slice; waits for one.
    std::optional<std::uint64_t> wait_step(std::chrono::milliseconds timeout, std::uint64_t from = 0);
    proto::StoredArray<const proto::ScheduleColumn> columns(std::uint64_t step) const;

    // One sequence's logits, `values` of the shard's ids, laid into the step's tiles; what is not the shard's
    // or beyond the vocabulary is padded with -inf. The tiles' maxima are written too where the session has
    // summaries. std::out_of_range for a column the step has not.
    void write_column(std::uint64_t step, std::uint32_t column, const void* values);
    // All columns at once, one pointer a column: for small tiles much faster than one by one, because the
    // stores stay within a block of the slice that fits the nearest cache. Either, of a step of which a part
    // is published, writes it anew.
    void write_all(std::uint64_t step, std::span<const void* const> column_values);
    // For a caller that lays tiles itself: [tiles][columns][T] elements. Before it lays again what it has
    // published of a slice, it calls begin_anew().
    void* slice(std::uint64_t step) const { return publisher_.slice(step); }
    // It then writes their maxima as well, before it publishes the last tile: [columns][maxima_stride]
    // floats, the largest of each tile's logits, padding aside; NaN where one of them is. Empty: the session
    // has no summaries.
    std::span<float> maxima(std::uint64_t step) const;
    // The first `tiles` tiles are there; a step is decided once every rank has published all of its tiles.
    shm::Result<bool> publish(std::uint64_t step, std::uint32_t tiles);
    shm::Result<bool> publish_all(std::uint64_t step);
    // The whole step, as the session's transport has it: rows laid and published, or a lean part, and a copy
    // of the rows that is kept until the step is decided. Refused, and nothing is written, where the step is
    // not in flight: one whose columns all became void ends without any logits. `inputs`, one a column where
    // the step has windows, are stored first.
    shm::Result<bool> send(std::uint64_t step, std::span<const void* const> column_values,
                           std::span<const proto::RowInput> inputs = {});
    // What is published of slices that are not complete, and the randoms of their steps, counts no more.
    shm::Result<bool> begin_anew() { return publisher_.begin_anew(); }

    // The random ring of the step, a record a column, and its publication (rank 0 only writes it).
    std::span<proto::ColumnRandoms> randoms(std::uint64_t step) const;
    shm::Result<bool> publish_randoms(std::uint64_t step);

    // For a device that lays and publishes in this writer's stead.
    const shm::Segment& segment() const { return *segment_; }
    shm::LogitsPublisher& publisher() { return publisher_; }
    proto::SegmentHeader& header() { return segment_->header(); }

    // Whether the session was closed, or another writer or client took over: for good.
    bool session_ended() const;
    // session_closed, or stale_epoch.
    shm::Result<bool> not_ended() const;
    // False once it has ended, and while its daemon and client are both gone.
    bool session_open() const;

  private:
    SliceMemory memory_of(std::uint64_t step) const;
    void withdraw_part(std::uint64_t step);
    void store_inputs(std::uint64_t step, std::span<const proto::RowInput> inputs);
    void lay_all(std::uint64_t step, std::span<const void* const> column_values);
    std::uint32_t column_count(std::uint64_t step) const;
    shm::Result<bool> announce(shm::Result<bool> published);

    RankWriter(std::unique_ptr<shm::Segment> segment, std::vector<std::uint32_t> order,
               shm::LogitsPublisher publisher);

    std::unique_ptr<shm::Segment> segment_;
    std::vector<std::uint32_t> order_;
    shm::LogitsPublisher publisher_;
    std::unique_ptr<LeanHost> lean_;  // of the transport lean, since a step was first sent
};

}  // namespace croupier::gpu_writer
