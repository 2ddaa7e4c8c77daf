// Steps of whole rows with windows, and rows in any order, on this CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "gpu_writer/slice_kernels.h"
#include "gpu_writer/tile_layout.h"
#include "proto/schedule_slot.h"
#include "testing/session_files.h"
#include "tests/gpu_kernels/emulated_step.h"
#include "tests/gpu_writer/naive_slice.h"

using namespace croupier;
using testing::Bytes;

namespace {

struct Shape {
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t tile = 1;
    std::uint32_t tp = 1;
    std::uint32_t columns = 1;
};

// A rank whose rows stand in any order, and every third column of which has none.
class ScatteredRank {
  public:
    ScatteredRank(const Shape& shape, std::mt19937& random)
        : geometry_(testing::small_geometry()), columns_(shape.columns), row_of_(shape.columns + 2) {
        geometry_.dtype = shape.dtype;
        geometry_.tile = shape.tile;
        geometry_.tp = shape.tp;
        geometry_.max_batch = shape.columns;
        geometry_.has_summaries = 1;
        proto::fill_even_shards(geometry_);
        rank_ = shape.tp - 1;
        const std::uint64_t stride = geometry_.shards[rank_].count + random() % 3 * 4;
        in_order_ =
            testing::random_rows(geometry_, rank_, columns_, stride, static_cast<std::uint32_t>(random()));
        std::iota(row_of_.begin(), row_of_.end(), 0);
        std::shuffle(row_of_.begin(), row_of_.end(), random);
        const std::size_t bytes = stride * proto::element_bytes(geometry_.dtype);
        logits_ = testing::aligned_memory(row_of_.size() * bytes);
        auto* const to = reinterpret_cast<unsigned char*>(logits_.data());
        for (std::uint32_t column = 0; column < columns_; ++column) {
            const auto from = in_order_.bytes.begin() + static_cast<std::ptrdiff_t>(column * bytes);
            std::copy_n(from, bytes, to + static_cast<std::size_t>(row_of_[column]) * bytes);
            inputs_.push_back(static_cast<std::int32_t>(random() % 1000) - 2);
            if (column % 3 != 1) continue;
            row_of_[column] = -1;
            fill_empty(column, bytes);
        }
        for (std::uint32_t i = 0; i < order_of_blocks().blocks; ++i) order_.push_back(i);
        std::shuffle(order_.begin(), order_.end(), random);
    }

    gpu_writer::EnqueuedRows given() const {
        gpu_writer::EnqueuedRows given;
        given.logits = logits_.data();
        given.row_stride = in_order_.stride;
        given.row_of = row_of_.data();
        given.inputs = inputs_.data();
        return given;
    }
    gpu_writer::SliceRows rows() const {
        const gpu_writer::SliceShape shape = order_of_blocks();
        return {logits_.data(),
                in_order_.stride,
                order_.data(),
                shape.dtype,
                shape.tile,
                shape.lead,
                shape.entries,
                shape.places(),
                geometry_.tiles(rank_),
                geometry_.maxima_stride(rank_),
                row_of_.data()};
    }
    Bytes slice() const {
        const std::uint32_t first = geometry_.shards[rank_].first_block();
        std::vector<std::uint32_t> order = order_;
        for (std::uint32_t& block : order) block += first;
        return testing::naive_slice(geometry_, rank_, columns_, order, in_order_);
    }
    void check_maxima(const std::vector<float>& found) const {
        const std::vector<float> wanted = testing::naive_maxima(geometry_, rank_, columns_, slice());
        const std::size_t stride = geometry_.maxima_stride(rank_);
        for (std::size_t i = 0; i < wanted.size(); ++i)
            REQUIRE(testing::same(found[i % columns_ * stride + i / columns_], wanted[i]));
    }
    std::vector<std::uint64_t> words() const {
        std::vector<std::uint64_t> words;
        for (std::uint32_t column = 0; column < columns_; ++column) {
            const std::int32_t token = row_of_[column] < 0 ? proto::RowInput::kNone : inputs_[column];
            words.push_back(proto::RowInput{token, column == 0 ? 0 : column - 1}.pack());
        }
        return words;
    }
    std::size_t maxima() const { return std::size_t{columns_} * geometry_.maxima_stride(rank_); }
    std::uint32_t columns() const { return columns_; }

  private:
    gpu_writer::SliceShape order_of_blocks() const {
        return gpu_writer::slice_shape(geometry_, rank_, columns_, {});
    }
    void fill_empty(std::uint32_t column, std::size_t bytes) {
        const std::size_t size = proto::element_bytes(geometry_.dtype);
        const std::uint32_t code = geometry_.dtype == proto::Dtype::bf16 ? 0xFF80 : 0xFF800000;
        for (std::size_t i = 0; i < bytes / size; ++i)
            std::memcpy(in_order_.bytes.data() + column * bytes + i * size, &code, size);
    }

