#include "sim/scheduler_process.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "shm/clock.h"
#include "shm/error.h"
#include "shm/futex.h"
#include "sim/engine_session.h"
#include "sim/keyed_hash.h"

namespace croupier::sim {
namespace {

constexpr std::uint32_t kLongestWaitMs = 1000;
constexpr std::uint64_t kTruncateKey = 9;
constexpr std::uint64_t kTruncateOneIn = 24;
constexpr std::uint64_t kRowsKey = 11;
// Shorter than the feedback that is kept.
constexpr std::uint32_t kTruncateMost = 48;

std::string decision_text(const croupier_decision& decision) {
    return "request " + std::to_string(decision.uid - 1) + ", position " +
           std::to_string(decision.output_index) + ", token " + std::to_string(decision.token) +
           (decision.error == 0 ? std::string()
                                : std::string(" (") + croupier_decision_error_text(decision.error) + ")");
}

}  // namespace

Scheduler::Scheduler(World& world)
    : world_(world),
      ledger_(world.ledger),
      session_(open_session(world)),
      batches_(world.options.microbatches()),
      progress_(world.plan.size()) {
    auto segment = shm::Segment::attach(session_.segment_path(), shm::Access::read_only);
    if (!segment) throw std::runtime_error(segment.error().message);
    segment_ = std::make_unique<shm::Segment>(std::move(segment).value());
    // From here on writers can attach: steps still in flight after a death may need logits.
    ledger_.publish_segment(session_.segment_path());
}

void Scheduler::run() {
    recover();
    std::uint64_t none = 0;
    ledger_.head().first_step_ns.compare_exchange_strong(none, shm::monotonic_ns());
    while (!ledger_.all_ended()) {
        bool submitted = false;
        for (Microbatch& batch : batches_) {
            while (batch.steps.size() < world_.options.ahead && !awaits_kills() && submit(batch))
                submitted = true;
        }
        if (anything_in_flight()) {
            await_step();
        } else if (awaits_kills()) {
            await_kill();
        } else if (!submitted) {
            // Idle until the next request arrives, so sleep until then.
            std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_to_next_arrival()));
        }
    }
    while (anything_in_flight()) await_step();
    close_session(session_, world_);
    ledger_.head().served.store(1, std::memory_order_release);
    ledger_.ring();
}

// Where the process that kills had no processor, the requests are nearly all served before it has killed.
bool Scheduler::awaits_kills() const {
    constexpr double kNearTheEnd = 0.95;
    return ledger_.head().kills_to_come.load(std::memory_order_relaxed) > 0 &&
           ledger_.progress() >= kNearTheEnd;
}

void Scheduler::await_kill() const {
    const auto& to_come = ledger_.head().kills_to_come;
    const std::uint32_t seen = to_come.load(std::memory_order_relaxed);
    if (seen > 0) shm::futex_wait(to_come, seen, std::chrono::milliseconds(kLongestWaitMs));
}

bool Scheduler::anything_in_flight() const {
    return std::any_of(batches_.begin(), batches_.end(),
                       [](const Microbatch& batch) { return !batch.steps.empty(); });
}

std::uint32_t Scheduler::milliseconds_to_next_arrival() const {
    if (waiting_.empty()) return kLongestWaitMs;
    const double due = world_.plan[waiting_.front()].arrival_s;
    const double now = static_cast<double>(shm::monotonic_ns() - ledger_.head().first_step_ns.load()) * 1e-9;
    if (due <= now) return 0;
    return std::min(kLongestWaitMs, static_cast<std::uint32_t>((due - now) * 1e3) + 1);
}

void Scheduler::fill(Microbatch& batch) {
    while (batch.requests.size() < world_.options.batch && !orphans_.empty()) {
        batch.requests.push_back(orphans_.front());
        orphans_.pop_front();
    }
    while (batch.requests.size() < world_.options.batch && !waiting_.empty() &&
           milliseconds_to_next_arrival() == 0) {
        const std::uint32_t request = waiting_.front();
        admit(world_.plan[request]);
        waiting_.pop_front();
        batch.requests.push_back(request);
    }
}

void Scheduler::admit(const Request& request) {
    const bool again = ledger_.count(request.index) > 0;
    if (again) ledger_.note_added_again(request.index);
    progress_[request.index].next = ledger_.count(request.index);
    session_.add(client_sequence(world_, request));
    ledger_.head().live.fetch_add(1, std::memory_order_relaxed);
    if (again) ledger_.head().readmitted.fetch_add(1, std::memory_order_relaxed);
}

