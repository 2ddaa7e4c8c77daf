#include "daemon/observation/explain_requests.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "daemon/observation/captured_request.h"
#include "shm/futex.h"
#include "shm/segment.h"
#include "shm/snapshot.h"
#include "shm/step_window.h"

namespace croupier::daemon {
namespace {

// How often a request that waits looks whether its sequence is still there.
constexpr std::chrono::milliseconds kLook{50};
// Of the decision that ended its sequence: from its commit to its file.
constexpr std::chrono::milliseconds kLeaving{300};
constexpr std::size_t kMostNamed = 5;

bool is_served(const shm::SessionSnapshot& session) {
    return session.fault.empty() &&
           (session.state == proto::SessionState::active || session.state == proto::SessionState::draining);
}

std::string some_of(const std::vector<std::string>& names) {
    if (names.empty()) return "none";
    const std::size_t shown = std::min(names.size(), kMostNamed);
    return fmt::format("{}{}",
                       fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                       names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

shm::Result<shm::Segment> find_session(const std::string& directory, const std::string& instance,
                                       const std::string& wanted) {
    CROUPIER_TRY_VALUE(snapshot, shm::observe(directory, instance));
    std::vector<std::string> names;
    const shm::SessionSnapshot* by_id = nullptr;
    for (const shm::SessionSnapshot& session : snapshot.sessions) {
        if (!is_served(session)) continue;
        if (session.name == wanted) return shm::Segment::attach(session.path, shm::Access::read_only);
        if (std::to_string(session.id) == wanted) by_id = &session;
        names.push_back("'" + printable(session.name) + "'");
    }
    if (by_id != nullptr) return shm::Segment::attach(by_id->path, shm::Access::read_only);
    return shm::fail(shm::Errc::not_found, "there is no session '" + printable(wanted) +
                                               "'; those that are served: " + some_of(names));
}

bool has_sequence(const shm::Segment& segment, std::uint64_t uid) {
    for (std::uint32_t slot = 0; slot < segment.geometry().max_sequences; ++slot) {
        const auto& entry = segment.sequence(slot);
        // SYNC: acquire; pairs with the release in SequenceTable::add.
        if (entry.state.load(std::memory_order_acquire) == proto::SequenceState::live && entry.uid == uid)
            return true;
    }
    return false;
}

std::vector<std::string> live_uids(const shm::Segment& segment) {
    std::vector<std::uint64_t> uids;
    for (std::uint32_t slot = 0; slot < segment.geometry().max_sequences; ++slot) {
        const auto& entry = segment.sequence(slot);
        if (entry.state.load(std::memory_order_acquire) == proto::SequenceState::live)
            uids.push_back(entry.uid);
    }
    std::sort(uids.begin(), uids.end());
    std::vector<std::string> names;
    names.reserve(uids.size());
    for (const std::uint64_t uid : uids) names.push_back(std::to_string(uid));
    return names;
}

bool is_over(const shm::Segment& segment) {
    const auto state = segment.header().state.load(std::memory_order_acquire);
    return segment.mapping().lost() ||
           (state != proto::SessionState::active && state != proto::SessionState::draining);
}

// Why there will be no decision; nothing: there may be one.
std::optional<shm::Error> end_of(const shm::Segment& segment, const ExplainQuery& query) {
    const std::string session = printable(segment.name());
    if (is_over(segment))
        return shm::Error{shm::Errc::not_found,
                          "session '" + session + "' ended before the sequence's next decision"};
    if (has_sequence(segment, query.uid)) return std::nullopt;
    return shm::Error{shm::Errc::not_found, fmt::format("sequence {} of session '{}' ended before its next "
                                                        "decision",
                                                        query.uid, session)};
}

shm::Error none_came(const shm::Segment& segment, const ExplainQuery& query) {
    const shm::StepWindow window = shm::steps_in_flight(segment);
    const std::uint64_t steps = window.end - window.first;
    std::string why = "no step of the session is in flight: is its engine idle?";
    if (steps > 0) {
        why = fmt::format(
            "{} step{} in flight, none with a decision of it: do logits come, and is the "
            "sequence scheduled?",
            steps, steps == 1 ? " is" : "s are");
    }
    return {shm::Errc::timed_out, fmt::format("sequence {} of session '{}' lives, and nothing was decided of "
                                              "it in time; {}",
                                              query.uid, printable(segment.name()), why)};
}

}  // namespace

shm::Result<ExplainRequests> ExplainRequests::create(const std::string& directory,
                                                     const std::string& instance) {
    CROUPIER_TRY_VALUE(queue, shm::CaptureExchange::create(directory, instance));
    return ExplainRequests(std::move(queue), directory, instance);
}

shm::Result<Captured> ExplainRequests::capture(const ExplainQuery& query, Clock::time_point deadline,
                                               const std::function<bool()>& is_given_up) {
    CROUPIER_TRY_VALUE(segment, find_session(directory_, instance_, query.session));
    if (!has_sequence(segment, query.uid)) {
        return shm::fail(shm::Errc::not_found,
                         fmt::format("session '{}' has no live sequence {}; it has: {}",
                                     printable(segment.name()), query.uid, some_of(live_uids(segment))));
    }
    proto::CaptureExchange& words = queue_.words();
    const std::uint64_t number = ++number_;
    // Of a sampler that stood still until its request was over; another's could not be left beside it.
    (void)queue_.take();
    words.session_id.store(segment.id(), std::memory_order_relaxed);
    words.uid.store(query.uid, std::memory_order_relaxed);
    // SYNC: release; pairs with the acquire in Captures::asked().
    words.asked.store(number, std::memory_order_release);
    auto captured = await(segment, query, number, deadline, is_given_up);
    words.asked.store(0, std::memory_order_relaxed);
    if (captured) captured.value().session = segment.name();
    // What came too late is nobody's, and holds what a user said.
    if (!captured) (void)queue_.take();
    return captured;
}

shm::Result<Captured> ExplainRequests::await(const shm::Segment& segment, const ExplainQuery& query,
                                             std::uint64_t number, Clock::time_point deadline,
                                             const std::function<bool()>& is_given_up) {
    proto::CaptureExchange& words = queue_.words();
    std::optional<shm::Error> end;
    while (true) {
        const std::uint32_t rung = words.bell.load(std::memory_order_acquire);
        // SYNC: acquire; pairs with the release in Captures::give().
        if (words.failed.load(std::memory_order_acquire) == number)
            return shm::fail(shm::Errc::no_memory, "the decision could not be kept in " + directory_ +
                                                       ": is it full? The daemon's log says why");
        if (words.given.load(std::memory_order_acquire) == number) {
            CROUPIER_TRY_VALUE(captured, taken(number));
            if (captured) return std::move(*captured);
        }
        if (is_given_up()) return shm::fail(shm::Errc::daemon_gone, "nobody waits for it any more");
        const auto now = Clock::now();
        if (!end) {
            end = end_of(segment, query);
            // The decision that ended it is still being left.
            if (end) deadline = std::min(deadline, now + kLeaving);
        }
        if (now >= deadline) return end ? *end : none_came(segment, query);
        shm::futex_wait(words.bell, rung, std::min<std::chrono::nanoseconds>(kLook, deadline - now));
    }
}

shm::Result<std::optional<Captured>> ExplainRequests::taken(std::uint64_t number) const {
    CROUPIER_TRY_VALUE(bytes, queue_.take());
    if (!bytes) return std::optional<Captured>();
    CROUPIER_TRY_VALUE(head, check_captured(*bytes));
    // A sampler that stood still left it after its request was over.
    if (head.number != number) return std::optional<Captured>();
    return std::optional(Captured{head, std::move(*bytes), {}});
}

}  // namespace croupier::daemon