    proto::Geometry geometry_;
    std::uint32_t columns_;
    std::uint32_t rank_ = 0;
    testing::Rows in_order_;
    std::vector<std::int32_t> row_of_, inputs_;
    std::vector<std::uint32_t> order_;
    std::vector<uint4> logits_;
};

// What a writer leaves for a launch that finds its step, and what the launch leaves.
struct Ring {
    explicit Ring(const ScatteredRank& rank)
        : slice(testing::aligned_memory(rank.slice().size())),
          maxima(rank.maxima()),
          words(rank.columns()),
          landed(gpu_writer::waves_at_most(rank.slice().size())) {
        record.word = 0x7000;
        record.ready = testing::address(&ready);
        record.elements = testing::address(slice.data());
        record.maxima = testing::address(maxima.data());
        record.columns = rank.columns();
        inputs = testing::address(words.data());
        ring.records = &record;
        ring.inputs = &inputs;
        ring.outcomes = &outcome;
        ring.empty_launches = &empty_launches;
        ring.counters = &counters;
        ring.landed = landed.data();
        ring.places = 1;
        ring.max_batch = rank.columns();
    }
    Bytes bytes(std::size_t count) const {
        const auto* begin = reinterpret_cast<const unsigned char*>(slice.data());
        return {begin, begin + count};
    }

    std::vector<uint4> slice;
    std::vector<float> maxima;
    std::vector<std::uint64_t> words;
    std::vector<std::uint32_t> landed;
    gpu_writer::LaunchRecord record;
    gpu_writer::LaunchOutcome outcome;
    gpu_writer::LaunchCounters counters;
    std::uint64_t inputs = 0, ready = 0, empty_launches = 0;
    gpu_writer::LaunchRing ring;
};

Shape any_shape() {
    Shape shape;
    shape.dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    shape.tile = GENERATE(1U, 64U);
    shape.tp = GENERATE(1U, 2U);
    shape.columns = GENERATE(1U, 2U, 7U);
    return shape;
}

}  // namespace

TEST_CASE("whole rows are stored from any order, behind what they were computed from") {
    std::mt19937 random(31);
    const ScatteredRank rank(any_shape(), random);
    Ring ring(rank);
    for (std::uint64_t ticket = 1; ticket < 3; ++ticket) {
        ring.record.ticket = ticket;
        std::fill(ring.words.begin(), ring.words.end(), 0);
        gpu_writer::launch_inputs(rank.given(), ring.ring, nullptr);
        CHECK(ring.words == rank.words());
        CHECK(ring.outcome.finished_ticket == ticket - 1);
        gpu_writer::launch_store(rank.rows(), ring.ring, true, 3, nullptr);
        CHECK(ring.outcome.finished_ticket == ticket);
        CHECK(ring.ready == ring.record.word + rank.rows().tiles);
        const Bytes wanted = rank.slice();
        REQUIRE((ring.bytes(wanted.size()) == wanted));
        rank.check_maxima(ring.maxima);
    }
    CHECK(ring.empty_launches == 0);
}

TEST_CASE("whole rows are tiled for the copy engine from any order") {
    std::mt19937 random(32);
    const ScatteredRank rank(any_shape(), random);
    Ring ring(rank);
    std::uint64_t next = 4;
    gpu_writer::launch_tiling(
        rank.rows(), {ring.slice.data(), ring.maxima.data(), rank.rows().maxima_stride, rank.columns()},
        {0, rank.rows().tiles}, &next, nullptr);
    CHECK(next == 5);
    const Bytes wanted = rank.slice();
    REQUIRE((ring.bytes(wanted.size()) == wanted));
    rank.check_maxima(ring.maxima);
}

TEST_CASE("a step that is begun between its inputs and its rows is not sent without its inputs") {
    std::mt19937 random(33);
    const ScatteredRank rank({}, random);
    Ring ring(rank);
    gpu_writer::launch_inputs(rank.given(), ring.ring, nullptr);
    ring.record.ticket = 1;
    gpu_writer::launch_store(rank.rows(), ring.ring, true, 2, nullptr);
    CHECK(ring.empty_launches == 1);
    CHECK(ring.ready == 0);
    gpu_writer::launch_inputs(rank.given(), ring.ring, nullptr);
    gpu_writer::launch_store(rank.rows(), ring.ring, true, 2, nullptr);
    CHECK(ring.ready == ring.record.word + rank.rows().tiles);
    CHECK(ring.words == rank.words());
}

TEST_CASE("inputs of a step without windows are not stored") {
    std::mt19937 random(34);
    const ScatteredRank rank({}, random);
    Ring ring(rank);
    ring.record.ticket = 1;
    ring.inputs = 0;
    gpu_writer::launch_inputs(rank.given(), ring.ring, nullptr);
    CHECK(ring.words == std::vector<std::uint64_t>(rank.columns()));
    gpu_writer::launch_store(rank.rows(), ring.ring, true, 1, nullptr);
    CHECK(ring.ready == ring.record.word + rank.rows().tiles);
}
