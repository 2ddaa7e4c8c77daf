#include "bench/decide/bench_sequence.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <stdexcept>

#include "proto/geometry.h"
#include "proto/lean_part.h"
#include "proto/philox.h"
#include "request/wants.h"
#include "sampler/plan.h"
#include "sampler/race_arrivals.h"
#include "sampler/race_key.h"

namespace croupier::bench {
namespace {

// Words for the longest list that a column names.
constexpr std::size_t kMostNamed = 8192;

constexpr std::uint32_t kRoom = 8;  // tokens after the history
constexpr std::uint32_t kMostHistory = 1U << 20U;
constexpr std::uint32_t kFewIds = 200;
constexpr std::uint32_t kBiasedIds = 20;
// A prime, so that all ids differ.
constexpr std::uint32_t kListedStride = 7919;

std::vector<std::uint32_t> mask_of(CaseMask kind, std::uint32_t vocab) {
    if (kind == CaseMask::none) return {};
    std::mt19937 generator(20261122);
    const auto random = [&generator] { return static_cast<std::uint32_t>(generator()); };
    std::vector<std::uint32_t> words = empty_mask(vocab);
    for (std::uint32_t& word : words) word = kind == CaseMask::half ? random() : 0U;
    for (std::uint32_t i = 0; kind == CaseMask::few && i < kFewIds; ++i) {
        const std::uint32_t id = random() % vocab;
        words[id / 32] |= 1U << (id % 32);
    }
    return words;
}

std::vector<proto::TokenBias> lifted_ids(std::uint32_t vocab) {
    const std::uint32_t count = std::min(kBiasedIds, vocab);
    std::vector<proto::TokenBias> bias;
    for (std::uint32_t i = 0; i < count; ++i)
        bias.push_back({static_cast<std::int32_t>(std::uint64_t{i} * vocab / count), 5.0F});
    return bias;
}

}  // namespace

std::vector<std::int32_t> written_text(const measurement::BenchRows& rows, std::uint32_t tokens) {
    sampler::Workspace workspace(rows.vocab());
    sampler::SequenceState state(rows.vocab(), kRoom);
    proto::SamplingParams params;
    params.flags = proto::kNoLogprob;
    state.begin(params, {});
    std::vector<std::int32_t> text;
    for (std::uint32_t i = 0; i < tokens; ++i) {
        sampler::Request request;
        request.params = &params;
        request.max_length = kRoom;
        request.position_shift = i;
        request.random = proto::random_at(params.seed, i, 0, 0);
        text.push_back(sampler::decide(rows.view(i % rows.count(), false), request, state, workspace).token);
        if (text.back() < 0) throw std::runtime_error("row " + std::to_string(i) + " has no decision");
    }
    return text;
}

std::uint32_t history_of(const std::string& text) {
    std::uint32_t tokens = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, tokens);
    const bool thousands = rest != end && std::string(rest, end) == "k";
    const std::uint64_t all = std::uint64_t{tokens} * (thousands ? 1024U : 1U);
    if (error != std::errc() || (rest != end && !thousands) || all < 2 || all > kMostHistory) {
        throw std::runtime_error("history is '" + text + "'; allowed: 2 to " + std::to_string(kMostHistory) +
                                 " tokens; 16k means 16 x 1024");
    }
    return static_cast<std::uint32_t>(all);
}

std::vector<std::uint32_t> empty_mask(std::uint32_t vocab) {
    constexpr std::uint32_t kLineWords = 16;
    constexpr std::uint32_t kLineIds = kLineWords * 32;
    return std::vector<std::uint32_t>(std::size_t{(vocab + kLineIds - 1) / kLineIds} * kLineWords);
}

CaseRequest::CaseRequest(const BenchCase& from, std::uint32_t vocab, double temperature)
    : name(from.name), params(from.params), mask(mask_of(from.mask, vocab)), prepared(from.prepared) {
    params.temperature = temperature;
    if (from.biased) bias = lifted_ids(vocab);
    for (std::uint32_t i = 0; i < std::min(from.listed, vocab); ++i)
        allowed.push_back(static_cast<std::int32_t>(std::uint64_t{i} * kListedStride % vocab));
}

BenchSequence::BenchSequence(std::uint32_t vocab, std::uint32_t max_history)
    : vocab_(vocab),
      max_length_(max_history + kRoom),
      state_(std::make_unique<sampler::SequenceState>(vocab, max_length_)),
      lists_(kMostNamed),
      names_(lists_, 1) {}

void BenchSequence::begin(const CaseRequest& what, std::span<const std::int32_t> history) {
    what_ = &what;
    history_ = history;
    feedback_ = {};
    state_->begin(what.params, what.dry_breakers);
    state_->follow(prompt(), output().first(output().size() - 1));
}

sampler::Request BenchSequence::request(std::uint32_t draw) const {
    sampler::Request request;
    request.params = &what_->params;
    request.max_length = max_length_;
    request.prompt = prompt();
    request.output = output();
    request.mask = what_->mask;
    request.bias = what_->bias;
    request.allowed_ids = what_->allowed;
    request.stop_ids = what_->stop_ids;
    request.bad_words = what_->bad_words;
    request.dry_breakers = what_->dry_breakers;
    request.feedback = feedback_;
    request.position_shift = draw;
    request.random =
        proto::random_at(what_->params.seed, sampler::random_position(request), what_->params.child, 0);
    if (what_->prepared) request.prepared = {race_, ln_first_arrivals_};
    return request;
}

void BenchSequence::prepare(std::uint32_t draw) {
    if (!what_->prepared) return;
    race_ = sampler::race_key(what_->params, request(draw));
    ln_first_arrivals_.resize(proto::blocks_of(vocab_));
    sampler::make_first_arrivals(race_, ln_first_arrivals_);
}

gpu_writer::LeanWant BenchSequence::want(std::uint32_t draw) {
    const request::Plan plan = sampler::plan_of(what_->params, request(draw), vocab_);
    names_.begin();
    request::LeanWant want =
        names_.want_of(0, plan, what_->params, {0, 0, what_->allowed, what_->bias}, proto::kUsualLeanBlocks);
    if (!what_->mask.empty()) request::put_under_mask(want, plan, what_->params, 1);
    return want;
}

proto::Decision BenchSequence::decide(const sampler::RowView& row, std::uint32_t draw,
                                      sampler::Workspace& workspace) {
    const sampler::Request request = this->request(draw);
    const auto decision = sampler::decide(row, request, *state_, workspace);
    if (decision.error != proto::DecisionError::none) {
        throw std::runtime_error("case " + what_->name + " has no decision: error " +
                                 std::to_string(static_cast<int>(decision.error)));
    }
    if (workspace.answer().missing.empty()) feedback_ = workspace.answer().feedback;
    return decision;
}

}  // namespace croupier::bench