bool Scheduler::submit(Microbatch& batch) {
    fill(batch);
    if (batch.requests.empty()) return false;
    std::vector<croupier_column> columns;
    columns.reserve(batch.requests.size());
    masks_.clear();
    std::size_t rows = 0;
    for (const std::uint32_t index : batch.requests) {
        columns.push_back(column_of(index));
        rows += columns.back().rows;
    }
    const std::uint64_t now = shm::monotonic_ns();
    const std::uint64_t step = session_.submit(columns);
    for (const std::uint32_t index : batch.requests) ++progress_[index].next;
    batch.steps.push_back({step, batch.requests, rows, now});
    next_step_ = step + 1;
    return true;
}

croupier_column Scheduler::column_of(std::uint32_t index) {
    const Request& request = world_.plan[index];
    const std::uint32_t rows = replays() ? replayed_rows(index) : drafted_rows(request);
    const std::uint32_t position = progress_[index].next;
    if (!request.masked) return {request.uid(), nullptr, rows, 0};
    std::vector<std::uint32_t>& masks = masks_.emplace_back();
    for (std::uint32_t row = 0; row < rows; ++row) {
        const auto mask = world_.masks.row(request, position + row);
        masks.insert(masks.end(), mask.begin(), mask.end());
    }
    return {request.uid(), masks.data(), rows, 0};
}

std::uint32_t Scheduler::drafted_rows(const Request& request) const {
    // A mask depends on the position, which is not known behind a window in flight.
    if (request.masked && world_.options.ahead > 1) return 1;
    const std::uint64_t chance = key_of(world_.options.seed, kRowsKey, next_step_, request.index);
    return 1 + static_cast<std::uint32_t>(chance % (world_.options.draft + 1));
}

void Scheduler::await_step() {
    // Short while a microbatch waits for requests, so that an arrival is served in time.
    const bool idle =
        std::any_of(batches_.begin(), batches_.end(), [](const Microbatch& b) { return b.steps.empty(); });
    const std::uint32_t patience = idle ? std::max(1U, milliseconds_to_next_arrival()) : kLongestWaitMs;
    const auto step = wait_step(session_, patience);
    if (!step) return;
    const auto batch = std::find_if(batches_.begin(), batches_.end(), [&](const Microbatch& candidate) {
        return !candidate.steps.empty() && candidate.steps.front().step == step->step;
    });
    if (batch == batches_.end()) {
        throw std::runtime_error("step " + std::to_string(step->step) +
                                 " was delivered but is not in flight");
    }
    const StepInFlight sent = std::move(batch->steps.front());
    batch->steps.pop_front();
    deliver_step(*step, sent);
    note_progress(sent);
    retire_ended(*batch);
    truncate_some(sent);
    ledger_.head().steps.fetch_add(1, std::memory_order_relaxed);
    ledger_.head().last_step_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
    ledger_.ring();
}

void Scheduler::deliver_step(const client::Step& step, const StepInFlight& sent) {
    note_latency(sent, step);
    if (step.decisions.size() != sent.rows) {
        throw std::runtime_error("step " + std::to_string(step.step) + " came back with " +
                                 std::to_string(step.decisions.size()) + " decisions for " +
                                 std::to_string(sent.rows) + " rows");
    }
    for (const croupier_decision& decision : step.decisions) {
        if (decision.error == CROUPIER_DECISION_VOID) {
            check_void(decision, step.step);
        } else if (replays() && progress_[request_of(decision)].replay.state != Replay::State::in_flight) {
            note_perturbed(decision);
        } else {
            deliver(decision);
        }
    }
}

// How many tokens a window brings is known once it is decided.
void Scheduler::note_progress(const StepInFlight& sent) {
    if (world_.options.window_rows() == 1 || world_.options.ahead > 1) return;
    for (const std::uint32_t request : sent.requests) {
        if (progress_[request].replay.state == Replay::State::in_flight) end_replay(request);
        if (ledger_.ended(request)) continue;
        progress_[request].next =
            static_cast<std::uint32_t>(session_.output(world_.plan[request].uid()).size());
    }
}

std::uint32_t Scheduler::request_of(const croupier_decision& decision) const {
    if (decision.uid == 0 || decision.uid > world_.plan.size()) {
        throw std::runtime_error("a decision has an unknown sequence " + std::to_string(decision.uid));
    }
    return static_cast<std::uint32_t>(decision.uid - 1);
}

void Scheduler::check_void(const croupier_decision& decision, std::uint64_t step) const {
    const std::uint32_t request = request_of(decision);
    if (ledger_.ended(request) || step < progress_[request].void_below) return;
    throw std::runtime_error("step " + std::to_string(step) +
                             " has a void column of a running sequence: " + decision_text(decision));
}

