#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>

#include "case_generator.h"
#include "sampler/row_mass.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

void require_same(const proto::Decision& a, const proto::Decision& b) {
    REQUIRE(a.error == b.error);
    REQUIRE(a.token == b.token);
    REQUIRE(a.flags == b.flags);
    // The total of a raw log-prob is summed in float, of bf16 in another order (docs/decisions/0005).
    REQUIRE(logprobs_agree(a.logprob, b.logprob));
}

// Bit for bit, the log-prob too.
void require_identical(const proto::Decision& a, const proto::Decision& b) {
    REQUIRE(a.error == b.error);
    REQUIRE(a.token == b.token);
    REQUIRE(a.flags == b.flags);
    REQUIRE(std::bit_cast<std::uint32_t>(a.logprob) == std::bit_cast<std::uint32_t>(b.logprob));
}

// Equal shares, as vLLM cuts them: the padded vocabulary over the ranks.
std::vector<std::uint32_t> even_shards(std::uint32_t vocab, std::uint32_t ranks, std::uint32_t padded_to) {
    const std::uint32_t padded = (vocab + padded_to - 1) / padded_to * padded_to;
    return std::vector<std::uint32_t>(ranks, (padded + ranks - 1) / ranks);
}

// The last ones may have none, or ids beyond the vocabulary only.
std::vector<std::uint32_t> uneven_shards(std::uint32_t vocab, std::uint32_t ranks,
                                         std::mt19937_64& generator) {
    std::vector<std::uint32_t> shards;
    std::uint32_t left = vocab;
    for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {
        const auto most = std::max(1U, 2 * vocab / ranks);
        shards.push_back(std::min(left, static_cast<std::uint32_t>(generator() % most)));
        left -= shards.back();
    }
    shards.push_back(left + static_cast<std::uint32_t>(generator() % 150));
    return shards;
}

// All shapes in which ranks may lay the row.
void check_shapes(RandomCase& random_case, Workspace& workspace, std::mt19937_64& generator) {
    const std::uint32_t vocab = workspace.vocab;
    const RowShape plain = {random_case.shape.dtype, 64, 1, 0, {}, false, false};
    const RowFixture plain_row(random_case.logits, plain);
    const proto::Decision wanted = decide_once(plain_row.view(), random_case.request, workspace);
    for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 8U}) {
        for (const std::uint32_t tile : {1U, 3U, 64U}) {
            RowShape shape = {plain.dtype, tile, 1 + ranks % 3, ranks % 3, {}, false, false};
            shape.shards =
                generator() % 2 == 0 ? even_shards(vocab, ranks, 64) : uneven_shards(vocab, ranks, generator);
            shape.permuted = generator() % 2 == 0;
            INFO("ranks " << ranks << ", tile " << tile << ", " << describe(random_case));
            const RowFixture row(random_case.logits, shape, generator());
            require_identical(decide_once(row.view(), random_case.request, workspace), wanted);
            shape.summarised = true;
            const RowFixture summarised(random_case.logits, shape, generator());
            require_same(decide_once(summarised.view(), random_case.request, workspace), wanted);
        }
    }
}

}  // namespace

TEST_CASE(
    "neither dtype, tile, batch, column, tensor parallelism nor the order of blocks changes a decision") {
    std::mt19937_64 generator(99);
    constexpr std::uint32_t kVocab = 1000;
    Workspace workspace(kVocab);
    RandomCase random_case;
    const RowShape plain = {proto::Dtype::fp32, 64, 1, 0, {}, false};
    for (int number = 0; number < 1500; ++number) {
        fill_case(random_case, kVocab, generator);
        const RowFixture reference_row(random_case.logits, plain);
        const proto::Decision reference = decide_once(reference_row.view(), random_case.request, workspace);
        const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
        require_same(decide_once(row.view(), random_case.request, workspace), reference);
    }
}

TEST_CASE("no cut of the vocabulary among ranks changes a decision, nor a log-prob's last bit") {
    std::mt19937_64 generator(102);
    for (const std::uint32_t vocab : {1U, 5U, 63U, 64U, 65U, 200U, 1000U}) {
        Workspace workspace(vocab);
        RandomCase random_case;
        for (int number = 0; number < 60; ++number) {
            fill_case(random_case, vocab, generator);
            check_shapes(random_case, workspace, generator);
        }
    }
}

TEST_CASE("no cut of a real vocabulary among ranks changes a decision") {
    std::mt19937_64 generator(103);
    const std::uint32_t vocab = GENERATE(151936U, 151669U, 128256U);
    Workspace workspace(vocab);
    RandomCase random_case;
    for (int number = 0; number < 2; ++number) {
        fill_case(random_case, vocab, generator);
        check_shapes(random_case, workspace, generator);
    }
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
