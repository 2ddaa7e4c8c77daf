#include <catch2/catch.hpp>

#include "case_generator.h"
#include "deciding.h"
#include "sampler/row_mass.h"

namespace croupier::sampler::test {
namespace {

void require_same(const proto::Decision& a, const proto::Decision& b) {
    REQUIRE(a.error == b.error);
    REQUIRE(a.token == b.token);
    REQUIRE(a.flags == b.flags);
    // The total of a raw log-prob is summed slice by slice, in float (docs/decisions/0005).
    REQUIRE(logprobs_agree(a.logprob, b.logprob));
}

}  // namespace

TEST_CASE("neither dtype, tile, batch, column nor tensor parallelism changes a decision") {
    std::mt19937_64 generator(99);
    constexpr std::uint32_t kVocab = 1000;
    Workspace workspace(kVocab);
    RandomCase random_case;
    const RowShape plain = {proto::Dtype::fp32, 64, 1, 0, {}, false};
    for (int number = 0; number < 1500; ++number) {
        fill_case(random_case, kVocab, generator);
        random_case.request.hot_blocks = {};  // that is each slice's own
        const RowFixture reference_row(random_case.logits, plain);
        const proto::Decision reference = decide_once(reference_row.view(), random_case.request, workspace);
        random_case.shape.permuted = false;
        const bool untruncated = (reference.flags & (proto::kGreedy | proto::kTruncated)) == 0;
        // An untruncated draw depends on the blocks into which the ranks' slices cut the vocabulary.
        if (untruncated && !random_case.shape.shards.empty()) random_case.shape.shards = {128, 320, 552};
        const RowFixture row(random_case.logits, random_case.shape);
        require_same(decide_once(row.view(), random_case.request, workspace), reference);
    }
}

TEST_CASE("a hotness order changes no greedy and no truncated decision") {
    std::mt19937_64 generator(100);
    constexpr std::uint32_t kVocab = 1000;
    Workspace workspace(kVocab);
    RandomCase random_case;
    int compared = 0;
    for (int number = 0; number < 1500; ++number) {
        fill_case(random_case, kVocab, generator);
        random_case.shape.permuted = false;
        const RowFixture plain(random_case.logits, random_case.shape);
        const proto::Decision reference = decide_once(plain.view(), random_case.request, workspace);
        if ((reference.flags & (proto::kGreedy | proto::kTruncated)) == 0) continue;
        random_case.shape.permuted = true;
        const RowFixture permuted(random_case.logits, random_case.shape, random_case.order_seed);
        const proto::Decision decision = decide_once(permuted.view(), random_case.request, workspace);
        REQUIRE(decision.token == reference.token);
        REQUIRE(decision.flags == reference.flags);
        ++compared;
    }
    CHECK(compared > 1000);
}

TEST_CASE("a decision leaves nothing behind that changes the next one") {
    std::mt19937_64 generator(101);
    constexpr std::uint32_t kVocab = 200;
    Workspace used(kVocab);
    RandomCase random_case;
    for (int number = 0; number < 300; ++number) {
        fill_case(random_case, kVocab, generator);
        const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
        Workspace fresh(kVocab);
        require_same(decide_once(row.view(), random_case.request, used),
                     decide_once(row.view(), random_case.request, fresh));
    }
}

}  // namespace croupier::sampler::test
