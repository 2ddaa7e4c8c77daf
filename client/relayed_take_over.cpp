// What a relay tells a client that attaches to a session: the live sequences, and the steps in flight.
#include <utility>

#include "client/record_messages.h"
#include "client/relayed_ring.h"

namespace croupier::client {

using shm::Errc;

shm::Result<bool> RelayedRing::take_over(const wire::SessionAttached& answer, Slots& by_slot) {
    if (auto fault = read_geometry(answer.geometry(), geometry_)) {
        return shm::fail(Errc::bad_geometry, "the relay's answer is of no use: " + *fault);
    }
    take_over_sequences(answer, by_slot);
    if (answer.more_follow()) return true;
    params_bytes_ = answer.params_bytes();
    steps_.resize(geometry_.slots);
    published_ = taken_ = answer.taken();
    CROUPIER_TRY(take_over_steps(answer, by_slot));
    return false;
}

void RelayedRing::take_over_sequences(const wire::SessionAttached& answer, Slots& by_slot) {
    if (answer.sequences() == nullptr) return;
    for (const auto* live : *answer.sequences()) {
        if (!sequences_.check_new(live->uid())) continue;
        Sequence sequence{{}, live->prompt_length(), static_cast<proto::Rng>(live->rng())};
        if (const auto* output = live->output()) sequence.output.assign(output->begin(), output->end());
        if (geometry_.token_table_bytes != 0) found_texts_.push_back(read_found_text(*live));
        sequences_.insert(live->uid(), std::move(sequence));
        by_slot[live->slot()] = sequences_.find(live->uid()).value();
    }
}

shm::Result<bool> RelayedRing::take_over_steps(const wire::SessionAttached& answer, Slots& by_slot) {
    const auto* steps = answer.steps();
    if (steps == nullptr) return true;
    if (steps->size() > geometry_.slots) {
        return shm::fail(Errc::corrupt_header, "the relay's answer has " + std::to_string(steps->size()) +
                                                   " steps in flight, the session has " +
                                                   std::to_string(geometry_.slots) + " slots");
    }
    for (const auto* step : *steps) {
        StepSent& slot = slot_of(published_);
        if (step->uids() != nullptr) slot.uids.assign(step->uids()->begin(), step->uids()->end());
        slot.record = last_record_;
        for (std::uint32_t column = 0; column < slot.uids.size(); ++column) {
            slot.entries.push_back(recall(*step, column, by_slot));
        }
        ++published_;
    }
    return true;
}

RelayedRing::Entry* RelayedRing::recall(const wire::StepInFlight& step, std::uint32_t column,
                                        Slots& by_slot) {
    const std::uint64_t uid = step.uids()->Get(column);
    const bool known = step.slots() != nullptr && column < step.slots()->size() &&
                       step.void_columns() != nullptr && column < step.void_columns()->size();
    Entry*& entry = by_slot[known ? step.slots()->Get(column) : 0];
    // An earlier client finished it.
    if (entry == nullptr || entry->uid != uid) entry = sequences_.insert_finished(uid, {});
    const bool more = column > 0 && slot_of(published_).entries[column - 1] == entry;
    if (more) {
        sequences_.enter_row(*entry, column);
    } else if (known && step.void_columns()->Get(column) == 0) {
        sequences_.enter(*entry, published_, column);
    } else {
        sequences_.enter_void(*entry, published_, column);
    }
    return entry;
}

}  // namespace croupier::client
