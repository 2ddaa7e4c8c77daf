#include "bench/tvd/exactness.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <stdexcept>
#include <string>

#include "bench/tvd/softmax.h"
#include "bench/tvd/steps.h"
#include "sampler/decide.h"

namespace croupier::bench {
namespace {

// Repetitions for the noise, relative to the draws of all hot sets: enough to estimate its deviation.
constexpr std::uint32_t kNoiseGroups = 5;

class Judge {
  public:
    Judge(const measurement::BenchRows& rows, const ExactnessSize& size)
        : rows_(rows),
          size_(size),
          state_(rows.vocab(), kStepRoom),
          workspace_(rows.vocab()),
          expected_(rows.vocab()),
          drawn_(size.sizes.size(), Tally(rows.vocab())),
          plain_(size.sizes.size() * kNoiseGroups, Tally(rows.vocab())),
          tail_(size.sizes.size()),
          proposals_(size.sizes.size()) {
        for (std::uint32_t place = 0; place < rows.places(); ++place) {
            if (rows.id_at(place) < rows.vocab()) hot_first_.push_back(rows.id_at(place));
        }
        for (const std::uint32_t hot : size.sizes) hot_blocks_.push_back(rows.hot_blocks(hot));
    }

    void take(const JudgedStep& step) {
        const std::vector<double> probabilities = softmax_of(rows_, step);
        const std::vector<std::uint8_t> cells = cells_of(probabilities, hot_first_);
        expected_.add(probabilities, cells);
        state_.begin(step.params, {});
        compare_answer(step, probabilities);
        for (std::uint32_t which = 0; which < drawn_.size(); ++which) draw(step, which, cells);
        const PlainDraws plain(probabilities);
        for (Tally& tally : plain_) {
            for (std::uint32_t i = 0; i < size_.draws; ++i) {
                tally.add(plain.draw(static_cast<double>(random_() >> 11U) * 0x1p-53), cells);
            }
        }
    }

    Exactness result() const {
        Exactness result;
        Tally all(rows_.vocab());
        for (std::size_t i = 0; i < drawn_.size(); ++i) {
            const auto draws = static_cast<double>(drawn_[i].draws);
            result.sizes.push_back({size_.sizes[i], total_variation(drawn_[i], expected_),
                                    static_cast<double>(tail_[i]) / draws,
                                    static_cast<double>(proposals_[i]) / draws});
            all.add(drawn_[i]);
        }
        result.in_all = total_variation(all, expected_);
        tell_noise(1, result.token_noise, result.cell_noise);
        tell_noise(drawn_.size(), result.token_noise_in_all, result.cell_noise_in_all);
        result.mean_answered = answered_ / expected_.steps;
        result.most_answered = most_answered_;
        return result;
    }

  private:
    std::int32_t decide(const JudgedStep& step, const sampler::Request& request) {
        const proto::Decision decision =
            sampler::decide(rows_.view(step.row, true), request, state_, workspace_);
        if (decision.error != proto::DecisionError::none) {
            throw std::runtime_error("row " + std::to_string(step.row) + " has no decision: error " +
                                     std::to_string(static_cast<int>(decision.error)));
        }
        return decision.token;
    }

    void draw(const JudgedStep& step, std::uint32_t which, const std::vector<std::uint8_t>& cells) {
        for (std::uint32_t i = 0; i < size_.draws; ++i) {
            // Each size has its own randoms; otherwise all would have the same noise.
            sampler::Request request = step.request(which * size_.draws + i);
            request.hot_blocks = hot_blocks_[which];
            const std::int32_t token = decide(step, request);
            drawn_[which].add(static_cast<std::uint32_t>(token), cells);
            if (workspace_.answer().region == sampler::Region::tail) ++tail_[which];
            proposals_[which] += workspace_.answer().proposals;
        }
    }

    void compare_answer(const JudgedStep& step, const std::vector<double>& probabilities) {
        sampler::Request request = step.request(0);
        request.wants_support = true;
        decide(step, request);
        double shared = 0.0;
        for (const sampler::Survivor& each : workspace_.answer().support) {
            const auto id = static_cast<std::size_t>(each.token);
            shared += std::max(0.0, each.probability - probabilities[id]);
        }
        answered_ += shared;
        most_answered_ = std::max(most_answered_, shared);
    }

    void tell_noise(std::size_t together, Noise& by_token, Noise& by_cell) const {
        std::vector<double> tokens;
        std::vector<double> cells;
        for (std::size_t first = 0; first < plain_.size(); first += together) {
            Tally group(rows_.vocab());
            for (std::size_t i = first; i < first + together; ++i) group.add(plain_[i]);
            const Distance distance = total_variation(group, expected_);
            tokens.push_back(distance.by_token);
            cells.push_back(distance.by_cell);
        }
        by_token = noise_of(tokens);
        by_cell = noise_of(cells);
    }

    const measurement::BenchRows& rows_;
    const ExactnessSize& size_;
    sampler::SequenceState state_;
    sampler::Workspace workspace_;
    std::vector<std::uint32_t> place_of_;   // by token
    std::vector<std::uint32_t> hot_first_;  // all ids
    std::vector<std::span<const std::uint32_t>> hot_blocks_;
    Expected expected_;
    std::vector<Tally> drawn_;
    std::vector<Tally> plain_;
    std::vector<std::uint64_t> tail_;
    std::vector<std::uint64_t> proposals_;
    double answered_ = 0.0;
    double most_answered_ = 0.0;
    std::mt19937_64 random_{20261121};
};

}  // namespace

Exactness judge_draws(const measurement::BenchRows& rows, const ExactnessSize& size,
                      command_line::Progress& progress) {
    Judge judge(rows, size);
    for (std::uint32_t number = 0; number < size.steps; ++number) {
        judge.take(untruncated_step(rows, number));
        progress.advance(1);
    }
    return judge.result();
}

}  // namespace croupier::bench
