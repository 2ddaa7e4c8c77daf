// Decode, verify, roll back: a token that was decided from a perturbed row is delivered once a window has
// decided it again from the row as it should be.
#include <algorithm>

#include "sim/scheduler_process.h"

namespace croupier::sim {

void Scheduler::note_perturbed(const croupier_decision& decision) {
    const std::uint32_t request = request_of(decision);
    const std::uint32_t undelivered = decision.output_index + 1 - ledger_.count(request);
    // An end counts once it is decided again, too.
    const bool ended = decision.error != 0 || (decision.flags & CROUPIER_STOPPED) != 0;
    if (ended || undelivered >= world_.options.replay) progress_[request].replay.state = Replay::State::due;
}

std::uint32_t Scheduler::replayed_rows(std::uint32_t request) {
    Progress& progress = progress_[request];
    Replay& replay = progress.replay;
    if (replay.state != Replay::State::due) return 1;
    const std::uint64_t uid = world_.plan[request].uid();
    const std::vector<std::int32_t> output = session_.output(uid);
    replay.state = Replay::State::in_flight;
    replay.from = ledger_.count(request);
    replay.cut.assign(output.begin() + replay.from, output.end());
    session_.truncate(uid, replay.from);
    progress.next = replay.from;
    // Writers know a replay by its having several rows. After a death there may be more tokens than fit.
    return std::clamp(static_cast<std::uint32_t>(replay.cut.size()) + 1, 2U, world_.options.window_rows());
}

void Scheduler::end_replay(std::uint32_t request) {
    Replay& replay = progress_[request].replay;
    replay.state = Replay::State::none;
    const std::uint32_t count = ledger_.count(request);
    std::uint32_t kept = 0;
    while (kept < replay.cut.size() && replay.from + kept < count &&
           ledger_.entry(request, replay.from + kept).token == replay.cut[kept])
        ++kept;
    LedgerHead& head = ledger_.head();
    head.replayed.fetch_add(replay.cut.size(), std::memory_order_relaxed);
    head.rolled_back.fetch_add(replay.cut.size() - kept, std::memory_order_relaxed);
}

}  // namespace croupier::sim
