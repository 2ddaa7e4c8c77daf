// The order in which a device sends a lean step's columns, and the parts of it that it tells of before all
// are there: who decides columns of a part may begin while others are on their way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "proto/geometry.h"
#include "proto/logits_slot.h"
#include "proto/schedule_slot.h"

namespace croupier::proto {

class LeanOrder {
    // Products of two places are numbers of 32 bits, which a GPU divides fast.
    static_assert(kMaxBatch <= 1U << 16U);

  public:
    constexpr explicit LeanOrder(std::uint32_t columns)
        : columns_(columns), parts_(std::clamp(columns / kFewest, 1U, kLeanStamps + 1)) {
        apart_ = std::max(static_cast<std::uint32_t>(columns * kGoldenSection), 1U);
        while (std::gcd(apart_, columns_) != 1) --apart_;
        // That of `apart_` modulo the number of columns, by Euclid.
        std::int64_t remainder = columns;
        std::int64_t next = apart_;
        std::int64_t factor = 0;
        std::int64_t inverse = 1;
        while (next != 0) {
            const std::int64_t quotient = remainder / next;
            remainder = std::exchange(next, remainder - quotient * next);
            factor = std::exchange(inverse, factor - quotient * inverse);
        }
        back_ = static_cast<std::uint32_t>(factor < 0 ? factor + columns : factor);
    }

    // Of fewer columns no part is told of.
    static constexpr bool has_stamps(std::uint32_t columns) { return columns >= 2 * kFewest; }

    constexpr std::uint32_t columns() const { return columns_; }
    // The last one has no stamp but the step's ready word.
    constexpr std::uint32_t parts() const { return parts_; }
    // Columns that are sent one after another stand far apart, by the golden section, around the end: a
    // sampler decides some that stand side by side, and has the first of them soon.
    constexpr std::uint32_t column_at(std::uint32_t place) const { return place * apart_ % columns_; }
    constexpr std::uint32_t place_of(std::uint32_t column) const { return column * back_ % columns_; }
    constexpr std::uint32_t part_at(std::uint32_t place) const { return place * parts_ / columns_; }
    // From this place on.
    constexpr std::uint32_t begin_of(std::uint32_t part) const {
        return (part * columns_ + parts_ - 1) / parts_;
    }
    constexpr std::uint32_t size_of(std::uint32_t part) const { return begin_of(part + 1) - begin_of(part); }

  private:
    // Both sides divide a step alike or take other columns for those that are there: none of these numbers
    // changes while kSegmentVersion does not.
    static constexpr double kGoldenSection = 0.618;
    static constexpr std::uint32_t kFewest = 16;

    std::uint32_t columns_;
    std::uint32_t parts_;
    std::uint32_t apart_ = 1;
    std::uint32_t back_ = 0;  // apart_ * back_ is 1, around the end
};

// The same of a step with windows: all heads are sent first, then all second rows, and so on, those of one
// number in the order of LeanOrder. So samplers begin with heads while the rows are on their way that these
// decide about. Some heads are a part together, all second rows, all third rows; the last part has the rest.
class WindowOrder {
  public:
    struct Place {
        std::uint16_t column = 0;
        std::uint16_t part = 0;
    };

    constexpr explicit WindowOrder(const LeanOrder& order) : order_(order) {}

    static constexpr std::uint32_t parts() { return kLeanStamps + 1; }
    // `row`: the column's number in its window. There may be parts without a column.
    constexpr std::uint32_t part_of(std::uint32_t column, std::uint32_t row) const {
        if (!LeanOrder::has_stamps(order_.columns())) return kLeanStamps;
        if (row != 0) return std::min(kHeadParts - 1 + row, kLeanStamps);
        return order_.place_of(column) * kHeadParts / order_.columns();
    }
    // Fills in which column is sent at each place. `rows` has each column's number in its window.
    constexpr void lay(std::span<const std::uint16_t> rows, std::span<Place> places) const {
        const auto bounded = [&](std::uint32_t column) {
            return std::min<std::uint32_t>(rows[column], kMaxWindowRows - 1);
        };
        std::uint32_t next[kMaxWindowRows + 1] = {};
        for (std::uint32_t column = 0; column < order_.columns(); ++column) ++next[bounded(column) + 1];
        std::partial_sum(std::begin(next), std::end(next), std::begin(next));
        for (std::uint32_t place = 0; place < order_.columns(); ++place) {
            const std::uint32_t column = order_.column_at(place);
            places[next[bounded(column)]++] = {static_cast<std::uint16_t>(column),
                                               static_cast<std::uint16_t>(part_of(column, bounded(column)))};
        }
    }

  private:
    // Nor does this one change.
    static constexpr std::uint32_t kHeadParts = 4;

    LeanOrder order_;
};

}  // namespace croupier::proto
