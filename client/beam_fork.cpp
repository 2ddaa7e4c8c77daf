#include "client/beam_fork.h"

#include <algorithm>
#include <string>
#include <vector>

#include "client/attached_session.h"
#include "proto/param_ranges.h"

namespace croupier::client {
namespace {

using shm::Errc;

// Which sequence each beam has after a step.
struct Succession {
    std::vector<std::uint64_t> finished;   // beams without children
    std::vector<std::uint64_t> uids;       // of the beams that go on
    std::vector<std::uint64_t> left_over;  // the others that the caller gave
};

// The first child of a beam has its sequence. The others get those of finished beams, then those not yet
// used.
Succession succession_of(const BeamSearch& search, std::span<const std::uint64_t> uids) {
    const auto beams = search.beams();
    std::vector<bool> goes_on(search.beams_before());
    Succession after;
    after.uids.resize(beams.size());
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < beams.size(); ++i) {
        const std::uint32_t parent = beams[i].parent;
        if (goes_on[parent]) others.push_back(i);
        if (!goes_on[parent]) after.uids[i] = uids[parent];
        goes_on[parent] = true;
    }
    for (std::size_t beam = 0; beam < goes_on.size(); ++beam) {
        if (!goes_on[beam]) after.finished.push_back(uids[beam]);
    }
    after.left_over = after.finished;
    const auto unused = uids.subspan(goes_on.size());
    after.left_over.insert(after.left_over.end(), unused.begin(), unused.end());
    for (std::size_t i = 0; i < others.size(); ++i) after.uids[others[i]] = after.left_over[i];
    after.left_over.erase(after.left_over.begin(),
                          after.left_over.begin() + static_cast<std::ptrdiff_t>(others.size()));
    return after;
}

shm::Result<bool> check_uids(const BeamSearch& search, std::span<const std::uint64_t> uids) {
    if (search.beams_before() == 0)
        return shm::fail(Errc::bad_argument, "the search has made no step yet: step it first");
    const std::uint32_t width = search.options().width;
    if (uids.size() != width)
        return shm::fail(Errc::bad_argument, "uids has " + std::to_string(uids.size()) +
                                                 " elements, and the search a width of " +
                                                 std::to_string(width) + ": give one for each beam");
    std::vector<std::uint64_t> sorted(uids.begin(), uids.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice == sorted.end()) return true;
    return shm::fail(Errc::bad_argument, "uids has sequence " + std::to_string(*twice) +
                                             " twice: each beam has its own sequence");
}

shm::Result<bool> check_unused(AttachedSession& session, std::span<const std::uint64_t> uids) {
    for (const std::uint64_t uid : uids) {
        if (!session.output(uid)) continue;
        return shm::fail(Errc::bad_argument, "sequence " + std::to_string(uid) +
                                                 " is live, and stands in no beam: beams get uids that are "
                                                 "not in use");
    }
    return true;
}

shm::Result<bool> check_tokens(const AttachedSession& session, const BeamSearch& search) {
    const std::uint32_t vocab = session.geometry().vocab;
    for (const BeamSearch::Beam& beam : search.beams()) {
        if (proto::token_in_range(beam.token, vocab)) continue;
        return shm::fail(Errc::bad_argument, "a beam goes on with token " + std::to_string(beam.token) +
                                                 "; allowed in this session: 0 to " +
                                                 std::to_string(vocab - 1));
    }
    return true;
}

// How many outputs all beams have after the step's decisions: the same number.
shm::Result<std::uint32_t> outputs_of(AttachedSession& session, std::span<const std::uint64_t> beams) {
    CROUPIER_TRY_VALUE(first, session.output(beams.front()));
    for (const std::uint64_t uid : beams) {
        CROUPIER_TRY_VALUE(output, session.output(uid));
        CROUPIER_TRY(session.check_append(uid, 0));
        if (output.size() == first.size() && !output.empty()) continue;
        return shm::fail(Errc::bad_argument, "sequence " + std::to_string(uid) + " has " +
                                                 std::to_string(output.size()) + " outputs, sequence " +
                                                 std::to_string(beams.front()) + " has " +
                                                 std::to_string(first.size()) +
                                                 ": each beam has the token of the step, and as many outputs "
                                                 "as the others");
    }
    return static_cast<std::uint32_t>(first.size());
}

shm::Result<bool> check_room(const AttachedSession& session, const BeamSearch& search,
                             const Succession& after) {
    const std::size_t more = search.beams().size() + after.finished.size() - search.beams_before();
    const std::size_t room = session.geometry().max_sequences - (session.held() - after.finished.size());
    if (more <= room) return true;
    return shm::fail(Errc::table_full,
                     std::to_string(search.beams().size()) + " beams go on, which are " +
                         std::to_string(more) + " sequences more, and the session has room for " +
                         std::to_string(room) + " of its " +
                         std::to_string(session.geometry().max_sequences) +
                         ": open it with a larger max_sequences, or search with fewer beams");
}

shm::Result<bool> finish_all(AttachedSession& session, std::span<const std::uint64_t> uids) {
    for (const std::uint64_t uid : uids) {
        CROUPIER_TRY(session.finish(uid));
    }
    return true;
}

}  // namespace

shm::Result<bool> fork_beams(AttachedSession& session, const BeamSearch& search,
                             std::span<std::uint64_t> uids) {
    CROUPIER_TRY(check_uids(search, uids));
    const std::size_t before = search.beams_before();
    if (search.is_over()) return finish_all(session, uids.first(before));
    CROUPIER_TRY(check_unused(session, uids.subspan(before)));
    CROUPIER_TRY(check_tokens(session, search));
    CROUPIER_TRY_VALUE(outputs, outputs_of(session, uids.first(before)));
    const Succession after = succession_of(search, uids);
    CROUPIER_TRY(check_room(session, search, after));
    CROUPIER_TRY(finish_all(session, after.finished));
    const auto beams = search.beams();
    // Forks come first: their parents still have the outputs that they go on from.
    for (std::size_t i = 0; i < beams.size(); ++i) {
        const std::uint64_t parent = uids[beams[i].parent];
        if (after.uids[i] == parent) continue;
        CROUPIER_TRY(session.fork({parent, after.uids[i], outputs - 1, 0}));
        CROUPIER_TRY(session.append(after.uids[i], {&beams[i].token, 1}));
    }
    for (std::size_t i = 0; i < beams.size(); ++i) {
        if (after.uids[i] != uids[beams[i].parent]) continue;
        CROUPIER_TRY_VALUE(output, session.output(after.uids[i]));
        if (output.back() == beams[i].token) continue;
        CROUPIER_TRY(session.truncate(after.uids[i], outputs - 1));
        CROUPIER_TRY(session.append(after.uids[i], {&beams[i].token, 1}));
    }
    const auto unused = std::copy(after.uids.begin(), after.uids.end(), uids.begin());
    std::copy(after.left_over.begin(), after.left_over.end(), unused);
    return true;
}

}  // namespace croupier::client
