// The SIMPLE paper's speculative hot-vocab sampling (section 5.3) of a request with penalties and filters,
// over rows in hotness order. Penalties come first, so alpha is computed from penalised logits. Filters apply
// within the chosen sub-vocabulary, as in the paper's remapping "using the top-k indices". So a token that
// top_k over the whole vocabulary would remove can be drawn if the tail is chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "measurement/bench_rows.h"
#include "sampler/row_view.h"
#include "sampler/sequence_state.h"
#include "sampler/workspace.h"

namespace croupier::bench {

class PaperRequest {
  public:
    // `history`: ids, of which the first half is the prompt.
    PaperRequest(const measurement::BenchRows& rows, std::uint32_t hot, const proto::SamplingParams& params,
                 std::span<const std::int32_t> history);

    // In units of the weight of `maximum`, without penalties, because the GPU does not know the histories.
    struct Weight {
        double mass;
        double maximum;
    };
    Weight tail_of(std::uint32_t row) const;

    struct Drawn {
        std::uint32_t place;
        bool accepted;
        double alpha;
    };
    Drawn draw(std::uint32_t row, const Weight& tail, std::uint32_t position);

  private:
    // Tokens that penalties change, by their place in the part.
    struct Penalised {
        std::uint32_t place;
        std::uint32_t said;  // occurrences in the output
    };
    // The hot set or the tail, as a sub-vocabulary.
    struct Part {
        Part(std::uint32_t first, std::uint32_t size)
            : first_place(first), workspace(size), state(size, kMostHistory) {}

        std::uint32_t first_place;
        std::vector<std::int32_t> prompt;
        std::vector<std::int32_t> output;
        std::vector<Penalised> penalised;
        sampler::Workspace workspace;
        sampler::SequenceState state;
    };
    static constexpr std::uint32_t kMostHistory = 1U << 20U;

    void follow(Part& part, std::span<const std::int32_t> history) const;
    sampler::Slice slice_of(const Part& part, std::uint32_t row) const;
    std::uint32_t draw_from(Part& part, std::uint32_t row, std::uint32_t position,
                            std::uint32_t stream) const;
    Weight weigh_hot(std::uint32_t row);
    // The change of the part's mass by penalties.
    double change_by_penalties(const Part& part, std::uint32_t row, double maximum) const;

    const measurement::BenchRows& rows_;
    proto::SamplingParams params_;
    double scale_;
    Part hot_;
    Part tail_;
};

}  // namespace croupier::bench
