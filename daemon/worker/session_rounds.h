// Divides a sampler's time among its sessions. In a round each gets a slice. A decision cannot be
// interrupted, so that a session may take longer. What it takes beyond its slices it owes, and sits out until
// another has had as much. Sessions thus share time and not columns: beside columns that are a hundred times
// as dear, a session waits for one of them, and then has all of its own decided.
#pragma once

#include <cstdint>
#include <map>

namespace croupier::daemon {

class SessionRounds {
  public:
    // About one column of all controls. A change of sessions costs a small part of it.
    static constexpr std::uint64_t kSliceNs = 20'000;
    // As long as the dearest column takes. A sampler that had no processor meanwhile is not its session's
    // fault.
    static constexpr std::uint64_t kMostOwedNs = 25'000'000;
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    // Whether the session sits this round out.
    bool sits_out(std::uint64_t session) const;
    // Of a session that did not: what it used of this round; 0: it had nothing to do.
    void note(std::uint64_t session, std::uint64_t used_ns);
    // Each round pays a slice of every debt, or what a session used at most. If none used any, the sampler
    // would idle. Then the session that owes least is next, if it will be through before another's logits are
    // due, in `until_due_ns`: it is taken to use as much as the last time. If not, half of the time that
    // passes is paid, so that logits may come later than they are due.
    void end(std::uint64_t now_ns, std::uint64_t until_due_ns);

  private:
    struct Debt {
        std::uint64_t owed_ns = 0;  // a slice or more: it sits out
        std::uint64_t used_ns = 0;  // the last time
    };
    std::uint64_t paid_ns(std::uint64_t now_ns, std::uint64_t until_due_ns) const;

    std::map<std::uint64_t, Debt> debts_;  // by session, of those that owe something
    std::uint64_t most_ns_ = 0;            // that a session used of this round
    std::uint64_t ended_ns_ = 0;           // when the last round ended
};

}  // namespace croupier::daemon
