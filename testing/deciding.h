// One decision by the fast code, with a new state.
#pragma once

#include "sampler/decide.h"

namespace croupier::sampler::test {

inline proto::Decision decide_once(const RowView& row, const Request& request, Workspace& workspace) {
    SequenceState state(row.vocab,
                        static_cast<std::uint32_t>(request.prompt.size() + request.output.size()) + 1);
    state.begin(*request.params, request.dry_breakers);
    return decide(row, request, state, workspace);
}

}  // namespace croupier::sampler::test
