#include "bench/rounding/moves.h"

#include <array>
#include <bit>
#include <stdexcept>

#include "bench/rounding/moved_row.h"
#include "proto/philox.h"
#include "sampler/decide.h"

namespace croupier::bench {
namespace {

std::vector<float> values_of(const std::uint16_t* codes, std::uint32_t vocab) {
    std::vector<float> values;
    values.reserve(vocab);
    for (std::uint32_t id = 0; id < vocab; ++id)
        values.push_back(std::bit_cast<float>(std::uint32_t{codes[id]} << 16U));
    return values;
}

class Moves {
  public:
    Moves(const measurement::BenchRows& rows, const MovesOptions& options)
        : rows_(rows), options_(options), workspace_(rows.vocab()), state_(rows.vocab(), kRoom) {}

    std::vector<MovesOfSetting> run(command_line::Progress& progress) {
        std::vector<MovesOfSetting> all(options_.settings.size());
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            const MovedRow clean(proto::Dtype::fp32, values_of(rows_.row(row), rows_.vocab()));
            const MovedRow noisy(proto::Dtype::fp32, with_noise(clean.values(), options_.sigma, row));
            const MovedRow rounded(proto::Dtype::bf16, rounded_to_bf16(noisy.values()));
            for (std::size_t i = 0; i < all.size(); ++i) {
                add_row({&clean, &noisy, &rounded}, row, options_.settings[i], all[i]);
                progress.advance(1);
            }
        }
        for (MovesOfSetting& each : all) {
            for (Moved* moved : {&each.noise, &each.rounding}) {
                moved->changed /= static_cast<double>(each.draws);
                moved->total_variation /= rows_.count();
            }
        }
        return all;
    }

  private:
    static constexpr std::uint32_t kRoom = 8;
    using Versions = std::array<const MovedRow*, 3>;

    void add_row(const Versions& versions, std::uint32_t row, const proto::SamplingParams& params,
                 MovesOfSetting& sums) {
        std::array<std::vector<double>, 3> shares;
        for (std::size_t i = 0; i < versions.size(); ++i) shares[i] = versions[i]->probabilities(params);
        sums.noise.total_variation += total_variation(shares[0], shares[1]);
        sums.rounding.total_variation += total_variation(shares[1], shares[2]);
        state_.begin(params, {});
        const std::uint32_t draws = (options_.draws + rows_.count() - 1) / rows_.count();
        for (std::uint32_t i = 0; i < draws; ++i) {
            std::array<std::int32_t, 3> tokens{};
            for (std::size_t each = 0; each < versions.size(); ++each)
                tokens[each] = draw(*versions[each], params, row * draws + i);
            sums.noise.changed += tokens[0] != tokens[1] ? 1.0 : 0.0;
            sums.rounding.changed += tokens[1] != tokens[2] ? 1.0 : 0.0;
        }
        sums.draws += draws;
    }

    std::int32_t draw(const MovedRow& row, const proto::SamplingParams& params, std::uint32_t position) {
        sampler::Request request;
        request.params = &params;
        request.max_length = kRoom;
        request.position_shift = position;
        request.random = proto::random_at(params.seed, position, params.child, 0);
        const auto decision = sampler::decide(row.view(), request, state_, workspace_);
        if (decision.error != proto::DecisionError::none)
            throw std::runtime_error("a row has no decision: error " +
                                     std::to_string(static_cast<int>(decision.error)));
        return decision.token;
    }

    const measurement::BenchRows& rows_;
    const MovesOptions& options_;
    sampler::Workspace workspace_;
    sampler::SequenceState state_;
};

}  // namespace

std::vector<MovesOfSetting> measure_moves(const measurement::BenchRows& rows, const MovesOptions& options,
                                          command_line::Progress& progress) {
    return Moves(rows, options).run(progress);
}

}  // namespace croupier::bench
