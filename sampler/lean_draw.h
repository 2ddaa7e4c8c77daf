// The token of a row that was drawn where the row is: by the writers that sent a part of it.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/row_view.h"

namespace croupier::sampler {

// The token that decide() finds in the whole row. Nothing: a writer drew none, or not by what the request
// asks for, or the request asks for more. Of a request and a view that were checked.
std::optional<std::uint32_t> drawn_token(const RowView& view, const proto::SamplingParams& params,
                                         const Request& request) noexcept;

}  // namespace croupier::sampler
