#include "tests/fan_out/gpu_rank.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "croupier/writer.h"
#include "shm/segment.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"
#include "tests/gpu_writer/worker_memory.h"

namespace croupier::testing {
namespace {

class GpuRank {
  public:
    GpuRank(const char* segment_path, std::uint32_t rank)
        : segment_(need(shm::Segment::attach(segment_path, shm::Access::read_only))) {
        croupier_writer_options options;
        croupier_writer_options_init(&options);
        options.segment_path = segment_path;
        options.rank = rank;
        options.device = 0;
        check(croupier_writer_attach(&options, &writer_, &error_));
        croupier_writer_info_init(&info_);
        check(croupier_writer_get_info(writer_, &info_, &error_));
        memory_ = make_gpu_memory(std::size_t{info_.max_batch} * info_.ids * sizeof(std::uint16_t));
    }
    GpuRank(const GpuRank&) = delete;
    GpuRank& operator=(const GpuRank&) = delete;
    ~GpuRank() { croupier_writer_detach(writer_); }

    bool open() {
        croupier_writer_state state;
        croupier_writer_state_init(&state);
        check(croupier_writer_get_state(writer_, &state, &error_));
        return state.open != 0;
    }

    void write_next() {
        std::uint64_t step = 0;
        std::uint32_t columns = 0;
        const int found = croupier_writer_wait_step(writer_, 5, &step, &columns, &error_);
        if (found < 0 && !open()) return;
        if (check(found) == 0) return;
        Bytes rows;
        const auto asked = segment_.schedule_columns(segment_.slot_of(step));
        for (std::uint32_t column = 0; column < columns; ++column) {
            const auto row = bf16_row(asked[column].load(), info_.vocab, info_.first_id, info_.ids);
            const auto* begin = reinterpret_cast<const Bytes::value_type*>(row.data());
            rows.insert(rows.end(), begin, begin + row.size() * sizeof(row[0]));
        }
        REQUIRE(check(croupier_writer_begin(writer_, step, &error_)) == 0);
        check(croupier_writer_enqueue(writer_, memory_->stream(), memory_->put(rows), info_.ids, &error_));
        memory_->synchronise();
    }

  private:
    int check(int result) const {
        if (result < 0) throw std::runtime_error(error_.text);
        return result;
    }

    shm::Segment segment_;
    croupier_writer* writer_ = nullptr;
    croupier_writer_info info_{};
    croupier_error error_{};
    std::unique_ptr<WorkerMemory> memory_;
};

}  // namespace

// Hidden: as long as the session lasts.
TEST_CASE("a rank whose logits are a GPU's", "[.][gpu_rank_part]") {
    const char* path = std::getenv(kSegmentVariable);
    const char* rank = std::getenv(kRankVariable);
    REQUIRE((path != nullptr && rank != nullptr));
    GpuRank writer(path, static_cast<std::uint32_t>(std::stoul(rank)));
    while (writer.open()) writer.write_next();
}

}  // namespace croupier::testing
