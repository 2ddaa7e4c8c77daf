#include "gpu_writer/column_wants.h"

#include <algorithm>

#include "gpu_writer/begun_steps.h"
#include "request/wants.h"

namespace croupier::gpu_writer {
namespace {

// The counts are another process's. A list that names too many blocks is not read to its end.
void add_named(const shm::Segment& segment, std::uint32_t slot, const proto::SequenceEntry& entry,
               const request::Rules& rules, NamedBlocks& blocks) {
    const proto::Geometry& geometry = segment.geometry();
    const std::uint32_t most = request::most_named(rules, geometry.lean_blocks);
    if (rules.lists) {
        const std::uint32_t count = std::min(entry.allowed_count, geometry.max_list_tokens);
        const std::int32_t* ids = segment.lists(slot);
        for (std::uint32_t i = 0; i < count && blocks.count() <= most; ++i) blocks.add(ids[i]);
        return;
    }
    const std::uint32_t count = std::min<std::uint32_t>(entry.bias_count, geometry.max_bias);
    const proto::TokenBias* biases = segment.biases(slot);
    for (std::uint32_t i = 0; i < count && blocks.count() <= most; ++i) {
        if (biases[i].bias > 0.0F) blocks.add(biases[i].token);
    }
}

}  // namespace

request::Plan plan_in_segment(const proto::SamplingParams& params, const proto::SequenceEntry& entry,
                              std::uint32_t position, const proto::Geometry& geometry) {
    const request::ListSizes lists{entry.allowed_count, entry.bias_count, entry.bad_words_count};
    const request::Rules rules = request::rules_of(params, lists, position);
    return request::plan_of(params,
                            {rules, false, entry.prompt_length + position, geometry.vocab, geometry.dtype});
}

StepMasks masks_of(const shm::Segment& segment, std::uint64_t step) {
    if (segment.geometry().mask_rows == 0) return {};
    return {segment.mask_row(segment.slot_of(step), 0), segment.layout().mask_row_words};
}

void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                NamedBlocks& blocks, std::span<LeanWant> wants, std::span<std::uint16_t> names) {
    const proto::Geometry& geometry = segment.geometry();
    const std::uint32_t room = geometry.lean_blocks;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const proto::ScheduleColumn column = columns[i];
        wants[i] = {};
        const proto::SequenceEntry* entry = live_sequence(segment, column);
        if (entry == nullptr) continue;
        const proto::SamplingParams params = segment.params(column.sequence_slot);
        const request::Plan plan = plan_in_segment(params, *entry, column.position, geometry);
        const auto own = names.subspan(i * room, request::most_named(plan.rules, room));
        add_named(segment, column.sequence_slot, *entry, plan.rules, blocks);
        wants[i] = request::want_of(plan, params, {room, blocks.take(own)});
        if (column.mask_row == 0 || column.mask_row > geometry.mask_rows) continue;
        // What is told under a mask would be of all that it allows, listed or not.
        if (plan.rules.lists) wants[i].flags.add(Want::whole);
        if (!wants[i].flags.has(Want::whole)) wants[i].mask_row = static_cast<std::uint16_t>(column.mask_row);
    }
    request::spare_few_racers(wants.first(columns.size()), room);
}

}  // namespace croupier::gpu_writer
