#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/beam_fork.h"
#include "client/beam_search.h"
#include "client/c_session.h"
#include "client/known_structs.h"
#include "croupier/beams.h"
#include "shm/c_abi.h"
#include "shm/caller_struct.h"

using croupier::client::BeamOptions;
using croupier::client::BeamSearch;
using croupier::client::EarlyStopping;
namespace client = croupier::client;
namespace shm = croupier::shm;
using shm::done;
using shm::guarded;
using shm::missing;

struct croupier_beams {
    BeamSearch search;
    std::vector<croupier_beam> next;
    std::vector<std::int32_t> tokens;  // of the hypothesis that was asked for last
};

namespace {

static_assert(CROUPIER_EARLY_STOPPING_FALSE == static_cast<int>(EarlyStopping::no));
static_assert(CROUPIER_EARLY_STOPPING_TRUE == static_cast<int>(EarlyStopping::yes));
static_assert(CROUPIER_EARLY_STOPPING_NEVER == static_cast<int>(EarlyStopping::never));

shm::Result<BeamOptions> options_from_abi(const croupier_beams_options& given) {
    CROUPIER_TRY_VALUE(known,
                       shm::read_struct(given, "croupier_beams_options", client::kBeamsOptionsAtFirst));
    if (known.stop_ids == nullptr && known.stop_count > 0) {
        return shm::fail(shm::Errc::bad_argument,
                         "stop_ids is null, but stop_count is " + std::to_string(known.stop_count));
    }
    BeamOptions options;
    options.width = known.width;
    options.max_tokens = known.max_tokens;
    options.min_tokens = known.min_tokens;
    options.early_stopping = static_cast<EarlyStopping>(known.early_stopping);
    options.length_penalty = known.length_penalty;
    options.stop_ids.assign(known.stop_ids, known.stop_ids + known.stop_count);
    return options;
}

shm::Result<std::vector<BeamSearch::Row>> rows_from_abi(std::span<const croupier_beam_row> given) {
    std::vector<BeamSearch::Row> known;
    known.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
        const croupier_beam_row& row = given[i];
        const std::string name = "rows[" + std::to_string(i) + "]";
        if (row.best == nullptr && row.count > 0)
            return shm::fail(shm::Errc::bad_argument,
                             name + ".best is null, but its count is " + std::to_string(row.count));
        if (row.is_all > 1)
            return shm::fail(shm::Errc::bad_argument,
                             name + ".is_all is " + std::to_string(row.is_all) + "; allowed: 0 and 1");
        known.push_back({{row.best, row.count}, row.is_all == 1});
    }
    return known;
}

}  // namespace

extern "C" {

int croupier_beams_open(const croupier_beams_options* options, croupier_beams** beams,
                        croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (options == nullptr) return missing("options");
        if (beams == nullptr) return missing("beams");
        CROUPIER_TRY_VALUE(known, options_from_abi(*options));
        CROUPIER_TRY_VALUE(search, BeamSearch::begin(std::move(known)));
        *beams = new croupier_beams{std::move(search), {}, {}};
        return 0;
    });
}

void croupier_beams_close(croupier_beams* beams) {
    delete beams;
}

uint32_t croupier_beams_candidates(const croupier_beams* beams) {
    return beams == nullptr ? 0 : beams->search.candidates();
}

int croupier_beam_step(croupier_beams* beams, const croupier_beam_row* rows, size_t count,
                       croupier_beam_next* next, croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (beams == nullptr) return missing("beams");
        if (rows == nullptr && count > 0) return missing("rows");
        if (next == nullptr) return missing("next");
        // Checked before the step is made: it cannot be made again.
        CROUPIER_TRY(shm::check_head(*next, "croupier_beam_next", client::kBeamNextAtFirst));
        CROUPIER_TRY_VALUE(known, rows_from_abi({rows, count}));
        CROUPIER_TRY(beams->search.step(known));
        beams->next.clear();
        for (const BeamSearch::Beam& each : beams->search.beams())
            beams->next.push_back({each.parent, each.token, each.logprob});
        const croupier_beam_next answer = {0, 0, beams->next.data(), beams->next.size()};
        CROUPIER_TRY(shm::write_struct(answer, *next, "croupier_beam_next", client::kBeamNextAtFirst));
        return 0;
    });
}

int croupier_beams_hypothesis(croupier_beams* beams, size_t index, croupier_hypothesis* hypothesis,
                              croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (beams == nullptr) return missing("beams");
        if (hypothesis == nullptr) return missing("hypothesis");
        const auto all = beams->search.hypotheses();
        if (index >= all.size()) return 0;
        const BeamSearch::Hypothesis& one = all[index];
        beams->tokens = beams->search.tokens_of(one);
        const croupier_hypothesis answer = {
            0,         0,           beams->tokens.data(),  beams->tokens.size(),
            one.score, one.logprob, one.stopped ? 1U : 0U, 0};
        CROUPIER_TRY(
            shm::write_struct(answer, *hypothesis, "croupier_hypothesis", client::kHypothesisAtFirst));
        return 1;
    });
}

int croupier_beam_fork(croupier_session* session, const croupier_beams* beams, uint64_t* uids, size_t count,
                       croupier_error* error) {
    return client::guarded_session(session, error, [&]() -> shm::Result<int> {
        if (beams == nullptr) return missing("beams");
        if (uids == nullptr && count > 0) return missing("uids");
        return done(client::fork_beams(*session->attached, beams->search, {uids, count}));
    });
}

}  // extern "C"
