#include "client/decision_stream.h"

#include <variant>

#include "proto/wire.h"

namespace croupier::client {
namespace {

constexpr std::chrono::milliseconds kLongestSilence{500};

proto::DecisionError error_from(std::uint16_t code) {
    const auto error = static_cast<proto::DecisionError>(code);
    return error < proto::DecisionError::count_ ? error : proto::DecisionError::bad_record;
}

// A message whose counts are not of its entries has none.
void unpack_ranked(const wire::StepDecisions& message, StreamedStep& step) {
    if (message.logprobs() == nullptr || message.logprob_counts() == nullptr) return;
    std::size_t counted = 0;
    for (const std::uint8_t count : *message.logprob_counts()) counted += count;
    if (counted != message.logprobs()->size() || message.logprob_counts()->size() != step.decisions.size())
        return;
    step.ranked_counts.assign(message.logprob_counts()->begin(), message.logprob_counts()->end());
    for (const wire::LogprobEntry* entry : *message.logprobs()) {
        step.ranked.push_back({entry->token(), entry->logprob(), entry->rank()});
    }
}

void unpack_survivors(const wire::StepDecisions& message, StreamedStep& step) {
    const auto* counts = message.support_counts();
    const auto* totals = message.support_totals();
    if (message.support() == nullptr || counts == nullptr || totals == nullptr) return;
    std::uint64_t counted = 0;
    for (const std::uint32_t count : *counts) counted += count;
    const std::size_t columns = step.decisions.size();
    if (counted != message.support()->size() || counts->size() != columns || totals->size() != columns)
        return;
    step.survivor_counts.assign(counts->begin(), counts->end());
    step.survivor_totals.assign(totals->begin(), totals->end());
    for (const wire::SurvivorEntry* entry : *message.support()) {
        step.survivors.push_back({entry->token(), 0, entry->probability()});
    }
}

StreamedStep unpack(const wire::StepDecisions& message) {
    StreamedStep step;
    step.step = message.step();
    step.refused = error_from(message.refused());
    const auto* entries = message.decisions();
    if (entries == nullptr) return step;
    step.decisions.reserve(entries->size());
    for (const wire::DecisionEntry* entry : *entries) {
        step.decisions.push_back({entry->sequence_uid(), entry->token(), entry->logprob(), entry->position(),
                                  entry->flags(), error_from(entry->error())});
    }
    unpack_ranked(message, step);
    unpack_survivors(message, step);
    return step;
}

}  // namespace

void DecisionStream::subscribe() {
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 0, wire::CreateSubscribe(builder, session_id_));
    dealer_.send(builder.GetBufferPointer(), builder.GetSize());
    note_progress();
}

void DecisionStream::keep_subscribed(std::uint32_t daemon_generation) {
    const bool silent = std::chrono::steady_clock::now() - quiet_since_ >= kLongestSilence;
    if (generation_ == daemon_generation && !silent) return;
    generation_ = daemon_generation;
    subscribe();
}

shm::Result<std::optional<StreamedStep>> DecisionStream::receive(std::chrono::milliseconds timeout) {
    std::optional<StreamedStep> nothing;
    const auto bytes = dealer_.receive(timeout);
    if (!bytes) return nothing;
    const auto parsed = wire::parse(bytes->data(), bytes->size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        return shm::fail(shm::Errc::wrong_version,
                         dealer_.endpoint() + " sent what is no decision: " + fault->message);
    }
    const auto* step = std::get<const wire::Message*>(parsed)->body_as_StepDecisions();
    if (step == nullptr || step->session_id() != session_id_) return nothing;
    return std::optional(unpack(*step));
}

}  // namespace croupier::client
