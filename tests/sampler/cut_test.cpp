// What the draw promises: its token depends on no cut of the vocabulary, nor on how a row is laid out.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lm_cases.h"
#include "sampler/blocked_row.h"
#include "testing/agreement.h"

namespace croupier::sampler::test {
namespace {

using proto::Dtype;

constexpr std::uint64_t kRequestsOfARow = 25;

struct Layout {
    RowShape shape;
    std::unique_ptr<RowFixture> row;
    // The first layout of the same dtype whose log-probs are summed alike, the summaries being used or not.
    std::size_t first_alike = 0;
};

bool sums_alike(const RowShape& a, const RowShape& b) {
    const auto uses_summaries = [](const RowShape& shape) {
        return shape.summarised && shape.tile == kBlock;
    };
    return a.dtype == b.dtype && uses_summaries(a) == uses_summaries(b);
}

// One rank's fp32 row as it stands, then one of each number of ranks and tile: in every dtype in turn, all
// else at random.
std::vector<Layout> layouts_of(const std::vector<float>& logits, std::mt19937_64& generator) {
    constexpr Dtype kDtypes[] = {Dtype::bf16, Dtype::fp16, Dtype::fp32};
    const auto vocab = static_cast<std::uint32_t>(logits.size());
    std::vector<Layout> all;
    const auto add = [&](const RowShape& shape) {
        std::size_t first = 0;
        while (first < all.size() && !sums_alike(all[first].shape, shape)) ++first;
        all.push_back({shape, std::make_unique<RowFixture>(logits, shape, generator()), first});
    };
    add({});
    std::size_t number = generator() % 3;
    for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 8U}) {
        for (const std::uint32_t tile : {1U, 64U})
            add(lm_shape(vocab, ranks, tile, kDtypes[number++ % 3], generator));
    }
    return all;
}

std::string name_of(const RowShape& shape) {
    std::string text = "dtype " + std::to_string(static_cast<int>(shape.dtype)) + ", tile " +
                       std::to_string(shape.tile) + (shape.permuted ? ", permuted" : "") +
                       (shape.summarised ? ", summarised" : "") + ", shards";
    for (const std::uint32_t shard : shape.shards) text += ' ' + std::to_string(shard);
    return text;
}

// Across dtypes and with summaries a raw log-prob's sum is grouped otherwise; across cuts it has the same
// bits.
// Returns whether there was a token.
bool decide_everywhere(const LmCase& lm_case, const std::vector<Layout>& layouts, Workspace& workspace,
                       SequenceState& state) {
    std::vector<reference::Outcome> outcomes;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        const Layout& layout = layouts[i];
        state.begin(lm_case.params, lm_case.breakers);
        const proto::Decision decision = decide(layout.row->view(), lm_case.request, state, workspace);
        outcomes.push_back(outcome_of(decision, workspace.answer()));
        std::string fault = difference(outcomes[i], outcomes[0], Logprobs::within_error);
        if (fault.empty())
            fault = difference(outcomes[i], outcomes[layout.first_alike], Logprobs::bit_for_bit);
        if (fault.empty()) continue;
        FAIL(fault << "; path " << request::name_of(workspace.answer().path) << "; " << name_of(layout.shape)
                   << "; " << describe(lm_case));
    }
    return outcomes[0].decision.error == proto::DecisionError::none;
}

// Requests, each of them decided in eleven layouts; the environment may ask for more than every run can
// afford.
std::uint64_t cases_to_cut() {
    const char* asked = std::getenv("CROUPIER_CUT_CASES");
    return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 300;
}

}  // namespace

TEST_CASE("a request draws the same token over the same logits, whoever holds which of them and how") {
    std::mt19937_64 generator(20261124);
    std::uint64_t decided = 0;
    std::uint64_t with_token = 0;
    for (std::uint64_t turn = 0; decided < cases_to_cut(); ++turn) {
        constexpr std::uint32_t kVocabs[] = {151936, 128256, 50257};
        const std::uint32_t vocab = kVocabs[turn % 3];
        Workspace workspace(vocab);
        SequenceState state(vocab, 100);
        LmCase lm_case;
        fill_lm_row(lm_case, vocab, Dtype::bf16, generator);
        const std::vector<Layout> layouts = layouts_of(lm_case.logits, generator);
        for (std::uint64_t i = 0; i < kRequestsOfARow; ++i, ++decided) {
            fill_lm_request(lm_case, generator);
            with_token += decide_everywhere(lm_case, layouts, workspace, state) ? 1U : 0U;
        }
    }
    CHECK(with_token > decided * 3 / 4);
}

}  // namespace croupier::sampler::test
