// One column as a decision sees it: the whole row of a request's position, and what the request asks there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sim/world.h"

namespace croupier::sim {

class WholeRow {
  public:
    explicit WholeRow(const World& world);

    // Of the position behind `output`; valid until the next call.
    sampler::RowView write(const Request& request, std::span<const std::int32_t> prompt,
                           std::span<const std::int32_t> output);

  private:
    const World& world_;
    std::vector<std::byte> row_;
    sampler::Slice slice_{};
};

// Without the feedback of earlier positions.
sampler::Request asked_at(const World& world, const Request& request, std::span<const std::int32_t> prompt,
                          std::span<const std::int32_t> output);

}  // namespace croupier::sim
