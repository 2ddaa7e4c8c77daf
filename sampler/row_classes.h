// All tokens of a 16-bit row by their values, adjusted: a row holds a few thousand different ones. A filter
// over classes is a filter over the whole row, exactly, without a sort of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/request.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class RowClasses {
  public:
    RowClasses(const BlockedRow& row, const Adjuster& adjust, Adjustments on, const Request& request,
               Workspace& workspace)
        : row_(row), adjust_(adjust), on_(on), request_(request), workspace_(workspace) {}

    // In canonical order; a class's members count from 0 in the order of their ids. At least one, where a
    // token is above -inf.
    Survivors list();

    // Whether a token of the row is one of those that were left of list().
    bool holds(const Survivors& left, const Candidate& candidate);

  private:
    void count_codes();
    void list_counted();
    void merge_changed();
    // Of a class that is kept in part: its value, and the kept members' first and last id.
    struct KeptPart {
        double value;
        std::uint32_t first;
        std::uint32_t last;
    };
    const KeptPart& kept_part(const EqualClass& of);
    std::span<std::uint32_t> list_members(double value);

    const BlockedRow& row_;
    const Adjuster& adjust_;
    Adjustments on_;
    const Request& request_;
    Workspace& workspace_;
    std::uint32_t changed_ = 0;  // of the workspace's candidates: those that are not as they were written
    std::uint32_t classes_ = 0;
    std::array<KeptPart, 4> kept_parts_{};  // those that were asked about last: few classes are cut
    std::uint32_t known_parts_ = 0;
};

}  // namespace croupier::sampler
