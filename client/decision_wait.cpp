// The part of AttachedSession that waits for decided steps and takes them.
#include <algorithm>
#include <string>

#include "client/attached_session.h"
#include "proto/param_ranges.h"
#include "shm/wait_strategy.h"

namespace croupier::client {
namespace {

using shm::Errc;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The last commit wakes a sleeping client. The longest sleep bounds how late it sees a takeover.
constexpr shm::WaitSettings kRingWait{shm::WaitMode::adaptive, std::chrono::microseconds(50),
                                      milliseconds(5)};
// A client that waits for a message looks this often at the ring, and whether the session has changed.
constexpr milliseconds kLongestWait{20};

croupier_decision to_c(const proto::Decision& decision) {
    croupier_decision plain{};
    plain.uid = decision.sequence_uid;
    plain.token = decision.token;
    plain.logprob = decision.logprob;
    plain.output_index = decision.position;
    plain.flags = decision.flags;
    plain.error = static_cast<std::uint16_t>(decision.error);
    return plain;
}

proto::Decision refused_column(std::uint64_t uid, proto::DecisionError why) {
    proto::Decision decision;
    decision.sequence_uid = uid;
    decision.error = why;
    return decision;
}

// Adds the column to an error.
shm::Result<bool> of_column(std::uint32_t column, shm::Result<bool> taken) {
    if (taken) return taken;
    return shm::fail(taken.error().code, "column " + std::to_string(column) + ": " + taken.error().message);
}

// Points each decision to its part of `all`, which has the parts one after another and grows no more.
template <typename T>
void deal_out(std::vector<croupier_decision>& decisions, const std::vector<T>& all,
              const T* croupier_decision::*first, std::uint32_t croupier_decision::*count) {
    const T* next = all.data();
    for (croupier_decision& decision : decisions) {
        if (decision.*count > 0) decision.*first = next;
        next += decision.*count;
    }
}

// The client of a closed session may still take the steps that were decided, from the mapping or the
// messages. A fenced client may not: they belong to another client.
bool ended(const shm::Error& why) {
    return why.code == Errc::session_closed;
}

}  // namespace

shm::Result<std::optional<croupier_step>> AttachedSession::wait(milliseconds timeout) {
    std::optional<croupier_step> step;
    if (signal_ != nullptr) signal_->clear();
    if (in_flight() == 0) {
        // What an idle engine asks for: whether its session is still there.
        CROUPIER_TRY(place_->check_usable());
        CROUPIER_TRY(daemon_is_there());
        return shm::fail(Errc::bad_argument, "no step is in flight: submit one before waiting");
    }
    const Deadline deadline = steady_clock::now() + timeout;
    if (ring_ != nullptr && timeout > timeout.zero()) ring_->note_waiting();
    CROUPIER_TRY_VALUE(taken, messages_ != nullptr ? wait_for_message(deadline) : wait_on_ring(deadline));
    if (taken) {
        step = taken_step_;
        return step;
    }
    CROUPIER_TRY(daemon_is_there());
    return step;
}

shm::Result<bool> AttachedSession::daemon_is_there() {
    if (place_->daemon_alive()) return true;
    if (!place_->can_be_found()) {
        return shm::fail(Errc::daemon_gone,
                         "the daemon is gone, and no later one can find the session: " + segment_path() +
                             " was removed meanwhile, as systemd-logind does at a user's logout; open a new "
                             "session, and set RemoveIPC=no in logind.conf, `loginctl enable-linger`, or the "
                             "daemon's shm.dir elsewhere");
    }
    return shm::fail(Errc::daemon_gone, "the daemon that held " + segment_path() +
                                            " is gone, and no other has taken its place; the session "
                                            "goes on when croupierd is started again");
}

shm::Result<bool> AttachedSession::wait_on_ring(Deadline deadline) {
    shm::WaitStrategy strategy(kRingWait);
    while (true) {
        auto usable = ring_->check_usable();
        if (!usable && !ended(usable.error())) return usable;
        // Read after the session's state: a step that was decided before the session ended is seen now.
        if (ring_->next_complete()) return take(decided_in_ring());
        if (!usable) return usable;
        const auto left = deadline - steady_clock::now();
        if (left <= left.zero()) return false;
        strategy.idle(0, [&](std::chrono::nanoseconds longest) {
            ring_->sleep(std::min<std::chrono::nanoseconds>(longest, left));
        });
    }
}

shm::Result<bool> AttachedSession::wait_for_message(Deadline deadline) {
    while (true) {
        auto usable = place_->check_usable();
        if (!usable && !ended(usable.error())) return usable;
        const auto left =
            usable ? std::chrono::ceil<milliseconds>(deadline - steady_clock::now()) : milliseconds::zero();
        const auto received = messages_->receive(std::clamp(left, milliseconds::zero(), kLongestWait));
        if (received && received.value()) {
            const StreamedStep& message = *received.value();
            return take({message.refused, std::span(message.decisions), &message});
        }
        // No message comes from a stand-in, or when one was lost with its connection.
        if (ring_ != nullptr && ring_->next_complete()) return take(decided_in_ring());
        if (!usable) return usable;
        if (!received) return received.error();
        if (left <= milliseconds::zero()) return false;
    }
}

shm::Result<bool> AttachedSession::take_ranked(const proto::StoredArray<const proto::RankedLogprob>& ranked,
                                               croupier_decision& decision) {
    if (ranked.empty()) return true;
    decision.rank = ranked[0].load().rank;
    decision.best_count = static_cast<std::uint32_t>(ranked.size() - 1);
    for (const proto::RankedLogprob each : ranked.part(1, ranked.size() - 1)) {
        if (!proto::token_in_range(each.token, place_->geometry().vocab)) {
            return shm::fail(Errc::corrupt_header, "token " + std::to_string(each.token) +
                                                       " is among the best, which is outside the vocabulary");
        }
        taken_best_.push_back({each.token, each.logprob, each.rank});
    }
    return true;
}

shm::Result<bool> AttachedSession::take(const Decided& decided) {
    const std::uint64_t step = place_->next_to_take();
    const std::span<const std::uint64_t> uids = place_->uids_of_next();
    const auto corrupt = [&](const std::string& what) {
        return shm::fail(Errc::corrupt_header, segment_path() + ", step " + std::to_string(step) + ": " +
                                                   what + "; open a new session");
    };
    const bool whole = decided.refused == proto::DecisionError::none;
    if (whole && decided.decisions.size() != uids.size()) {
        return corrupt(std::to_string(decided.decisions.size()) + " decisions came for " +
                       std::to_string(uids.size()) + " columns");
    }
    taken_.clear();
    taken_best_.clear();
    taken_support_.clear();
    bool ended = false;  // an earlier row of the window ended the sequence
    for (std::size_t column = 0; column < uids.size(); ++column) {
        ended = ended && uids[column] == uids[column - 1];
        proto::Decision decision =
            whole ? decided.decisions[column].load() : refused_column(uids[column], decided.refused);
        if (decision.sequence_uid != uids[column]) {
            return corrupt("column " + std::to_string(column) + " was decided for sequence " +
                           std::to_string(decision.sequence_uid) + ", not " + std::to_string(uids[column]));
        }
        const bool brings = decision.error == proto::DecisionError::none;
        if (whole && (place_->next_is_void(column) || (ended && brings))) {
            const std::uint32_t position = decision.position;
            decision = refused_column(uids[column], proto::DecisionError::voided);
            decision.position = position;
        }
        const bool sound = decision.error == proto::DecisionError::none;
        if (sound && !proto::token_in_range(decision.token, place_->geometry().vocab)) {
            return corrupt("column " + std::to_string(column) + " has token " +
                           std::to_string(decision.token) + ", which is outside the vocabulary");
        }
        taken_.push_back(to_c(decision));
        ended = ended || proto::ends_sequence(decision);
    }
    if (place_->geometry().max_logprobs > 0 && whole) {
        if (auto ranked = take_all_ranked(decided); !ranked) return corrupt(ranked.error().message);
    }
    if (place_->geometry().max_support > 0 && whole) {
        if (auto supports = take_all_support(decided); !supports) return corrupt(supports.error().message);
    }
    taken_step_.step = step;
    taken_step_.count = static_cast<std::uint32_t>(taken_.size());
    taken_step_.refused = static_cast<std::uint16_t>(decided.refused);
    taken_step_.decisions = taken_.data();
    taken_step_.decision_size = sizeof(croupier_decision);
    CROUPIER_TRY(place_->take(taken_));
    return texts_ == nullptr ? true : texts_->take(taken_);
}

shm::Result<bool> AttachedSession::take_all_ranked(const Decided& decided) {
    const StreamedStep* message = decided.message;
    std::size_t next = 0;
    for (std::uint32_t column = 0; column < taken_.size(); ++column) {
        proto::StoredArray<const proto::RankedLogprob> ranked;
        if (message == nullptr) ranked = ring_->next_logprobs(column);
        if (message != nullptr && !message->ranked_counts.empty()) {
            ranked = std::span(message->ranked).subspan(next, message->ranked_counts[column]);
            next += ranked.size();
        }
        if (taken_[column].error != 0) continue;
        CROUPIER_TRY(of_column(column, take_ranked(ranked, taken_[column])));
    }
    deal_out(taken_, taken_best_, &croupier_decision::best, &croupier_decision::best_count);
    return true;
}

shm::Result<bool> AttachedSession::take_support(const shm::AnsweredSupport& support,
                                                croupier_decision& decision) {
    decision.support_count = static_cast<std::uint32_t>(support.survivors.size());
    decision.support_total = support.total;
    if (support.total > decision.support_count) decision.flags |= CROUPIER_SUPPORT_CUT;
    for (const proto::Survivor& each : support.survivors) {
        if (!proto::token_in_range(each.token, place_->geometry().vocab)) {
            return shm::fail(Errc::corrupt_header, "token " + std::to_string(each.token) +
                                                       " is in its support, which is outside the vocabulary");
        }
        taken_support_.push_back({each.token, 0, each.probability});
    }
    return true;
}

shm::Result<bool> AttachedSession::take_all_support(const Decided& decided) {
    const StreamedStep* message = decided.message;
    std::size_t next = 0;
    for (std::uint32_t column = 0; column < taken_.size(); ++column) {
        shm::AnsweredSupport support;
        if (message == nullptr) support = ring_->next_support(column);
        if (message != nullptr && !message->survivor_counts.empty()) {
            const std::size_t count = message->survivor_counts[column];
            support = {std::span(message->survivors).subspan(next, count), message->survivor_totals[column]};
            next += count;
        }
        if (taken_[column].error != 0) continue;
        CROUPIER_TRY(of_column(column, take_support(support, taken_[column])));
    }
    deal_out(taken_, taken_support_, &croupier_decision::support, &croupier_decision::support_count);
    return true;
}

}  // namespace croupier::client
