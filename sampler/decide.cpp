#include "sampler/decide.h"

#include <limits>

#include "sampler/decider.h"
#include "sampler/lean_draw.h"
#include "sampler/request_check.h"
#include "sampler/stops.h"

namespace croupier::sampler {
namespace {

using proto::Decision;
using proto::DecisionError;
using proto::SamplingParams;

bool take_drawn(const RowView& view, const SamplingParams& params, const Request& request,
                const request::Plan& plan, Workspace& workspace, Decision& decision) {
    const auto token = drawn_token(view, plan, request);
    if (!token) return false;
    workspace.answer_space.path = DecisionPath::drawn;
    workspace.answer_space.blocks = (view.vocab + kBlock - 1) / kBlock;
    decision.token = static_cast<std::int32_t>(*token);
    decision.logprob = std::numeric_limits<float>::quiet_NaN();
    decision.flags = flags_of(params, request, decision.token);
    return true;
}

DecisionError decide_checked(const RowView& view, const SamplingParams& params, const Request& request,
                             SequenceState& state, Workspace& workspace, Decision& decision) {
    const request::Plan plan = plan_of(params, request, view.vocab);
    if (take_drawn(view, params, request, plan, workspace, decision)) return DecisionError::none;
    Decider decider(view, params, request, plan, state, workspace);
    const DecisionError row_fault = decider.scan();
    if (row_fault != DecisionError::none) return row_fault;
    const DecisionError fault = decider.choose();
    if (fault != DecisionError::none || decider.lacks_blocks()) return fault;
    decision.token = decider.token();
    decision.logprob = decider.logprob();
    decider.note_blocks_read();
    decision.flags = flags_of(params, request, decision.token);
    return DecisionError::none;
}

// Answers which blocks are missing. Nothing else that the decision found may be taken for an answer.
void answer_missing(Workspace& workspace, Decision& decision) {
    if (workspace.lean.asked == 0) return;
    const std::uint32_t position = decision.position;
    decision = {};
    decision.position = position;
    workspace.answer_space.missing = workspace.lean.missing;
}

}  // namespace

Decision decide(const RowView& view, const Request& request, SequenceState& state,
                Workspace& workspace) noexcept {
    // A copy: what was checked must be what is used, and the original lies in shared memory.
    const SamplingParams params = *request.params;
    workspace.answer_space = {};
    workspace.weighed = {};
    workspace.lean.asked = 0;
    workspace.answer_space.feedback = request.feedback;
    Decision decision;
    decision.position = static_cast<std::uint32_t>(request.output.size());
    decision.error = view.vocab == workspace.vocab ? request_fault(view, params, request, state)
                                                   : DecisionError::bad_record;
    if (decision.error == DecisionError::none) {
        decision.error = decide_checked(view, params, request, state, workspace, decision);
        answer_missing(workspace, decision);
    }
    return decision;
}

}  // namespace croupier::sampler
