// One plan for a request: what writers send by it is enough for what samplers read by it.
#include "request/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gpu_writer/column_wants.h"
#include "gpu_writer/lean_layout.h"
#include "proto/param_ranges.h"
#include "request/wants.h"
#include "sampler/lean_row.h"
#include "sampler/plan.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "tests/sampler/case_generator.h"

using namespace croupier;
using sampler::test::RandomCase;

namespace {

constexpr std::uint32_t kVocab = 12'000;

// As a writer finds a request in the segment: its randoms stand at its tokens' places.
void as_in_segment(RandomCase& of) {
    of.request.position_shift = 0;
    of.request.wants_support = false;
}

proto::Geometry geometry_of(std::uint32_t vocab, proto::Dtype dtype) {
    proto::Geometry geometry;
    geometry.vocab = vocab;
    geometry.dtype = dtype;
    geometry.max_batch = 1;
    geometry.lean_blocks = 96;
    proto::fill_even_shards(geometry);
    return geometry;
}

// Of a row that a language model could have written, in steps that are seldom equal.
void fill_row(RandomCase& of, proto::Dtype dtype, std::mt19937_64& generator) {
    std::normal_distribution<float> normal(0.0F, generator() % 2 == 0 ? 1.5F : 3.0F);
    of.shape = sampler::test::RowShape{};
    of.shape.dtype = dtype;
    of.logits.resize(kVocab);
    for (float& logit : of.logits) logit = sampler::test::quantised(normal(generator), dtype);
}

// Half of the row's weight is that of a token which the history has, and which goes on with a repeat in it.
void repeat_likely_token(RandomCase& of) {
    double total = 0.0;
    for (const float logit : of.logits) total += std::exp(static_cast<double>(logit));
    constexpr std::int32_t kLikely = 7;
    of.logits[kLikely] = sampler::test::quantised(static_cast<float>(std::log(total)), of.shape.dtype);
    of.prompt = {1, 2};
    of.output = {kLikely, 1, 2, kLikely, 1, 2};
}

// The row's winner, with no log-prob and no lists beside it.
void ask_for_token_alone(RandomCase& of, std::uint64_t seed) {
    of.params = {};
    of.params.seed = seed;
    of.params.flags = proto::kNoLogprob;
    of.params.loop_count = 2;  // for a longest tail
    for (auto* list : {&of.stop_ids, &of.allowed_ids, &of.bad_words, &of.breakers}) list->clear();
    of.bias.clear();
    sampler::test::bind_request(of);
    of.request.max_length = 100;
}

// One column of one rank, as a lean writer sends it by its want.
class SentColumn {
  public:
    SentColumn(const RandomCase& of, const request::Plan& plan)
        : row_(of.logits, of.shape),
          geometry_(geometry_of(kVocab, of.shape.dtype)),
          shape_(gpu_writer::lean_shape(geometry_, 0, 1)),
          part_(shape_.layout.bytes),
          slice_memory_(std::size_t{geometry_.tiles(0)} * geometry_.tile *
                        proto::element_bytes(geometry_.dtype)),
          lists_(gpu_writer::NamedIds::room_for(geometry_)),
          names_(lists_, 1),
          placed_((geometry_.blocks() + 63) / 64) {
        want_ =
            names_.want_of(0, plan, of.params, {0, 0, of.request.allowed_ids, of.request.bias}, shape_.room);
        const auto& mask = of.request.mask;
        if (!mask.empty()) request::put_under_mask(want_, plan, of.params, 1);
        // Masks are read by blocks, up to a cache line's end.
        mask_.assign((mask.size() + 15) / 16 * 16, 0);
        std::copy(mask.begin(), mask.end(), mask_.begin());
        shape_.masks = {mask_.data(), mask_.size()};
        shape_.names = names_.names();
        const void* elements = row_.view().slices[0].elements;
        gpu_writer::lay_lean(shape_, {&want_, 1}, {&elements, 1}, {part_.data(), slice_memory_.data()});
        if (want_.flags.has(request::Want::whole)) placed_.assign(placed_.size(), ~std::uint64_t{0});
        read_head();
    }

    const request::LeanWant& want() const { return want_; }
    sampler::RowView whole() const { return row_.view(); }
    sampler::RowView view() {
        sampler::RowView view = row_.view();
        slice_ = view.slices[0];
        slice_.elements = slice_memory_.data();
        slice_.summaries = {};
        slice_.lean = &lean_;
        view.slices = {&slice_, 1};
        return view;
    }
    void grant(std::span<const std::uint64_t> missing) {
        gpu_writer::lay_blocks(shape_, 0, row_.view().slices[0].elements, missing, slice_memory_.data());
        for (std::size_t i = 0; i < missing.size(); ++i) placed_[i] |= missing[i];
    }

  private:
    void read_head() {
        const auto& layout = shape_.layout;
        const auto& head = *reinterpret_cast<const proto::LeanHead*>(part_.data() + layout.heads);
        lean_ = sampler::lean_column_of(head, part_.data(), layout, shape_.slice.blocks, 0);
        lean_.placed = placed_.data();
    }

