#include "sampler/stops.h"

#include <algorithm>
#include <cstddef>

#include "sampler/loops.h"
#include "sampler/params.h"

namespace croupier::sampler {
namespace {

using proto::SamplingParams;

std::uint16_t kind_flag(const SamplingParams& params) {
    if (is_greedy(params)) return proto::kGreedy;
    return is_truncated(params) ? std::uint16_t{proto::kTruncated} : std::uint16_t{0};
}

std::uint16_t stop_flag(const SamplingParams& params, const Request& request, std::int32_t token) {
    const bool ends_by_ids = (params.flags & proto::kStopsOnlyBan) == 0;
    const bool ignores_eos = (params.flags & proto::kIgnoreEos) != 0;
    if (ends_by_ids && !ignores_eos && token == params.eos_token_id) return proto::kStoppedByEos;
    const auto& stops = request.stop_ids;
    if (ends_by_ids && std::find(stops.begin(), stops.end(), token) != stops.end())
        return proto::kStoppedByToken;
    const std::size_t outputs = request.output.size() + 1;
    const bool enough = params.max_tokens > 0 && outputs >= params.max_tokens;
    const bool full = request.prompt.size() + outputs >= request.max_length;
    if (enough || full) return proto::kStoppedByLength;
    const bool looks_for_loops = params.loop_max_period > 0 && outputs > params.min_tokens;
    return looks_for_loops && completes_loop(params, request.output, token)
               ? std::uint16_t{proto::kStoppedByLoop}
               : std::uint16_t{0};
}

}  // namespace

std::uint16_t flags_of(const SamplingParams& params, const Request& request, std::int32_t token) noexcept {
    return static_cast<std::uint16_t>(kind_flag(params) | stop_flag(params, request, token));
}

}  // namespace croupier::sampler
