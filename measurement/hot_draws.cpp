#include "measurement/hot_draws.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "measurement/percentiles.h"
#include "measurement/read_once.h"
#include "measurement/uninterrupted.h"
#include "proto/philox.h"
#include "sampler/decide.h"
#include "sampler/proposals.h"

namespace croupier::measurement {
namespace {

constexpr std::uint32_t kWarmRounds = 2;
class Sampler {
  public:
    Sampler(const BenchRows& rows, const proto::SamplingParams& params)
        : rows_(rows), params_(params), state_(rows.vocab(), 8), workspace_(rows.vocab()) {
        state_.begin(params_, {});
    }

    // Brings the caches into the same state before each size; otherwise small hot sets would stay cached.
    void read_rows() {
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            sink_ = sink_ + read_once(rows_.row(row), rows_.row_bytes());
        }
    }

    // Returns nothing if the draw was interrupted.
    std::optional<double> draw_us(std::uint32_t row, std::uint32_t draw,
                                  std::span<const std::uint32_t> hot_blocks) {
        sampler::Request request;
        request.params = &params_;
        request.max_length = 8;
        request.hot_blocks = hot_blocks;
        request.position_shift = draw;
        request.random = proto::random_at(params_.seed, draw, params_.child, 0);
        proto::Decision decision;
        const auto us = uninterrupted_us(
            [&] { decision = sampler::decide(rows_.view(row, true), request, state_, workspace_); });
        if (decision.error != proto::DecisionError::none) {
            throw std::runtime_error("row " + std::to_string(row) + " has no decision: error " +
                                     std::to_string(static_cast<int>(decision.error)));
        }
        return us;
    }
    std::span<const std::uint32_t> hot_blocks(std::uint32_t hot) const { return rows_.hot_blocks(hot); }
    const sampler::Answer& answer() const { return workspace_.answer(); }

  private:
    const BenchRows& rows_;
    proto::SamplingParams params_;
    sampler::SequenceState state_;
    sampler::Workspace workspace_;
    volatile std::uint64_t sink_ = 0;
};

void draw_rows(Sampler& sampler, std::uint32_t rows, std::uint32_t round, HotDraws& into) {
    const std::span<const std::uint32_t> hot_blocks = sampler.hot_blocks(into.hot);
    sampler.read_rows();
    double all_us = 0.0;
    double hot_path_us = 0.0;
    std::uint32_t draws = 0;
    std::uint32_t hot_path = 0;
    for (std::uint32_t row = 0; row < rows; ++row) {
        const std::optional<double> us = sampler.draw_us(row, round * rows + row, hot_blocks);
        if (!us) continue;
        const sampler::Answer& answer = sampler.answer();
        ++draws;
        all_us += *us;
        into.proposals += answer.proposals;
        into.blocks_read += answer.blocks_read;
        if (answer.proposals != 1 || answer.region != sampler::Region::hot) continue;
        hot_path_us += *us;
        ++hot_path;
    }
    into.draws += draws;
    into.hot_path += hot_path;
    if (draws > 0) into.rounds_us.push_back(all_us / draws);
    if (hot_path > 0) into.hot_path_rounds_us.push_back(hot_path_us / hot_path);
}

}  // namespace

std::vector<std::uint32_t> whole_blocks(std::vector<std::uint32_t> sizes, std::uint32_t vocab) {
    for (std::uint32_t& hot : sizes) {
        if (hot > vocab) {
            throw std::runtime_error("a hot set of " + std::to_string(hot) + " ids; allowed: 0 to " +
                                     std::to_string(vocab));
        }
        constexpr std::uint32_t kInside = sampler::kProposalBlock - 1;
        hot = std::min((hot + kInside) & ~kInside, vocab);
    }
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

std::vector<std::uint32_t> sizes_to_try(std::uint32_t vocab) {
    std::vector<std::uint32_t> sizes = {vocab};
    for (std::uint32_t hot = 256; hot < vocab; hot *= 2) {
        sizes.push_back(hot);
        sizes.push_back(std::min(hot + hot / 2, vocab));
    }
    return whole_blocks(std::move(sizes), vocab);
}

double HotDraws::mean_us() const {
    return middle_mean(rounds_us);
}

double HotDraws::hot_path_us() const {
    return middle_mean(hot_path_rounds_us);
}

std::vector<HotDraws> measure_draws(const BenchRows& rows, const proto::SamplingParams& params,
                                    std::span<const std::uint32_t> sizes, std::uint32_t rounds,
                                    command_line::Progress& progress) {
    Sampler sampler(rows, params);
    std::vector<HotDraws> all;
    for (const std::uint32_t hot : sizes) {
        all.emplace_back().hot = hot;
        for (std::uint32_t round = 0; round < kWarmRounds; ++round) {
            HotDraws unused;
            unused.hot = hot;
            draw_rows(sampler, rows.count(), round, unused);
        }
    }
    for (std::uint32_t round = 0; round < rounds; ++round) {
        for (HotDraws& each : all) draw_rows(sampler, rows.count(), kWarmRounds + round, each);
        progress.advance(1);
    }
    return all;
}

}  // namespace croupier::measurement
