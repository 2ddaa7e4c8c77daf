#include "client/beam_search.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "proto/geometry.h"
#include "proto/sampling.h"

namespace croupier::client {
namespace {

using shm::Errc;

constexpr std::uint32_t kNoLink = ~std::uint32_t{0};
// With it the power of a length stays finite, of the longest sequence too.
constexpr double kMostPenalty = 32.0;
// What rounding may make of the log-prob 0.
constexpr float kMostLogprob = 1e-3F;

auto refuse(const std::string& fault) {
    return shm::fail(Errc::bad_argument, fault);
}

auto outside(const std::string& name, const std::string& value, const std::string& allowed) {
    return refuse(name + " is " + value + "; allowed: " + allowed);
}

bool better(const BeamSearch::Beam& one, const BeamSearch::Beam& other) {
    if (one.logprob != other.logprob) return one.logprob > other.logprob;
    return one.parent != other.parent ? one.parent < other.parent : one.token < other.token;
}

shm::Result<bool> check_token(const std::string& name, std::size_t at, const croupier_logprob& given) {
    const bool is_logprob = std::isfinite(given.logprob) && given.logprob <= kMostLogprob;
    if (given.token >= 0 && is_logprob) return true;
    const std::string place = name + "[" + std::to_string(at) + "]";
    if (given.token < 0) return outside(place + ".token", std::to_string(given.token), "0 or more");
    return outside(place + ".logprob", std::to_string(given.logprob),
                   "a finite number, 0 or less; it is of token " + std::to_string(given.token));
}

shm::Result<bool> check_tokens(const std::string& name, std::span<const croupier_logprob> best) {
    if (best.data() == nullptr && !best.empty())
        return refuse(name + " is null, but its count is " + std::to_string(best.size()));
    std::vector<std::int32_t> seen;
    seen.reserve(best.size());
    for (std::size_t i = 0; i < best.size(); ++i) {
        CROUPIER_TRY(check_token(name, i, best[i]));
        seen.push_back(best[i].token);
    }
    std::sort(seen.begin(), seen.end());
    const auto twice = std::adjacent_find(seen.begin(), seen.end());
    if (twice == seen.end()) return true;
    return refuse(name + " has token " + std::to_string(*twice) + " twice: give each token once");
}

}  // namespace

BeamSearch::BeamSearch(BeamOptions options)
    : options_(std::move(options)), beams_{{0, -1, 0.0}}, lasts_{kNoLink} {}

shm::Result<BeamSearch> BeamSearch::begin(BeamOptions options) {
    std::sort(options.stop_ids.begin(), options.stop_ids.end());
    options.stop_ids.erase(std::unique(options.stop_ids.begin(), options.stop_ids.end()),
                           options.stop_ids.end());
    if (options.stop_ids.size() > proto::kMaxStopIds)
        return outside("stop_count", std::to_string(options.stop_ids.size()),
                       "0 to " + std::to_string(proto::kMaxStopIds));
    if (!options.stop_ids.empty() && options.stop_ids.front() < 0)
        return outside("a stop id", std::to_string(options.stop_ids.front()), "0 or more");
    const auto most = proto::kMaxLogprobs - static_cast<std::uint32_t>(options.stop_ids.size());
    if (options.width < 1 || options.width > most)
        return outside("width", std::to_string(options.width), "1 to " + std::to_string(most));
    if (options.max_tokens < 1 || options.max_tokens > proto::kMaxLength)
        return outside("max_tokens", std::to_string(options.max_tokens),
                       "1 to " + std::to_string(proto::kMaxLength));
    if (options.early_stopping > EarlyStopping::never)
        return outside("early_stopping", std::to_string(static_cast<std::uint32_t>(options.early_stopping)),
                       "0 (False), 1 (True) and 2 (never)");
    // Not of NaN either.
    if (!(std::abs(options.length_penalty) <= kMostPenalty))
        return outside("length_penalty", std::to_string(options.length_penalty), "-32 to 32");
    return BeamSearch(std::move(options));
}

std::span<const BeamSearch::Beam> BeamSearch::beams() const {
    return beams_;
}

shm::Result<bool> BeamSearch::check(std::span<const Row> rows) const {
    if (is_over())
        return refuse("the search is over after " + std::to_string(tokens_) +
                      " tokens: begin another for the next prompt");
    if (rows.size() != beams_.size())
        return refuse("the step has " + std::to_string(rows.size()) + " rows, and the search has " +
                      std::to_string(beams_.size()) +
                      " beams: give a row for each, in the order of the step before");
    for (std::size_t beam = 0; beam < rows.size(); ++beam) {
        const std::string name = "rows[" + std::to_string(beam) + "].best";
        const std::size_t count = rows[beam].best.size();
        CROUPIER_TRY(check_tokens(name, rows[beam].best));
        if (count >= candidates() || rows[beam].is_all) continue;
        if (count == 0)
            return refuse(name +
                          " has no log-probs: the decision has an error, or its sequence asks for none");
        return refuse(name + " has " + std::to_string(count) + " log-probs, and a search of width " +
                      std::to_string(options_.width) + " with " + std::to_string(options_.stop_ids.size()) +
                      " stop ids needs " + std::to_string(candidates()) +
                      ": ask for so many (logprobs; at most " + std::to_string(proto::kMaxSessionLogprobs) +
                      " in a session), search with fewer beams, or set is_all where the row has no other "
                      "token");
    }
    return true;
}

bool BeamSearch::is_stop(std::int32_t token) const {
    return std::binary_search(options_.stop_ids.begin(), options_.stop_ids.end(), token);
}

void BeamSearch::rank_candidates(std::span<const Row> rows) {
    candidates_.clear();
    const bool bans_stops = tokens_ < options_.min_tokens;
    for (std::uint32_t beam = 0; beam < rows.size(); ++beam) {
        for (const croupier_logprob& each : rows[beam].best) {
            if (bans_stops && is_stop(each.token)) continue;
            candidates_.push_back({beam, each.token, beams_[beam].logprob + double{each.logprob}});
        }
    }
    std::sort(candidates_.begin(), candidates_.end(), better);
}

shm::Result<bool> BeamSearch::step(std::span<const Row> rows) {
    CROUPIER_TRY(check(rows));
    rank_candidates(rows);
    before_ = beams_.size();
    beams_.clear();
    lasts_after_.clear();
    const bool is_last = ++tokens_ == options_.max_tokens;
    for (std::size_t place = 0; place < candidates_.size(); ++place) {
        const Beam& candidate = candidates_[place];
        if (is_last || is_stop(candidate.token)) {
            // Others that end are worse than `width` that do or do not, and are dropped.
            if (place >= options_.width) continue;
            const bool stopped = is_stop(candidate.token);
            keep({score_of(candidate.logprob, tokens_), candidate.logprob, stopped, append(candidate)});
        } else if (beams_.size() < options_.width) {
            beams_.push_back(candidate);
            lasts_after_.push_back(append(candidate));
        }
    }
    std::swap(lasts_, lasts_after_);
    if (!can_improve()) beams_.clear();
    return true;
}

std::uint32_t BeamSearch::append(const Beam& beam) {
    links_.push_back({lasts_[beam.parent], beam.token});
    return static_cast<std::uint32_t>(links_.size() - 1);
}

void BeamSearch::keep(const Hypothesis& hypothesis) {
    const auto place = std::find_if(finished_.begin(), finished_.end(),
                                    [&](const Hypothesis& other) { return other.score < hypothesis.score; });
    finished_.insert(place, hypothesis);
    if (finished_.size() > options_.width) finished_.pop_back();
}

double BeamSearch::score_of(double logprob, std::uint32_t tokens) const {
    return logprob / std::pow(static_cast<double>(tokens), options_.length_penalty);
}

bool BeamSearch::can_improve() const {
    if (beams_.empty()) return false;
    if (finished_.size() < options_.width) return true;
    if (options_.early_stopping == EarlyStopping::yes) return false;
    // A positive penalty gives the best score to the longest.
    const bool until_longest =
        options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0.0;
    const std::uint32_t length = until_longest ? options_.max_tokens : tokens_;
    return score_of(beams_.front().logprob, length) > finished_.back().score;
}

std::vector<std::int32_t> BeamSearch::tokens_of(const Hypothesis& hypothesis) const {
    std::vector<std::int32_t> tokens;
    for (std::uint32_t link = hypothesis.last; link != kNoLink; link = links_[link].before)
        tokens.push_back(links_[link].token);
    std::reverse(tokens.begin(), tokens.end());
    return tokens;
}

}  // namespace croupier::client
