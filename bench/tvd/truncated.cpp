#include "bench/tvd/truncated.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/tvd/steps.h"
#include "sampler/decide.h"
#include "sampler/race_key.h"
#include "sampler/reference/decide.h"

namespace croupier::bench {
namespace {

// The reference takes tens of milliseconds per row. The survivors of its filters do not depend on the
// randoms, so one evaluation gives all draws: the survivor with the largest ln(probability) - ln(arrival). If
// two are so close that rounding could matter, the reference decides.
constexpr double kNear = 1e-3;

class ReferenceDraws {
  public:
    ReferenceDraws(const measurement::BenchRows& rows, const JudgedStep& step, Agreement& agreement)
        : rows_(rows), step_(step), agreement_(agreement) {
        sampler::Request request = step.request(0);
        request.wants_support = true;
        support_ = ask(request).support;
    }

    // There are no survivors if the reference has an error.
    bool decides() const { return !support_.empty(); }

    std::int32_t draw(std::uint32_t number) {
        const sampler::Request request = step_.request(number);
        const proto::race::Key key = sampler::race_key(step_.params, request);
        double best = -std::numeric_limits<double>::infinity();
        double second = best;
        std::int32_t winner = -1;
        for (const sampler::Survivor& each : support_) {
            const auto arrival =
                static_cast<double>(proto::race::arrival(key, static_cast<std::uint32_t>(each.token)));
            const double score = std::log(each.probability) - std::log(arrival);
            if (score > best) winner = each.token;
            second = std::max(second, std::min(score, best));
            best = std::max(best, score);
        }
        return number == 0 || best - second < kNear ? ask(request).decision.token : winner;
    }

  private:
    sampler::reference::Outcome ask(const sampler::Request& request) {
        ++agreement_.by_reference;
        return sampler::reference::decide(rows_.view(step_.row, false), request);
    }

    const measurement::BenchRows& rows_;
    const JudgedStep& step_;
    Agreement& agreement_;
    std::vector<sampler::Survivor> support_;
};

class Comparison {
  public:
    explicit Comparison(const measurement::BenchRows& rows)
        : rows_(rows), state_(rows.vocab(), kStepRoom), workspace_(rows.vocab()) {}

    void take(std::uint32_t number, std::uint32_t draws, std::uint32_t hot) {
        const JudgedStep step = truncated_step(rows_, number);
        ReferenceDraws reference(rows_, step, agreement_);
        state_.begin(step.params, {});
        const std::span<const std::uint32_t> hot_blocks = rows_.hot_blocks(hot);
        for (std::uint32_t i = 0; reference.decides() && i < draws; ++i) {
            const std::int32_t expected = reference.draw(i);
            ++agreement_.decisions;
            for (const bool summarised : {false, true}) {
                compare(step, i, {}, summarised, expected, number);
                compare(step, i, hot_blocks, summarised, expected, number);
            }
        }
    }

    Agreement result() const { return agreement_; }

  private:
    void compare(const JudgedStep& step, std::uint32_t draw, std::span<const std::uint32_t> hot_blocks,
                 bool summarised, std::int32_t expected, std::uint32_t number) {
        sampler::Request request = step.request(draw);
        request.hot_blocks = hot_blocks;
        const std::int32_t token =
            sampler::decide(rows_.view(step.row, summarised), request, state_, workspace_).token;
        ++agreement_.compared;
        if (token == expected) return;
        if (agreement_.different++ > 0) return;
        agreement_.first_difference = fmt::format(
            "step {}, row {}, draw {}, {} summaries, {} hot blocks: token {}, but the reference chose {}",
            number, step.row, draw, summarised ? "with" : "without", hot_blocks.size(), token, expected);
    }

    const measurement::BenchRows& rows_;
    sampler::SequenceState state_;
    sampler::Workspace workspace_;
    Agreement agreement_;
};

}  // namespace

Agreement compare_truncated(const measurement::BenchRows& rows, std::uint32_t steps, std::uint32_t draws,
                            const std::vector<std::uint32_t>& sizes, command_line::Progress& progress) {
    Comparison comparison(rows);
    for (std::uint32_t number = 0; number < steps; ++number) {
        comparison.take(number, draws, sizes[number % sizes.size()]);
        progress.advance(1);
    }
    return comparison.result();
}

}  // namespace croupier::bench