    sampler::test::RowFixture row_;
    proto::Geometry geometry_;
    gpu_writer::LeanShape shape_;
    std::vector<std::byte> part_;
    std::vector<std::byte> slice_memory_;
    std::vector<std::uint32_t> lists_;
    gpu_writer::NamedIds names_;
    std::vector<std::uint32_t> mask_;
    std::vector<std::uint64_t> placed_;
    request::LeanWant want_;
    sampler::LeanColumn lean_;
    sampler::Slice slice_;
};

struct Decided {
    sampler::reference::Outcome outcome;
    int requests = 0;  // for more blocks
};

Decided decide(SentColumn& column, bool whole, const sampler::Request& request,
               sampler::Workspace& workspace) {
    sampler::SequenceState state(
        kVocab, static_cast<std::uint32_t>(request.prompt.size() + request.output.size()) + 1);
    state.begin(*request.params, request.dry_breakers);
    Decided decided;
    for (;;) {
        const auto decision =
            sampler::decide(whole ? column.whole() : column.view(), request, state, workspace);
        if (workspace.answer().missing.empty()) {
            decided.outcome = sampler::test::outcome_of(decision, workspace.answer());
            return decided;
        }
        REQUIRE(++decided.requests < 40);
        column.grant(workspace.answer().missing);
    }
}

// Gives a filter the value that people use; false: the step is none.
bool turn_on(proto::Step step, proto::SamplingParams& params) {
    using proto::Step;
    switch (step) {
        case Step::top_n_sigma:
            params.top_n_sigma = 1.0;
            return true;
        case Step::min_p:
            params.min_p = 0.05;
            return true;
        case Step::top_k:
            params.top_k = 40;
            return true;
        case Step::top_p:
            params.top_p = 0.95;
            return true;
        case Step::typical_p:
            params.typical_p = 0.9;
            return true;
        case Step::xtc:
            params.xtc_probability = 1.0;
            return true;
        case Step::end:
        case Step::penalties:
        case Step::dry:
        case Step::temperature:
        case Step::count_:
            break;
    }
    return false;
}

}  // namespace

TEST_CASE("a writer and a sampler make the same plan of a request") {
    std::mt19937_64 generator(20261126);
    RandomCase random_case;
    for (int number = 0; number < 30'000; ++number) {
        constexpr std::uint32_t kFewTokens = 70;
        sampler::test::fill_case(random_case, kFewTokens, generator);
        as_in_segment(random_case);
        const sampler::Request& request = random_case.request;
        const proto::Geometry geometry = geometry_of(kFewTokens, random_case.shape.dtype);
        proto::SequenceEntry entry{};
        entry.prompt_length = static_cast<std::uint32_t>(request.prompt.size());
        entry.allowed_count = static_cast<std::uint32_t>(request.allowed_ids.size());
        entry.bias_count = static_cast<std::uint16_t>(request.bias.size());
        entry.bad_words_count = static_cast<std::uint32_t>(request.bad_words.size());
        const auto position = static_cast<std::uint32_t>(request.output.size());
        const request::Plan of_writer =
            gpu_writer::plan_in_segment(random_case.params, entry, position, geometry);
        const request::Plan of_sampler = sampler::plan_of(random_case.params, request, geometry.vocab);
        INFO("case " << number << ": " << sampler::test::describe(random_case));
        REQUIRE(of_writer == of_sampler);
    }
}

TEST_CASE("a dynamic temperature is cut behind only where all filters keep the best tokens") {
    using proto::Step;
    const auto path_of = [](auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.dynatemp_range = 0.5;
        params.min_p = 0.05;
        set(params);
        const request::Plan plan = request::plan_of(params, {{}, false, 100, kVocab});
        CHECK(plan.cut.tempered == (plan.path == request::DecisionPath::head));
        return plan.path;
    };
    constexpr auto kHead = request::DecisionPath::head;
    constexpr auto kClasses = request::DecisionPath::classes;
    CHECK(path_of([](auto&) {}) == kHead);
    CHECK(path_of([](auto& params) { params.top_k = 40, params.top_p = 0.9; }) == kHead);
    CHECK(path_of([](auto& params) { params.top_k = 2000; }) == kHead);
    CHECK(path_of([](auto& params) { params.repetition_penalty = 1.1; }) == kHead);
    CHECK(path_of([](auto& params) { params.typical_p = 0.9; }) == kClasses);
    CHECK(path_of([](auto& params) { params.xtc_probability = 1.0; }) == kClasses);
    CHECK(path_of([](auto& params) {
              params.order = {Step::temperature, Step::min_p, Step::top_n_sigma};
              params.top_n_sigma = 1.0;
          }) == kClasses);
    CHECK(path_of([](auto& params) {
              params.order = {Step::temperature, Step::min_p, Step::penalties};
              params.repetition_penalty = 1.1;
          }) == kClasses);
}

