// What all processes of a run share. Created before the first fork; only the ledger changes afterwards.
#pragma once

#include <string>

#include "sim/ledger.h"
#include "sim/mask_pool.h"
#include "sim/options.h"
#include "sim/request_plan.h"
#include "sim/row_source.h"
#include "sim/vocabulary.h"
#include "testing/text_reference.h"

namespace croupier::sim {

struct World {
    explicit World(const SimOptions& asked)
        : options(asked),
          plan(asked),
          vocabulary(make_vocabulary(asked, plan)),
          rows(asked, vocabulary),
          masks(asked.seed, asked.vocab),
          pieces(asked.stops ? text_pieces(tokens_of(asked.vocab)) : testing::Pieces()),
          ledger(plan) {}
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    // The token before `position`; the row depends on it.
    std::int32_t previous_token(const Request& request, std::uint32_t position) const {
        if (position > 0) return ledger.entry(request.index, position - 1).token;
        return plan.prompt_token(request.index, request.prompt_length - 1);
    }

    // As models do, it has more ids than tokens.
    static std::uint32_t tokens_of(std::uint32_t vocab) { return vocab - vocab / 50; }

    SimOptions options;
    RequestPlan plan;
    Vocabulary vocabulary;
    RowSource rows;
    MaskPool masks;
    testing::Pieces pieces;  // of the tokenizer; empty: the session has none
    Ledger ledger;
    std::string tokenizer_path;
    std::string endpoint;  // of the daemon's control socket
    std::string session_name;
};

}  // namespace croupier::sim
