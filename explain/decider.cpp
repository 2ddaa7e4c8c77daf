#include "explain/decider.h"

#include "sampler/decide.h"
#include "sampler/sequence_state.h"

namespace croupier::explain {

// The workspace of a vocabulary and the state of a sequence, reused between requests as in the daemon.
struct Decider::Fast {
    Fast(std::uint32_t of_vocab, std::uint32_t of_length)
        : max_length(of_length), workspace(of_vocab), state(of_vocab, of_length) {}

    const std::uint32_t max_length;
    sampler::Workspace workspace;
    sampler::SequenceState state;
};

Decider::Decider() = default;
Decider::~Decider() = default;

Outcome Decider::decide(const sampler::RowView& row, const sampler::Request& request, Impl impl) {
    if (impl == Impl::reference) return {sampler::reference::decide(row, request), ""};
    if (!fast_ || fast_->workspace.vocab != row.vocab || fast_->max_length != request.max_length) {
        fast_ = std::make_unique<Fast>(row.vocab, request.max_length);
    }
    fast_->state.begin(*request.params, request.dry_breakers);
    Outcome outcome;
    outcome.decision = sampler::decide(row, request, fast_->state, fast_->workspace);
    const sampler::Answer& answer = fast_->workspace.answer();
    outcome.feedback = answer.feedback;
    outcome.support.assign(answer.support.begin(), answer.support.end());
    outcome.logprobs.assign(answer.logprobs.begin(), answer.logprobs.end());
    outcome.path = request::name_of(answer.path);
    return outcome;
}

}  // namespace croupier::explain
