// One writer of the C ABI, driven alike whatever is behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "croupier/writer.h"
#include "shm/schedule_publisher.h"
#include "testing/session_files.h"
#include "tests/gpu_writer/naive_slice.h"
#include "tests/gpu_writer/worker_memory.h"

namespace croupier::testing {

// `copied`: a GPU's rows of lean steps.
enum class Way { host, store, copy, automatic, copied };
std::string name_of(Way way);
// Says so, once a test, when this machine cannot run it; fails where CROUPIER_TEST_GPU is `required`.
bool can_run(Way way);

// Whether it holds within five seconds.
template <typename Condition>
bool soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

struct Failure {
    int status = 0;
    croupier_error error{};
};

class WriterUnderTest {
  public:
    // `bytes`: of the largest rows that will be enqueued.
    WriterUnderTest(Way way, const std::string& segment_path, std::uint32_t rank, std::size_t bytes,
                    std::uint32_t store_blocks = 0);
    WriterUnderTest(const WriterUnderTest&) = delete;
    WriterUnderTest& operator=(const WriterUnderTest&) = delete;
    ~WriterUnderTest();

    croupier_writer* get() { return writer_; }
    WorkerMemory& memory() { return *memory_; }
    croupier_writer_state state() const;

    // 0 or CROUPIER_WRITER_BUSY; throws the error's text.
    int begin(std::uint64_t step);
    Failure try_begin(std::uint64_t step);
    void enqueue(const Rows& rows);
    Failure try_enqueue(const Rows& rows);
    void enqueue_randoms();
    // Until as many steps are finished; throws after ten seconds.
    void await_finished(std::uint64_t steps);
    // begin, enqueue and wait.
    void write(std::uint64_t step, const Rows& rows);

  private:
    croupier_writer* writer_ = nullptr;
    std::unique_ptr<WorkerMemory> memory_;
};

std::uint64_t publish_step(shm::SchedulePublisher& client, std::uint32_t columns, std::uint32_t flags = 0);
// A permutation within each rank's part, and the segment's copy of it.
std::vector<std::vector<std::uint32_t>> lay_orders(shm::Segment& segment, std::uint32_t seed);
// Of the step's slot and rank, so many bytes from the slice's begin.
Bytes slice_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank, std::size_t bytes);

}  // namespace croupier::testing
