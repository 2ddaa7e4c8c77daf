// Records every delivered token in memory that outlives the engine's processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/latency_histogram.h"
#include "sim/request_plan.h"

namespace croupier::sim {

struct LedgerEntry {
    std::int32_t token = -1;
    float logprob = 0.0F;
    std::uint16_t flags = 0;
    std::uint16_t error = 0;
    std::uint8_t last = 0;      // the request ended with this token
    std::uint8_t from_log = 0;  // only the token is known; the rest of the decision was lost with a scheduler
    std::uint8_t anew = 0;      // the sequence was added again before this token, with its output so far
    // Of the sequence's text, after this token, in a session with a tokenizer.
    std::uint8_t stop_string = 0;
    std::uint32_t stop_begin = 0;
    std::uint32_t text_bytes = 0;
    std::uint64_t text_hash = 0;
};

std::uint64_t text_hash(std::string_view text);

enum class Delivery { appended, repeated, gap };

struct LedgerHead {
    std::atomic<std::uint32_t> bell{0};  // changes after each step and each verified request
    std::atomic<std::uint32_t> segment_version{0};
    std::atomic<std::uint32_t> served{0};  // 1 when every request has ended and the session is closed
    std::atomic<std::uint64_t> first_step_ns{0};
    std::atomic<std::uint64_t> last_step_ns{0};
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> tokens{0};
    std::atomic<std::uint64_t> progress{
        0};  // tokens delivered, plus tokens that ended requests no longer need
    std::atomic<std::uint32_t> kills_to_come{0};  // a futex; the run does not end before them
    std::atomic<std::uint64_t> live{0};
    std::atomic<std::uint64_t> duplicated{0};
    std::atomic<std::uint64_t> gaps{0};
    std::atomic<std::uint64_t> recovered{0};  // delivered from a sequence's log after a scheduler's death
    std::atomic<std::uint64_t> truncated{0};
    std::atomic<std::uint64_t> stop_strings{0};    // requests that a stop string ended
    std::atomic<std::uint64_t> json_values{0};     // that a JSON value ended
    std::atomic<std::uint64_t> loops{0};           // that a loop ended
    std::atomic<std::uint64_t> replayed{0};        // tokens that were decided again
    std::atomic<std::uint64_t> rolled_back{0};     // those of them that did not stay
    std::atomic<std::uint64_t> block_requests{0};  // block requests in rank 0's segment
    std::atomic<std::uint64_t> late_steps{0};  // steps whose tokens came too late for a waiting GPU stream
    std::atomic<std::uint64_t> readmitted{0};  // sequences added again with their output
    std::atomic<std::uint64_t> verified{0};
    std::atomic<std::uint64_t> mismatched{0};
    LatencyHistogram step_latency;
    LatencyHistogram decision_latency;
    LatencyHistogram full_batch_latency;  // decisions of steps in which the batch was full
    LatencyHistogram gpu_latency;         // full batches: from logits to tokens, both in GPU memory
    char segment_path[512] = {};
    char fault[1024] = {};
    std::atomic<std::uint32_t> faulty{0};
    char first_mismatch[512] = {};
    std::atomic<std::uint32_t> mismatch_noted{0};
};

// Shared with every process forked after its creation. Only one scheduler at a time appends.
class Ledger {
  public:
    explicit Ledger(const RequestPlan& plan);

    LedgerHead& head() const { return *head_; }
    std::uint32_t count(std::uint32_t request) const;
    const LedgerEntry& entry(std::uint32_t request, std::uint32_t position) const;
    bool ended(std::uint32_t request) const;
    double progress() const;  // from 0 to 1
    bool all_ended() const { return head_->progress.load(std::memory_order_relaxed) >= starts_.back(); }
    // An existing entry is never changed.
    Delivery append(std::uint32_t request, std::uint32_t position, const LedgerEntry& entry);
    // Call before the sequence is added again: if the scheduler dies in between, its successor repeats both.
    void note_added_again(std::uint32_t request);
    // A scheduler may die between adding an entry and updating the sums; this recomputes them.
    void recount();

    // Returns true to exactly one caller, once the request has ended.
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
