// Columns with a mask stand whole in a lean step: what the mask hides may stand at any height.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "agreement.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

// A row whose one hidden token stands so far above two that are allowed, in one block with them.
void hide_above(LmCase& of, std::uint32_t vocab, float gap) {
    std::fill(of.logits.begin(), of.logits.end(), -50.0F);
    of.logits[0] = 0.0F;
    of.logits[1] = -0.03125F;
    of.logits[2] = quantised(gap, of.shape.dtype);
    of.mask.assign((vocab + 31) / 32, 0xFFFFFFFFU);
    of.mask[0] &= ~4U;
}

void clear_request(LmCase& of) {
    of.params = {};
    of.params.flags = proto::kNoLogprob;
    for (auto* list : {&of.prompt, &of.output, &of.allowed_ids, &of.bad_words, &of.breakers}) list->clear();
    of.bias.clear();
    of.hot_blocks.clear();
}

void check_as_whole(LmCase& of, Workspace& workspace) {
    LeanOffer offer;
    offer.all = true;
    LeanRow row(of.logits, of.shape, 1, offer);
    const proto::Decision whole = decide_once(row.whole(), of.request, workspace);
    const reference::Outcome expected = outcome_of(whole, workspace.answer());
    const LeanDecision lean = decide_lean(row, of.request, workspace);
    const std::string fault = difference(lean.outcome, expected, Logprobs::within_error);
    if (!fault.empty()) FAIL(fault << "; " << describe(of));
}

}  // namespace

TEST_CASE("what a mask hides does not keep a winner that the nucleus leaves out, however high it stands") {
    constexpr std::uint32_t kVocab = 640;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(1);
    LmCase of;
    for (const double temperature : {0.01, 0.05, 0.1, 0.2, 0.5, 1.0}) {
        for (const float gap : {1.0F, 8.0F, 10.0F, 18.0F, 22.0F, 26.0F, 45.0F, 60.0F, 120.0F, 240.0F}) {
            fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
            clear_request(of);
            hide_above(of, kVocab, gap);
            bind_request(of);
            of.request.max_length = 100;
            of.params.temperature = temperature;
            of.params.top_p = 0.5;
            for (of.params.seed = 0; of.params.seed < 40; ++of.params.seed) check_as_whole(of, workspace);
        }
    }
}

TEST_CASE("requests under masks that hide what stands highest are decided as over whole rows") {
    constexpr std::uint32_t kVocab = 3000;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(2);
    LmCase of;
    for (int number = 0; number < 1500; ++number) {
        const auto dtype = static_cast<proto::Dtype>(number % 3);
        fill_lm_row(of, kVocab, dtype, generator);
        fill_lm_request(of, generator);
        of.params.temperature = std::array{0.01, 0.05, 0.2, 0.7}[generator() % 4];
        of.allowed_ids.clear();
        of.mask.assign((kVocab + 31) / 32, 0xFFFFFFFFU);
        for (int hidden = 0; hidden < 40; ++hidden) {
            const auto id = static_cast<std::uint32_t>(generator() % kVocab);
            const auto above =
                static_cast<float>(generator() % 400) * static_cast<float>(of.params.temperature);
            of.logits[id] = quantised(20.0F + above, dtype);
            of.mask[id / 32] &= ~(1U << (id % 32));
        }
        bind_request(of);
        check_as_whole(of, workspace);
    }
}

}  // namespace croupier::sampler::test
