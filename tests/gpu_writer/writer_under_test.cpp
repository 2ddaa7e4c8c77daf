#include "tests/gpu_writer/writer_under_test.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

namespace croupier::testing {
namespace {

class HostMemory final : public WorkerMemory {
  public:
    void* stream() override { return nullptr; }
    const void* put(const Bytes& bytes) override {
        rows_ = bytes;
        return rows_.data();
    }
    std::int32_t* token_room() override {
        tokens_.assign(kMostTokens, 0);
        return tokens_.data();
    }
    std::vector<std::int32_t> tokens(std::size_t count) override {
        tokens_.resize(count);
        return tokens_;
    }
    void synchronise() override {}
    void stall() override { throw std::logic_error("a host has no streams"); }
    void resume() override {}
    std::unique_ptr<CapturedGraph> capture(const std::function<void()>& /*work*/) override {
        throw std::logic_error("a host has no graphs");
    }

  private:
    static constexpr std::size_t kMostTokens = 4096;

    Bytes rows_;
    std::vector<std::int32_t> tokens_;
};

std::uint32_t path_of(Way way) {
    if (way == Way::store) return CROUPIER_WRITER_STORE;
    return way == Way::copy ? CROUPIER_WRITER_COPY : CROUPIER_WRITER_AUTO;
}

void need_done(const Failure& failure, const char* what) {
    if (failure.status < 0) throw std::runtime_error(std::string(what) + ": " + failure.error.text);
}

}  // namespace

std::unique_ptr<WorkerMemory> make_host_memory() {
    return std::make_unique<HostMemory>();
}

std::string name_of(Way way) {
    if (way == Way::host) return "host";
    if (way == Way::store) return "CUDA, store";
    if (way == Way::copied) return "CUDA, rows copied";
    return way == Way::copy ? "CUDA, copy" : "CUDA, auto";
}

bool can_run(Way way) {
    static const bool has_device = has_cuda_device();
    if (way == Way::host || has_device) return true;
    const char* wanted = std::getenv("CROUPIER_TEST_GPU");
    if (wanted != nullptr && std::string(wanted) == "required") FAIL("there is no CUDA device");
    static std::set<std::string> said;
    if (said.insert(Catch::getResultCapture().getCurrentTestName()).second) {
        WARN("skipped: no CUDA device");
    }
    return false;
}

WriterUnderTest::WriterUnderTest(Way way, const std::string& segment_path, std::uint32_t rank,
                                 std::size_t bytes, std::uint32_t store_blocks)
    : memory_(way == Way::host ? make_host_memory() : make_gpu_memory(bytes)) {
    croupier_writer_options options;
    croupier_writer_options_init(&options);
    options.segment_path = segment_path.c_str();
    options.rank = rank;
    options.device = way == Way::host ? CROUPIER_WRITER_HOST : 0;
    options.path = path_of(way);
    options.store_blocks = store_blocks;
    if (way == Way::copied) options.rows = CROUPIER_WRITER_ROWS_COPIED;
    Failure failure;
    failure.status = croupier_writer_attach(&options, &writer_, &failure.error);
    need_done(failure, "attach");
}

WriterUnderTest::~WriterUnderTest() {
    croupier_writer_detach(writer_);
}

croupier_writer_state WriterUnderTest::state() const {
    croupier_writer_state state;
    croupier_writer_state_init(&state);
    croupier_error error{};
    if (croupier_writer_get_state(writer_, &state, &error) != 0) throw std::runtime_error(error.text);
    return state;
}

Failure WriterUnderTest::try_begin(std::uint64_t step) {
    Failure failure;
    failure.status = croupier_writer_begin(writer_, step, &failure.error);
    return failure;
}

int WriterUnderTest::begin(std::uint64_t step) {
    const Failure failure = try_begin(step);
    need_done(failure, "begin");
    return failure.status;
}

Failure WriterUnderTest::try_enqueue(const Rows& rows) {
    Failure failure;
    failure.status = croupier_writer_enqueue(writer_, memory_->stream(), memory_->put(rows.bytes),
                                             rows.stride, &failure.error);
    return failure;
}

void WriterUnderTest::enqueue(const Rows& rows) {
    need_done(try_enqueue(rows), "enqueue");
}

void WriterUnderTest::enqueue_randoms() {
    Failure failure;
    failure.status = croupier_writer_enqueue_randoms(writer_, memory_->stream(), &failure.error);
    need_done(failure, "enqueue_randoms");
}

void WriterUnderTest::await_finished(std::uint64_t steps) {
    memory_->synchronise();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (state().finished < steps) {
        if (std::chrono::steady_clock::now() > deadline) {
            throw std::runtime_error(std::to_string(state().finished) +
                                     " steps are finished after ten seconds, not " + std::to_string(steps));
        }
        std::this_thread::yield();
    }
}

void WriterUnderTest::write(std::uint64_t step, const Rows& rows) {
    if (begin(step) != 0) throw std::runtime_error("step " + std::to_string(step) + ": busy");
    enqueue(rows);
    await_finished(state().begun);
}

std::uint64_t publish_step(shm::SchedulePublisher& client, std::uint32_t columns, std::uint32_t flags) {
    std::vector<proto::ScheduleColumn> asked(columns);
    for (std::uint32_t i = 0; i < columns; ++i) asked[i].sequence_uid = 100 + i;
    return need(client.publish(asked, flags));
}

std::vector<std::vector<std::uint32_t>> lay_orders(shm::Segment& segment, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<std::uint32_t>> orders;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        const auto order = segment.order(rank);
        std::iota(order.begin(), order.end(), segment.geometry().shards[rank].first_block());
        std::shuffle(order.begin(), order.end(), random);
        orders.emplace_back(order.begin(), order.end());
    }
    return orders;
}

Bytes slice_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank, std::size_t bytes) {
    const auto* begin = static_cast<const unsigned char*>(segment.logits(segment.slot_of(step), rank));
    return {begin, begin + bytes};
}

}  // namespace croupier::testing
