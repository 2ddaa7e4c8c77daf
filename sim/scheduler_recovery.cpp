// What a scheduler does before its first step: finds out how far its predecessor got.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "sim/engine_session.h"
#include "sim/scheduler_process.h"

namespace croupier::sim {

// The ledger and the segment show the state, at whatever instruction the predecessor died:
//   step submitted, not taken      wait() delivers it
//   step taken, not in the ledger  the sequences' logs have its tokens, before those of steps in flight
//   ended in the ledger, live      finish() is called now
//   not ended and not live         it is added with its output in the ledger
void Scheduler::recover() {
    ledger_.recount();
    std::vector<bool> live(world_.plan.size(), false);
    if (session_.resumed()) {
        take_over_steps_in_flight();
        take_over_sequences(live);
    }
    ledger_.head().live.store(orphans_.size(), std::memory_order_relaxed);
    for (std::uint32_t request = 0; request < world_.plan.size(); ++request) {
        if (!live[request] && !ledger_.ended(request)) waiting_.push_back(request);
    }
}

void Scheduler::take_over_steps_in_flight() {
    while (session_.in_flight() > 0) {
        const auto step = wait_step(session_, 1000);
        if (!step) continue;
        if (!replays())
            for (const croupier_decision& decision : step->decisions) take_over_decision(decision);
        ledger_.head().steps.fetch_add(1, std::memory_order_relaxed);
        ledger_.ring();
    }
}

void Scheduler::take_over_decision(const croupier_decision& decision) {
    // Void columns of running sequences will be decided again.
    if (decision.error == CROUPIER_DECISION_VOID || decision.error == CROUPIER_DECISION_REJECTED) return;
    // A finished sequence has void columns alone, so this one has its log.
    deliver_from_log(world_.plan[request_of(decision)], decision.output_index);
    deliver(decision);
}

void Scheduler::take_over_sequences(std::vector<bool>& live) {
    for (const std::uint64_t uid : session_.live()) {
        if (uid == 0 || uid > world_.plan.size()) {
            throw std::runtime_error("the session holds a sequence " + std::to_string(uid) +
                                     " that belongs to no request");
        }
        const auto request = static_cast<std::uint32_t>(uid - 1);
        live[request] = true;
        if (!replays()) deliver_from_log(world_.plan[request], world_.plan[request].params.max_tokens);
        if (ledger_.ended(request)) {
            session_.finish(uid);
        } else {
            // Which tokens of its log are from perturbed rows only the dead one knew.
            if (replays()) progress_[request].replay.state = Replay::State::due;
            // It may have been truncated to less than the ledger has.
            progress_[request].next = static_cast<std::uint32_t>(session_.output(uid).size());
            orphans_.push_back(request);
        }
    }
}

// Tokens before `end` that the ledger lacks belong to a step that was taken and is no longer in flight.
void Scheduler::deliver_from_log(const Request& request, std::uint32_t end) {
    std::uint32_t position = ledger_.count(request.index);
    if (position >= end) return;
    const std::vector<std::int32_t> output = session_.output(request.uid());
    for (; position < std::min<std::size_t>(end, output.size()); ++position) {
        LedgerEntry entry;
        entry.token = output[position];
        // What follows the end of its text is void.
        const bool is_stop = world_.options.stops && position + 1 == output.size() &&
                             session_.text_stop(request.uid()).has_value();
        entry.last = is_stop || request.ends_with(std::span(output).first(position + 1)) ? 1 : 0;
        entry.from_log = 1;
        if (ledger_.append(request.index, position, entry) != Delivery::appended) {
            throw std::runtime_error("the log of request " + std::to_string(request.index) +
                                     " continues after its end, at position " + std::to_string(position));
        }
        ledger_.head().recovered.fetch_add(1, std::memory_order_relaxed);
    }
}

}  // namespace croupier::sim
