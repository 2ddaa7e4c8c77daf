#include "daemon/worker/session_rounds.h"

#include <algorithm>

namespace croupier::daemon {

bool SessionRounds::sits_out(std::uint64_t session) const {
    const auto debt = debts_.find(session);
    return debt != debts_.end() && debt->second.owed_ns >= kSliceNs;
}

void SessionRounds::note(std::uint64_t session, std::uint64_t used_ns) {
    if (used_ns == 0) return;
    most_ns_ = std::max(most_ns_, used_ns);
    Debt& debt = debts_[session];
    debt.owed_ns = std::min(debt.owed_ns + used_ns, kMostOwedNs);
    debt.used_ns = used_ns;
}

std::uint64_t SessionRounds::paid_ns(std::uint64_t now_ns, std::uint64_t until_due_ns) const {
    if (most_ns_ > 0 || debts_.empty()) return std::min(most_ns_, kSliceNs);
    const auto owes_less = [](const auto& a, const auto& b) { return a.second.owed_ns < b.second.owed_ns; };
    const Debt& least = std::min_element(debts_.begin(), debts_.end(), owes_less)->second;
    return until_due_ns >= least.used_ns ? least.owed_ns : (now_ns - ended_ns_ + 1) / 2;
}

void SessionRounds::end(std::uint64_t now_ns, std::uint64_t until_due_ns) {
    const std::uint64_t paid = paid_ns(now_ns, until_due_ns);
    for (auto& [session, debt] : debts_) debt.owed_ns -= std::min(debt.owed_ns, paid);
    std::erase_if(debts_, [](const auto& each) { return each.second.owed_ns == 0; });
    most_ns_ = 0;
    ended_ns_ = now_ns;
}

}  // namespace croupier::daemon
