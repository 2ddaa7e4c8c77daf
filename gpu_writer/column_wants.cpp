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

LeanWant want_of(const shm::Segment& segment, const proto::ScheduleColumn& column, std::uint32_t number,
                 NamedIds& names) {
    const proto::Geometry& geometry = segment.geometry();
    const proto::SequenceEntry* entry = live_sequence(segment, column);
    if (entry == nullptr) return {};
    const proto::SamplingParams params = segment.params(column.sequence_slot);
    const request::Plan plan = plan_in_segment(params, *entry, column.position, geometry);
    LeanWant want = names.want_of(number, plan, params, lists_of(segment, column.sequence_slot, *entry),
                                  geometry.lean_blocks);
    if (column.mask_row != 0 && column.mask_row <= geometry.mask_rows)
        request::put_under_mask(want, plan, params, static_cast<std::uint16_t>(column.mask_row));
    return want;
}

// Where a step's columns stand whole, told one after another.
class PlacesInSlice {
  public:
    PlacesInSlice(const proto::Geometry& geometry, std::uint32_t columns)
        : shared_(geometry.max_windows != 0), last_(geometry.row_places(columns) - 1) {}

    bool are_shared() const { return shared_; }
    std::uint16_t next(std::uint32_t row) {
        const std::uint32_t window = windows_.next(row);
        // A client may have changed the record since it was published.
        return static_cast<std::uint16_t>(shared_ ? std::min(window, last_) : column_++);
    }

  private:
    bool shared_;
    std::uint32_t last_;
    std::uint32_t column_ = 0;
    proto::WindowNumbers windows_;
};

}  // namespace

request::Plan plan_in_segment(const proto::SamplingParams& params, const proto::SequenceEntry& entry,
                              std::uint32_t position, const proto::Geometry& geometry) {
    const request::ListSizes lists{entry.allowed_count, entry.bias_count, entry.bad_words_count};
    const request::Rules rules = request::rules_of(params, lists, position);
    return request::plan_of(params, {rules, false, entry.prompt_length + position, geometry.vocab});
}

StepMasks masks_of(const shm::Segment& segment, std::uint64_t step) {
    if (segment.geometry().mask_rows == 0) return {};
    return {segment.mask_row(segment.slot_of(step), 0), segment.layout().mask_row_words};
}

void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                NamedIds& names, std::span<LeanWant> wants) {
    PlacesInSlice places(segment.geometry(), static_cast<std::uint32_t>(columns.size()));
    names.begin();
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const proto::ScheduleColumn column = columns[i];
        wants[i] = want_of(segment, column, static_cast<std::uint32_t>(i), names);
        wants[i].place = places.next(column.row);
        // The place is the head's, until that is decided.
        if (places.are_shared() && column.row != 0) wants[i].flags.remove(Want::whole);
    }
    request::spare_few_racers(wants.first(columns.size()), segment.geometry().lean_blocks);
}

}  // namespace croupier::gpu_writer
