// A session without a daemon, whose steps are taken as soon as their slices are complete. Measures only the
// writer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/writer/gpu.h"
#include "croupier/writer.h"
#include "shm/schedule_publisher.h"
#include "shm/segment.h"

namespace croupier::bench::writer {

struct Case {
    std::uint32_t vocab = 151936;
    std::uint32_t columns = 1;
    bool summaries = false;
    bool ordered = false;
    std::uint32_t path = CROUPIER_WRITER_STORE;
    std::uint32_t store_blocks = 0;
};

// Seconds since the call of enqueue.
struct StepTimes {
    double begin_call = 0;
    double enqueue_call = 0;
    double first_tiles = 0;
    double complete = 0;
};

class ShmDirectory {
  public:
    ShmDirectory();
    ShmDirectory(const ShmDirectory&) = delete;
    ShmDirectory& operator=(const ShmDirectory&) = delete;
    ~ShmDirectory();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

class BenchSession {
  public:
    explicit BenchSession(const Case& of);
    BenchSession(const BenchSession&) = delete;
    BenchSession& operator=(const BenchSession&) = delete;
    ~BenchSession();

    std::size_t slice_bytes() const;
    void* slice_memory() const { return segment_->logits(0, 0); }
    const void* logits() const { return logits_->get(); }

    StepTimes one_step();
    // Keeps all slots in flight until `steps` steps are complete. Returns the seconds.
    double run(std::uint32_t steps);
    // Begins a step if a slot is free, and takes complete steps.
    void keep_going();
    void drain();

  private:
    bool start_step();
    bool take_complete();

    Case case_;
    ShmDirectory directory_;
    std::unique_ptr<shm::Segment> segment_;
    std::unique_ptr<shm::SchedulePublisher> client_;
    std::unique_ptr<GpuBuffer> logits_;
    GpuStream stream_;
    croupier_writer* writer_ = nullptr;
};

}  // namespace croupier::bench::writer
