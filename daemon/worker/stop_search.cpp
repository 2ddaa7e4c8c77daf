#include "daemon/worker/stop_search.h"

#include "proto/decision.h"

namespace croupier::daemon {

bool StopSearch::follow(std::span<const std::int32_t> output, std::size_t most) {
    const std::size_t stands = std::min(tokens(), output.size());
    text_.truncate(stands, output);
    kept_ = kAll;
    const std::size_t end = stands + std::min(most, output.size() - stands);
    while (text_.tokens() < end) {
        scratch_.clear();
        (void)text_.add(output[text_.tokens()], scratch_);
    }
    return end == output.size();
}

std::uint16_t StopSearch::completed_by(std::int32_t token) {
    scratch_.clear();
    const auto stop = text_.add(token, scratch_).stop;
    if (!stop) return 0;
    return stop->kind == text::FoundStop::Kind::json ? proto::kStoppedByJson : proto::kStoppedByString;
}

}  // namespace croupier::daemon
