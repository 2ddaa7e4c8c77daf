#include "sim/verifier.h"

#include <malloc.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "sampler/reference/decide.h"
#include "sampler/row_mass.h"
#include "shm/futex.h"

namespace croupier::sim {
namespace {

constexpr std::chrono::milliseconds kLook{200};

std::string text_of(std::int32_t token, float logprob, unsigned flags, unsigned error) {
    char text[128];
    (void)std::snprintf(text, sizeof(text), "token %d, logprob %a, flags %u, error %u", token,
                        static_cast<double>(logprob), flags, error);
    return text;
}

bool same_text(const LedgerEntry& entry, const testing::ReferenceText& text) {
    const client::TextStop stop = text.stop.value_or(client::TextStop());
    return entry.from_log != 0 ||
           (entry.stop_string == stop.stop_string && entry.stop_begin == stop.begin &&
            entry.text_bytes == text.released.size() && entry.text_hash == text_hash(text.released));
}

bool same(const LedgerEntry& entry, const proto::Decision& decision) {
    if (entry.token != decision.token) return false;
    // Only the token survived a killed scheduler; whether it ends the request must still be correct.
    if (entry.from_log != 0) return (entry.last != 0) == ((decision.flags & proto::kStoppedMask) != 0);
    return entry.flags == decision.flags && entry.error == static_cast<std::uint16_t>(decision.error) &&
           sampler::logprobs_agree(entry.logprob, decision.logprob);
}

}  // namespace

Verifier::Verifier(const World& world) : world_(world), row_(world) {}

proto::Decision Verifier::decide_again(const Request& request, std::uint32_t position) {
    const std::span<const std::int32_t> output(output_.data(), position);
    sampler::Request asked = asked_at(world_, request, prompt_, output);
    asked.feedback = feedback_;
    const auto outcome = sampler::reference::decide(row_.write(request, prompt_, output), asked);
    feedback_ = outcome.feedback;
    return outcome.decision;
}

testing::ReferenceText Verifier::text_after(const Request& request, std::uint32_t position,
                                            const proto::Decision& decision) {
    const testing::ReferenceRules rules{request.stop_strings, request.params.min_tokens,
                                        (request.params.flags & proto::kIncludeStop) != 0,
                                        (request.params.flags & proto::kStopAtJson) != 0};
    return testing::reference_text(world_.pieces, rules, unfinished_,
                                   {output_.data(), std::size_t{position} + 1},
                                   testing::other_end(decision.flags));
}

void Verifier::begin(const Request& request) {
    prompt_ = world_.plan.prompt(request.index);
    if (world_.options.stops) unfinished_ = testing::unfinished_of(world_.pieces, prompt_);
    output_.clear();
    feedback_ = {};
    const std::uint32_t count = world_.ledger.count(request.index);
    for (std::uint32_t i = 0; i < count; ++i) output_.push_back(world_.ledger.entry(request.index, i).token);
    request_ = count > 0 ? &request : nullptr;
    position_ = 0;
}

void Verifier::verify_next() {
    const Request& request = *request_;
    const std::uint32_t position = position_++;
    if (position_ == output_.size()) request_ = nullptr;
    const LedgerEntry& entry = world_.ledger.entry(request.index, position);
    // The feedback of mirostat and adaptive-p is lost with the session, so a sequence added again starts
    // without it.
    if (entry.anew != 0) feedback_ = {};
    proto::Decision expected = decide_again(request, position);
    const bool has_text = world_.options.stops && expected.error == proto::DecisionError::none;
    const testing::ReferenceText text =
        has_text ? text_after(request, position, expected) : testing::ReferenceText();
    if (text.stop) expected.flags |= text.stop->flag;
    if (same(entry, expected) && (!has_text || same_text(entry, text))) {
        world_.ledger.head().verified.fetch_add(1, std::memory_order_relaxed);
    } else {
        note_mismatch(request, position, expected, text);
    }
}

void Verifier::note_mismatch(const Request& request, std::uint32_t position, const proto::Decision& expected,
                             const testing::ReferenceText& text) {
    LedgerHead& head = world_.ledger.head();
    head.mismatched.fetch_add(1, std::memory_order_relaxed);
    if (head.mismatch_noted.exchange(1, std::memory_order_relaxed) != 0) return;
    const client::TextStop stop = text.stop.value_or(client::TextStop());
    const auto released = [this](std::uint64_t bytes, std::uint32_t stop_string, std::uint64_t stop_begin) {
        if (!world_.options.stops) return std::string();
        return ", " + std::to_string(bytes) + " bytes released, stop string " + std::to_string(stop_string) +
               " at " + std::to_string(stop_begin);
    };
    const LedgerEntry& entry = world_.ledger.entry(request.index, position);
    (void)std::snprintf(
        head.first_mismatch, sizeof(head.first_mismatch), "request %u, position %u: got %s%s; expected %s%s",
        request.index, position, text_of(entry.token, entry.logprob, entry.flags, entry.error).c_str(),
        released(entry.text_bytes, entry.stop_string, entry.stop_begin).c_str(),
        text_of(expected.token, expected.logprob, expected.flags, static_cast<unsigned>(expected.error))
            .c_str(),
        released(text.released.size(), stop.stop_string, stop.begin).c_str());
}

namespace {

// What one process verifies. Two threads work on it, one after the other.
class VerifierShare {
  public:
    explicit VerifierShare(World& world)
        : world_(world), verifier_(world), claimed_(world.plan.size(), false) {}

    // Until every request is verified or being verified elsewhere, or `stop` says so between two positions.
    template <typename Stop>
    void run(Stop stop) {
        while (verifier_.busy() || done_below_ < world_.plan.size()) {
            const std::uint32_t bell = world_.ledger.head().bell.load(std::memory_order_acquire);
            while (verifier_.busy() && !stop()) verifier_.verify_next();
            if (stop()) return;
            if (claim_next() || done_below_ == world_.plan.size()) continue;
            shm::futex_wait(world_.ledger.head().bell, bell, kLook);
        }
    }

  private:
    bool claim_next() {
        for (std::uint32_t request = done_below_; request < world_.plan.size(); ++request) {
            if (claimed_[request] || !world_.ledger.ended(request)) continue;
            claimed_[request] = true;
            while (done_below_ < world_.plan.size() && claimed_[done_below_]) ++done_below_;
            if (!world_.ledger.claim_for_verification(request)) continue;
            verifier_.begin(world_.plan[request]);
            return true;
        }
        return false;
    }

    World& world_;
    Verifier verifier_;
    std::uint32_t done_below_ = 0;  // all requests below it are claimed by some verifier
    std::vector<bool> claimed_;
};

}  // namespace

void run_verifier(World& world) {
    // The reference allocates and frees large vectors. Keep that memory: returning it to the kernel each time
    // would cost half of the run time in page faults.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
    LedgerHead& head = world.ledger.head();
    const auto served = [&head] { return head.served.load(std::memory_order_acquire) != 0; };
    VerifierShare share(world);
    if (world.options.verification == Verification::after) {
        for (std::uint32_t bell = head.bell.load(std::memory_order_acquire); !served();
             bell = head.bell.load(std::memory_order_acquire)) {
            if (!served()) shm::futex_wait(head.bell, bell, kLook);
        }
    } else {
        // A thread that an ordinary user makes idle cannot be made usual again, and on a busy machine it
        // would hardly run: another one goes on once requests are no longer served.
        std::thread idle([&] {
            const sched_param none{};
            ::sched_setscheduler(0, SCHED_IDLE, &none);
            share.run(served);
        });
        idle.join();
    }
    share.run([] { return false; });
}

}  // namespace croupier::sim
