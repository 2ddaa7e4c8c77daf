#include "gpu_writer/column_wants.h"

#include <algorithm>
#include <atomic>

#include "gpu_writer/begun_steps.h"
#include "request/wants.h"

namespace croupier::gpu_writer {
namespace {

// The counts are another process's.
NamedLists lists_of(const shm::Segment& segment, std::uint32_t slot, const proto::SequenceEntry& entry) {
    const proto::Geometry& geometry = segment.geometry();
    return {slot,
            entry.admission.load(std::memory_order_relaxed),
            {segment.lists(slot), std::min(entry.allowed_count, geometry.max_list_tokens)},
            {segment.biases(slot), std::min<std::uint32_t>(entry.bias_count, geometry.max_bias)}};
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
                NamedIds& names, std::span<LeanWant> wants) {
    const proto::Geometry& geometry = segment.geometry();
    const std::uint32_t room = geometry.lean_blocks;
    names.begin();
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const proto::ScheduleColumn column = columns[i];
        wants[i] = {};
        const proto::SequenceEntry* entry = live_sequence(segment, column);
        if (entry == nullptr) continue;
        const proto::SamplingParams params = segment.params(column.sequence_slot);
        const request::Plan plan = plan_in_segment(params, *entry, column.position, geometry);
        wants[i] = names.want_of(static_cast<std::uint32_t>(i), plan, params,
                                 lists_of(segment, column.sequence_slot, *entry), room);
        if (column.mask_row == 0 || column.mask_row > geometry.mask_rows) continue;
        request::put_under_mask(wants[i], plan, params, static_cast<std::uint16_t>(column.mask_row));
    }
    request::spare_few_racers(wants.first(columns.size()), room);
}

}  // namespace croupier::gpu_writer
