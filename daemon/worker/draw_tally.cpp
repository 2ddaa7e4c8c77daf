#include "daemon/worker/draw_tally.h"

#include <algorithm>

namespace croupier::daemon {

using proto::SessionCounter;
using sampler::Region;

namespace {

// A draw that took longer than this was interrupted: what it took says nothing of its hot set.
constexpr std::uint64_t kLongestDraw = 1'000'000;

}  // namespace

void DrawTally::add(const sampler::Answer& answer, std::uint32_t hot_choice, bool read_early,
                    std::uint64_t ns) {
    const std::uint64_t read = read_early ? answer.blocks : answer.blocks_read;
    tiles_read_ += read;
    tiles_skipped_ += answer.blocks - read;
    asked_left_open_ += answer.left_open == request::DecisionPath::asked ? 1 : 0;
    mirostat_left_open_ += answer.left_open == request::DecisionPath::mirostat ? 1 : 0;
    proposals_left_open_ += answer.left_open == request::DecisionPath::proposals ? 1 : 0;
    if (answer.region == Region::none) return;
    ++(answer.region == Region::hot ? hot_ : tail_);
    corrected_ += answer.proposals > 1 ? 1 : 0;
    if (ns > kLongestDraw) return;
    Cost& cost = costs_[std::min(hot_choice, proto::kHotChoices - 1)];
    ++cost.draws;
    cost.ns += ns;
}

void DrawTally::give_to(proto::SegmentHeader& header) const {
    const auto give = [](std::atomic<std::uint64_t>& to, std::uint64_t count) {
        if (count != 0) to.fetch_add(count, std::memory_order_relaxed);
    };
    give(header.counter(SessionCounter::column_delay_ns), delay_ns_);
    give(header.counter(SessionCounter::draws_hot), hot_);
    give(header.counter(SessionCounter::draws_tail), tail_);
    give(header.counter(SessionCounter::draws_corrected), corrected_);
    give(header.counter(SessionCounter::tiles_read), tiles_read_);
    give(header.counter(SessionCounter::tiles_skipped), tiles_skipped_);
    give(header.counter(SessionCounter::asked_left_open), asked_left_open_);
    give(header.counter(SessionCounter::mirostat_left_open), mirostat_left_open_);
    give(header.counter(SessionCounter::proposals_left_open), proposals_left_open_);
    for (std::size_t choice = 0; choice < costs_.size(); ++choice) {
        give(header.hot_costs[choice].draws, costs_[choice].draws);
        give(header.hot_costs[choice].ns, costs_[choice].ns);
    }
}

}  // namespace croupier::daemon
