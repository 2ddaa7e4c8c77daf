#include "client/streamed_step.h"

namespace croupier::client {
namespace {

proto::DecisionError error_from(std::uint16_t code) {
    const auto error = static_cast<proto::DecisionError>(code);
    return error < proto::DecisionError::count_ ? error : proto::DecisionError::bad_record;
}

// If the counts do not add up to the entries, the step has no log-probs.
void read_logprobs(const wire::StepDecisions& message, StreamedStep& step) {
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

void read_supports(const wire::StepDecisions& message, StreamedStep& step) {
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

}  // namespace

StreamedStep read_step(const wire::StepDecisions& message) {
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
    read_logprobs(message, step);
    read_supports(message, step);
    return step;
}

}  // namespace croupier::client
