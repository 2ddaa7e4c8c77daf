// A captured decision is a request whose answer is that decision, whatever was asked for.
#include "daemon/worker/capture.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "daemon/observation/captured_request.h"
#include "explain/case.h"
#include "explain/decider.h"
#include "explain/explained.h"
#include "explain/faults.h"
#include "proto/philox.h"
#include "sampler/decide.h"
#include "tests/sampler/case_generator.h"

using namespace croupier;
using namespace croupier::daemon;
using Catch::Contains;

namespace {

struct Kept {
    proto::Decision decision;
    proto::Feedback feedback;
    std::vector<std::byte> bytes;
};

Kept keep(const sampler::RowView& row, const sampler::Request& request, bool randoms_supplied) {
    sampler::Workspace workspace(row.vocab);
    sampler::SequenceState state(row.vocab, request.max_length);
    state.begin(*request.params, request.dry_breakers);
    Kept kept;
    kept.decision = sampler::decide(row, request, state, workspace);
    kept.feedback = workspace.answer().feedback;
    const request::DecisionPath path = workspace.answer().path;
    CapturedColumn captured;
    CHECK_FALSE(captured.is_kept());
    REQUIRE(captured.keep_row(row, workspace));
    captured.keep_request(request, {}, randoms_supplied, path);
    REQUIRE(captured.is_kept());
    kept.bytes = captured.take({3, 7}, 11, 5, 2, kept.decision);
    CHECK_FALSE(captured.is_kept());
    return kept;
}

// What a daemon gives: no shift, a session's room, the words of its own counter or of a writer, blocks of the
// row, each once.
void as_a_daemon_asks(sampler::test::RandomCase& of, bool randoms_supplied) {
    sampler::Request& request = of.request;
    request.position_shift = 0;
    request.wants_support = false;
    request.prepared = {};
    request.max_length = std::max(request.max_length, 2U);
    if (!randoms_supplied)
        request.random =
            proto::random_at(of.params.seed, sampler::random_position(request), of.params.child, 0);
    const auto blocks = static_cast<std::uint32_t>((of.logits.size() + 63) / 64);
    std::set<std::uint32_t> seen;
    std::erase_if(of.hot_blocks,
                  [&](std::uint32_t block) { return block >= blocks || !seen.insert(block).second; });
    request.hot_blocks = of.hot_blocks;
}

bool lists_contradict(const std::vector<std::int32_t>& lists) {
    for (std::size_t at = 0; at < lists.size(); at += static_cast<std::size_t>(lists[at]) + 1) {
        if (lists[at] < 1 || static_cast<std::size_t>(lists[at]) >= lists.size() - at) return true;
    }
    return false;
}

}  // namespace

TEST_CASE(
    "a captured decision is a request with the same answer, whatever its row, its controls and its lists") {
    std::mt19937_64 generator(20261123);
    explain::Decider decider;
    std::size_t tokens = 0;
    for (int round = 0; round < 3000; ++round) {
        sampler::test::RandomCase of;
        sampler::test::fill_case(of, 1 + static_cast<std::uint32_t>(generator() % 700), generator);
        const bool randoms_supplied = round % 3 == 0;
        as_a_daemon_asks(of, randoms_supplied);
        INFO("round " << round << ": " << sampler::test::describe(of));
        const sampler::test::RowFixture row(of.logits, of.shape, of.order_seed);
        const Kept kept = keep(row.view(), of.request, randoms_supplied);
        const auto head = check_captured(kept.bytes);
        REQUIRE(head);
        if (lists_contradict(of.bad_words) || lists_contradict(of.breakers)) {
            CHECK(kept.decision.error != proto::DecisionError::none);
            CHECK_THROWS_AS(request_of(head.value(), kept.bytes), explain::RequestError);
            continue;
        }
        // As text: what a program reads is what counts.
        const std::string text = request_of(head.value(), kept.bytes).dump();
        explain::RowFiles files;
        const explain::Case asked = explain::read_case(explain::parse_json(text), files);
        const explain::Asked request(asked, 0, 0);
        for (const auto impl : {explain::Impl::fast, explain::Impl::reference}) {
            const explain::Outcome outcome = decider.decide(asked.row.view(), request.request(), impl);
            CHECK(outcome.decision.error == kept.decision.error);
            CHECK(outcome.decision.token == kept.decision.token);
            CHECK(outcome.decision.flags == kept.decision.flags);
            if (kept.decision.error != proto::DecisionError::none) continue;
            CHECK(outcome.feedback.level == kept.feedback.level);
            CHECK(outcome.feedback.weight == kept.feedback.weight);
        }
        CHECK(asked.decided->token == kept.decision.token);
        CHECK(asked.decided->step == 5);
        if (kept.decision.error == proto::DecisionError::none) ++tokens;
    }
    CHECK(tokens > 2000);
}

TEST_CASE("a captured decision that is an error says which") {
    sampler::test::RandomCase of;
    of.logits = {1.0F, std::numeric_limits<float>::quiet_NaN(), 2.0F};
    sampler::test::bind_request(of);
    of.request.max_length = 8;
    const sampler::test::RowFixture row(of.logits, of.shape);
    const Kept kept = keep(row.view(), of.request, false);
    CHECK(kept.decision.error == proto::DecisionError::nan_logit);
    explain::RowFiles files;
    explain::Decider decider;
    const auto request = request_of(check_captured(kept.bytes).value(), kept.bytes);
    CHECK(request.at("logits").at(1) == "nan");
    CHECK_THROWS_WITH(explain::explain_case(explain::read_case(request, files), decider),
                      Contains("nan_logit: the logit of id 1 is NaN"));
}

TEST_CASE("a file that is no captured decision is refused, wherever it is cut and whatever its counts say") {
    sampler::test::RandomCase of;
    of.logits = {1.0F, 3.0F, 2.0F};
    of.prompt = {1, 2};
    of.bias = {{1, 0.5F}, {1, -0.25F}};
    sampler::test::bind_request(of);
    of.request.max_length = 8;
    const sampler::test::RowFixture row(of.logits, of.shape);
    const std::vector<std::byte> whole = keep(row.view(), of.request, false).bytes;
    REQUIRE(check_captured(whole));
    for (std::size_t size = 0; size < whole.size(); ++size)
        CHECK_FALSE(check_captured(std::span(whole).first(size)));
    for (std::size_t at = 0; at < sizeof(proto::CapturedHead); ++at) {
        std::vector<std::byte> bent = whole;
        bent[at] = ~bent[at];
        const auto head = check_captured(bent);
        if (!head) continue;
        // What passes may ask for nonsense, and is read without a step beyond its end.
        try {
            explain::RowFiles files;
            explain::Decider decider;
            (void)explain::explain_case(explain::read_case(request_of(head.value(), bent), files), decider);
        } catch (const explain::RequestError&) {
        }
    }
}
