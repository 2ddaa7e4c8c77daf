#include "in_process/decider.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/philox.h"

namespace croupier::in_process {
namespace {

bool same(std::span<const std::int32_t> one, const std::vector<std::int32_t>& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end());
}

// The history is the same whatever the seed, of which Python draws another for each position of a request
// that names none, and however many of the best are answered.
bool same_rules(proto::SamplingParams one, const proto::SamplingParams& other) {
    one.seed = other.seed;
    one.logprobs = other.logprobs;
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): another bit is enough to begin anew.
    return std::memcmp(&one, &other, sizeof(one)) == 0;
}

}  // namespace

void Decider::bring_state_to(const sampler::Request& request) {
    const bool goes_on = std::exchange(begun_, false) && same_rules(*request.params, params_) &&
                         same(request.dry_breakers, breakers_) && same(request.prompt, prompt_);
    if (!goes_on) {
        state_.begin(*request.params, request.dry_breakers);
        params_ = *request.params;
        breakers_.assign(request.dry_breakers.begin(), request.dry_breakers.end());
        prompt_.assign(request.prompt.begin(), request.prompt.end());
        output_.clear();
    }
    const auto differs =
        std::mismatch(output_.begin(), output_.end(), request.output.begin(), request.output.end()).first;
    const std::size_t kept = prompt_.size() + static_cast<std::size_t>(differs - output_.begin());
    if (kept < state_.length()) state_.truncate(kept);
    output_.assign(request.output.begin(), request.output.end());
    begun_ = true;
}

proto::Decision Decider::decide(const void* logits, proto::Dtype dtype, sampler::Request request) {
    bring_state_to(request);
    const proto::SamplingParams& params = *request.params;
    request.max_length = max_length_;
    request.random = proto::random_at(params.seed, sampler::random_position(request), params.child, 0);
    // The sampler reads whole blocks, and the caller's row ends where it ends: its last block is a copy.
    const std::size_t element = proto::element_bytes(dtype);
    const std::uint32_t whole = vocab() / sampler::kBlock * sampler::kBlock;
    const std::uint32_t rest = vocab() - whole;
    const auto* bytes = static_cast<const std::byte*>(logits);
    std::memcpy(last_block_.data(), bytes + whole * element, rest * element);
    const std::array<sampler::Slice, 2> slices = {
        sampler::Slice{.elements = logits, .entries = whole, .first_id = 0},
        sampler::Slice{.elements = last_block_.data(), .entries = rest, .first_id = whole}};
    sampler::RowView view{.dtype = dtype, .vocab = vocab(), .tile = sampler::kBlock, .slices = slices};
    if (rest == 0) view.slices = view.slices.first(1);
    if (whole == 0) view.slices = view.slices.last(1);
    return sampler::decide(view, request, state_, workspace_);
}

}  // namespace croupier::in_process