TEST_CASE("what is sent by a plan is enough where it is said to be, and gives the whole row's token anyway") {
    std::mt19937_64 generator(20261127);
    RandomCase random_case;
    sampler::Workspace workspace(kVocab);
    int sufficient = 0;
    int decided_at_once = 0;
    for (int number = 0; number < 1'000; ++number) {
        sampler::test::fill_case(random_case, kVocab, generator);
        as_in_segment(random_case);
        fill_row(random_case, static_cast<proto::Dtype>(number % 3), generator);
        const request::Plan plan = sampler::plan_of(random_case.params, random_case.request, kVocab);
        SentColumn column(random_case, plan);
        INFO("case " << number << ", path " << request::name_of(plan.path) << ": "
                     << sampler::test::describe(random_case));
        const Decided by_row = decide(column, true, random_case.request, workspace);
        const Decided by_column = decide(column, false, random_case.request, workspace);
        const std::string difference = sampler::test::difference(by_column.outcome, by_row.outcome,
                                                                 sampler::test::Logprobs::within_error);
        REQUIRE(difference.empty());
        decided_at_once += by_column.requests == 0 ? 1 : 0;
        if (!request::suffices(plan, random_case.params, column.want())) continue;
        // 16 bits leave blocks with the same maximum.
        const bool by_blocks =
            plan.path == request::DecisionPath::head && !column.want().flags.has(request::Want::best_entries);
        if (by_blocks && random_case.shape.dtype != proto::Dtype::fp32) continue;
        ++sufficient;
        REQUIRE(by_column.requests == 0);
    }
    // Neither would be worth a test if it were rare.
    CHECK(sufficient > 300);
    CHECK(decided_at_once > sufficient);
}

// A request that a writer draws by itself: a control that it overlooks would change no token.
TEST_CASE("each parameter alone acts on a column that its writer would draw without it") {
    constexpr int kTries = 16;
    std::mt19937_64 generator(20261202);
    RandomCase of;
    sampler::Workspace workspace(kVocab);
    std::map<std::string, int> tried;
    for (int number = 0; number < 400; ++number) {
        sampler::test::fill_case(of, kVocab, generator);
        const proto::SamplingParams filled = of.params;
        fill_row(of, static_cast<proto::Dtype>(number % 3), generator);
        if (number % 2 == 0) repeat_likely_token(of);
        ask_for_token_alone(of, filled.seed);
        REQUIRE(sampler::plan_of(of.params, of.request, kVocab).draws_plainly);
        proto::for_each_sampling_field([&](const auto& field) {
            ask_for_token_alone(of, filled.seed);
            if (filled.*field.member == of.params.*field.member) return;
            of.params.*field.member = filled.*field.member;
            // Sessions of lean steps refuse this one.
            const bool refused = proto::param_fault(of.params) || of.params.rng == proto::Rng::shvs;
            if (refused || ++tried[field.name] > kTries) return;
            SentColumn column(of, sampler::plan_of(of.params, of.request, kVocab));
            const Decided decided = decide(column, false, of.request, workspace);
            const auto expected = sampler::reference::decide(column.whole(), of.request);
            INFO("case " << number << ": " << sampler::test::describe(of));
            const std::string difference =
                sampler::test::difference(decided.outcome, expected, sampler::test::Logprobs::within_error);
            INFO(difference);
            REQUIRE(difference.empty());
        });
    }
    proto::for_each_sampling_field([&](const auto& field) {
        // The seed is that of every request, and a shortest tail needs a longest one.
        if (field.name == proto::fields::seed.name || field.name == proto::fields::loop_min_period.name)
            return;
        INFO(field.name);
        CHECK(tried.count(field.name) == 1);
    });
}

TEST_CASE("a filter alone is decided by what is sent for it, and samplers seldom request more") {
    constexpr int kRows = 40;
    constexpr std::size_t kHistory = 60;
    const bool penalised = GENERATE(false, true);
    std::mt19937_64 generator(20261130);
    RandomCase of;
    sampler::Workspace workspace(kVocab);
    for (const proto::Step step : proto::kDefaultOrder) {
        of.params = {};
        of.params.flags = proto::kNoLogprob;
        of.params.temperature = 0.8;
        if (penalised) of.params.repetition_penalty = 1.1;
        // A spread is that of the logits as they were: each changed one's block is requested.
        const bool by_spread = step == proto::Step::top_n_sigma || step == proto::Step::typical_p;
        if (!turn_on(step, of.params) || (penalised && by_spread)) continue;
        int asked = 0;
        for (int number = 0; number < kRows; ++number) {
            fill_row(of, proto::Dtype::bf16, generator);
            for (float& logit : of.logits) logit *= 2.0F;  // exact
            of.params.seed = generator();
            of.prompt.resize(kHistory);
            for (std::int32_t& token : of.prompt) token = static_cast<std::int32_t>(generator() % kVocab);
            sampler::test::bind_request(of);
            of.request.max_length = kHistory + 1;
            const request::Plan plan = sampler::plan_of(of.params, of.request, kVocab);
            SentColumn column(of, plan);
            const Decided decided = decide(column, false, of.request, workspace);
            REQUIRE(decided.outcome.decision.error == proto::DecisionError::none);
            asked += decided.requests > 0 ? 1 : 0;
        }
        INFO(proto::facts_of(step).name << ": " << asked << " of " << kRows);
        CHECK(asked <= kRows / 4);
    }
}
