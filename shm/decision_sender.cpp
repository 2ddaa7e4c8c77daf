#include "shm/decision_sender.h"

#include <algorithm>
#include <vector>

#include "proto/fan_out_frame.h"
#include "proto/geometry.h"
#include "shm/step_window.h"

namespace croupier::shm {
namespace {

constexpr std::uint64_t kMostBytesOfColumn =
    sizeof(wire::DecisionEntry) + sizeof(std::uint8_t) + 2 * sizeof(std::uint32_t);
static_assert(proto::kMostSentBeside + proto::kMaxBatch * kMostBytesOfColumn + 4096 < proto::kMaxAnswerBytes,
              "the message of a step has to fit a relay's answer");

// The log-probs of all columns, one column after the other.
struct LogprobLists {
    std::vector<wire::LogprobEntry> entries;
    std::vector<std::uint8_t> counts;

    using Column = proto::StoredArray<const proto::RankedLogprob>;
    void add(Column column) {
        for (const auto& [token, logprob, rank] : column) entries.emplace_back(token, logprob, rank);
        counts.push_back(static_cast<std::uint8_t>(column.size()));
    }
};

// The supports of all columns, likewise.
struct SupportLists {
    std::vector<wire::SurvivorEntry> entries;
    std::vector<std::uint32_t> counts;
    std::vector<std::uint32_t> totals;

    void add(const AnsweredSupport& column) {
        for (const auto& [token, reserved, probability] : column.survivors)
            entries.emplace_back(token, reserved, probability);
        counts.push_back(static_cast<std::uint32_t>(column.survivors.size()));
        totals.push_back(column.total);
    }
};

std::uint32_t columns_of(const Segment& segment, std::uint32_t slot) {
    return std::min(segment.schedule(slot).columns, segment.geometry().max_batch);
}

}  // namespace

bool DecisionSender::has_next(const Segment& segment) {
    const StepWindow window = steps_in_flight(segment);
    if (!window.sound) return false;
    next_step_ = std::max(next_step_, window.first);
    if (next_step_ >= window.end) return false;
    const std::uint32_t slot = segment.slot_of(next_step_);
    return step_complete(segment, slot, columns_of(segment, slot));
}

bool DecisionSender::pack(const Segment& segment, std::uint64_t request,
                          flatbuffers::FlatBufferBuilder& builder) {
    if (!has_next(segment)) return false;
    const std::uint32_t slot = segment.slot_of(next_step_);
    const std::uint32_t columns = columns_of(segment, slot);
    const bool has_logprobs = segment.geometry().max_logprobs > 0;
    const bool has_supports = segment.geometry().max_support > 0;
    std::vector<wire::DecisionEntry> entries;
    LogprobLists logprobs;
    SupportLists supports;
    entries.reserve(columns);
    for (std::uint32_t column = 0; column < columns; ++column) {
        const proto::Decision decision = segment.decisions(slot)[column];
        entries.emplace_back(decision.sequence_uid, decision.token, decision.logprob, decision.position,
                             decision.flags, static_cast<std::uint16_t>(decision.error));
        const bool decided = decision.error == proto::DecisionError::none;
        if (has_logprobs) {
            logprobs.add(decided ? asked_logprobs(segment.logprobs(slot, column)) : LogprobLists::Column());
        }
        if (has_supports) {
            supports.add(decided ? answered_support(segment, slot, column) : AnsweredSupport());
        }
    }
    builder.Clear();
    const auto body = wire::CreateStepDecisionsDirect(
        builder, segment.id(), next_step_, static_cast<std::uint16_t>(step_refusal(segment, slot)), &entries,
        has_logprobs ? &logprobs.entries : nullptr, has_logprobs ? &logprobs.counts : nullptr,
        has_supports ? &supports.entries : nullptr, has_supports ? &supports.counts : nullptr,
        has_supports ? &supports.totals : nullptr);
    wire::finish(builder, request, body);
    return true;
}

}  // namespace croupier::shm
