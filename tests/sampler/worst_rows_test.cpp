// Rows that cost more than others must not cost more than their size asks: a search that went over the row
// for every token would not end within a test's limit here.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "row_fixture.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {

TEST_CASE("of a real vocabulary's equal logits few are kept: the race asks for them without a pass a token") {
    constexpr std::uint32_t kVocab = 151936;
    const RowFixture row(std::vector<float>(kVocab, 1.0F), {proto::Dtype::bf16, 64, 1, 0, {}, false});
    Workspace workspace(kVocab);
    proto::SamplingParams params;
    std::int32_t last = 0;  // of the tokens that are kept
    DecisionPath path = DecisionPath::classes;
    SECTION("mirostat v2 keeps one, all being more surprising than it allows") {
        params.mirostat = 2;
    }
    SECTION("mirostat v1") {
        params.mirostat = 1;
        last = 999;
        path = DecisionPath::mirostat;
    }
    SECTION("two filters, the first of which keeps a thousandth") {
        params.top_p = 0.001;
        params.typical_p = 0.9;
        last = 151;
    }
    Request request;
    request.params = &params;
    request.max_length = 10;
    for (params.seed = 0; params.seed < 40; ++params.seed) {
        const proto::Decision decision = decide_once(row.view(), request, workspace);
        REQUIRE(decision.error == proto::DecisionError::none);
        CHECK(workspace.answer().path == path);
        CHECK(decision.token <= last);
    }
}

}  // namespace croupier::sampler::test
