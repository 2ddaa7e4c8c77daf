// The simulated engine's durable truth: every token that was delivered, in memory that outlives its
// processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/latency_histogram.h"
#include "sim/request_plan.h"

namespace croupier::sim {

struct LedgerEntry {
    std::int32_t token = -1;
    float logprob = 0.0F;
    std::uint16_t flags = 0;
    std::uint16_t error = 0;
    std::uint8_t last = 0;      // the request ended with it
    std::uint8_t from_log = 0;  // only the token is known: its decision died with a scheduler
    std::uint8_t anew = 0;      // the sequence was added again before it, with the output until then
};

enum class Delivery { appended, repeated, gap };

struct LedgerHead {
    std::atomic<std::uint32_t> bell{0};  // rung after each step and each request verified
    std::atomic<std::uint32_t> segment_version{0};
    std::atomic<std::uint32_t> served{0};  // every request has ended and the session is closed
    std::atomic<std::uint64_t> first_step_ns{0};
    std::atomic<std::uint64_t> last_step_ns{0};
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> tokens{0};
    std::atomic<std::uint64_t> progress{0};  // tokens, and those that ended requests will not need
    std::atomic<std::uint64_t> live{0};
    std::atomic<std::uint64_t> duplicated{0};
    std::atomic<std::uint64_t> gaps{0};
    std::atomic<std::uint64_t> recovered{0};  // delivered from a sequence's log after a scheduler's death
    std::atomic<std::uint64_t> truncated{0};
    std::atomic<std::uint64_t> wishes{0};      // of the segment that rank 0 writes to
    std::atomic<std::uint64_t> late_steps{0};  // whose tokens a GPU's stream awaited in vain
    std::atomic<std::uint64_t> readmitted{0};  // sequences that came back with their output
    std::atomic<std::uint64_t> verified{0};
    std::atomic<std::uint64_t> mismatched{0};
    LatencyHistogram step_latency;
    LatencyHistogram decision_latency;
    LatencyHistogram full_batch_latency;  // of decisions, where every column of the batch was in use
    LatencyHistogram gpu_latency;         // of a full batch: its logits in a GPU's memory to its tokens there
    char segment_path[512] = {};
    char fault[1024] = {};
    std::atomic<std::uint32_t> faulty{0};
    char first_mismatch[512] = {};
    std::atomic<std::uint32_t> mismatch_noted{0};
};

// Shared with every process that is forked after it was made. One scheduler at a time appends.
class Ledger {
  public:
    explicit Ledger(const RequestPlan& plan);

    LedgerHead& head() const { return *head_; }
    std::uint32_t count(std::uint32_t request) const;
    const LedgerEntry& entry(std::uint32_t request, std::uint32_t position) const;
    bool ended(std::uint32_t request) const;
    bool all_ended() const { return head_->progress.load(std::memory_order_relaxed) >= starts_.back(); }
    // Of an entry that is there already nothing changes.
    Delivery append(std::uint32_t request, std::uint32_t position, const LedgerEntry& entry);
    // Before the sequence is added again: a scheduler that dies in between adds it at the same position.
    void note_added_again(std::uint32_t request);
    // After a scheduler's death the sums may be behind the entries by what it was about to add.
    void recount();

    // True for one caller only, once the request has ended.
    bool claim_for_verification(std::uint32_t request);

    void ring();
    void publish_segment(const std::string& path);
    std::string segment_path() const;
    void report_fault(const std::string& text);
    std::string fault() const;

  private:
    struct Unmap {
        std::size_t bytes;
        void operator()(std::byte* memory) const;
    };
    std::uint32_t room(std::uint32_t request) const { return starts_[request + 1] - starts_[request]; }

    std::unique_ptr<std::byte, Unmap> memory_;
    std::vector<std::uint32_t> starts_;
    LedgerHead* head_ = nullptr;
    std::atomic<std::uint32_t>* counts_ = nullptr;
    std::atomic<std::uint32_t>* claimed_ = nullptr;
    LedgerEntry* entries_ = nullptr;
};

}  // namespace croupier::sim