// Truncations depend on the run's seed; the same tokens must be decided again.
void Scheduler::truncate_some(const StepInFlight& sent) {
    LedgerHead& head = ledger_.head();
    for (const std::uint32_t request : sent.requests) {
        if (head.truncated.load(std::memory_order_relaxed) >= world_.options.truncates) return;
        const std::uint64_t chance = key_of(world_.options.seed, kTruncateKey, truncations_++);
        const std::uint32_t outputs =
            ledger_.ended(request)
                ? 0
                : static_cast<std::uint32_t>(session_.output(world_.plan[request].uid()).size());
        if (chance % kTruncateOneIn != 0 || outputs == 0) continue;
        const auto back = static_cast<std::uint32_t>(chance >> 32U) % std::min(outputs, kTruncateMost) + 1;
        session_.truncate(world_.plan[request].uid(), outputs - back);
        progress_[request] = {outputs - back, next_step_, {}};
        head.truncated.fetch_add(1, std::memory_order_relaxed);
    }
}

void Scheduler::deliver(const croupier_decision& decision) {
    if (decision.error == CROUPIER_DECISION_REJECTED) return;
    const std::uint32_t request = request_of(decision);
    LedgerEntry entry;
    entry.token = decision.token;
    entry.logprob = decision.logprob;
    entry.flags = decision.flags;
    entry.error = decision.error;
    if (world_.options.stops && decision.error == 0) note_text(decision, entry);
    entry.last = decision.error != 0 || (decision.flags & CROUPIER_STOPPED) != 0 ? 1 : 0;
    LedgerHead& head = ledger_.head();
    switch (ledger_.append(request, decision.output_index, entry)) {
        case Delivery::appended:
            for (const auto& [flag, count] : {std::pair(CROUPIER_STOPPED_STRING, &head.stop_strings),
                                              std::pair(CROUPIER_STOPPED_JSON, &head.json_values),
                                              std::pair(CROUPIER_STOPPED_LOOP, &head.loops)})
                if ((decision.flags & flag) != 0) count->fetch_add(1, std::memory_order_relaxed);
            return;
        case Delivery::repeated:
            // Repeated decisions are expected after a truncation.
            if (head.truncated.load(std::memory_order_relaxed) == 0)
                head.duplicated.fetch_add(1, std::memory_order_relaxed);
            if (ledger_.entry(request, decision.output_index).token != decision.token) {
                throw std::runtime_error("delivered twice with different tokens: " + decision_text(decision) +
                                         " after " +
                                         std::to_string(ledger_.entry(request, decision.output_index).token));
            }
            return;
        case Delivery::gap:
            head.gaps.fetch_add(1, std::memory_order_relaxed);
            throw std::runtime_error("a decision is missing: " + decision_text(decision) +
                                     " arrived when the ledger had " +
                                     std::to_string(ledger_.count(request)) + " tokens");
    }
}

// The text is that after all rows of the step, of which this one's is a part: nothing that was released
// changes.
void Scheduler::note_text(const croupier_decision& decision, LedgerEntry& entry) const {
    const std::string text = session_.text(decision.uid);
    if (decision.text_bytes > text.size())
        throw std::runtime_error("released text is gone: " + decision_text(decision));
    entry.stop_string = static_cast<std::uint8_t>(decision.stop_string);
    entry.stop_begin = static_cast<std::uint32_t>(decision.stop_begin);
    entry.text_bytes = static_cast<std::uint32_t>(decision.text_bytes);
    entry.text_hash = text_hash(std::string_view(text).substr(0, decision.text_bytes));
}

void Scheduler::retire_ended(Microbatch& batch) {
    const auto ended = [&](std::uint32_t request) {
        if (!ledger_.ended(request)) return false;
        progress_[request].void_below = next_step_;
        session_.finish(world_.plan[request].uid());
        ledger_.head().live.fetch_sub(1, std::memory_order_relaxed);
        return true;
    };
    batch.requests.erase(std::remove_if(batch.requests.begin(), batch.requests.end(), ended),
                         batch.requests.end());
}

void Scheduler::note_latency(const StepInFlight& sent, const client::Step& step) {
    // The slot is unchanged until this scheduler submits a step that reuses it.
    const auto& head = segment_->decision_head(segment_->slot_of(step.step));
    const std::uint64_t ready = head.logits_ready_ns.load(std::memory_order_relaxed);
    const std::uint64_t done = head.last_commit_ns.load(std::memory_order_relaxed);
    if (ready != 0 && done >= ready) {
        ledger_.head().decision_latency.add(done - ready);
        if (sent.requests.size() == world_.options.batch) ledger_.head().full_batch_latency.add(done - ready);
    }
    ledger_.head().step_latency.add(shm::monotonic_ns() - sent.submitted_ns);
}

}  // namespace croupier::sim
