// The plan of a request: by which path its decision is reached and what that reads of a row, told from the
// parameters before the row is looked at. Writers send by it and samplers decide by it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/race.h"
#include "proto/sampling.h"
#include "request/draw.h"
#include "request/steps.h"

namespace croupier::request {

// How a decision is reached: what is read, and what proves that the rest cannot matter.
enum class DecisionPath : std::uint8_t {
    none,
    drawn,      // the row was drawn where it is, and nothing is read
    listed,     // only the tokens that the request allows by id
    head,       // the best blocks, down to a threshold: all others are certified to lie below it
    race,       // all tokens run; blocks are opened best bound first until none can beat the winner
    asked,      // the same, and the winner is asked whether the request's one filter keeps it
    mirostat,   // the best tokens, as many as it keeps of all
    proposals,  // rng shvs: by bounds, until a token was accepted
    classes,    // every token was counted by its value
    count_
};
const char* name_of(DecisionPath path) noexcept;

// What a plan follows from, beside the parameters.
struct Setting {
    Rules rules;
    bool answers_all_left =
        false;                   // every token that is left is answered, however few the parameters ask for
    std::uint32_t position = 0;  // the token's index in prompt and output: where its randoms stand
    std::uint32_t vocab = 0;
};

struct Plan {
    // Where it leaves a question open, the classes answer.
    DecisionPath path = DecisionPath::classes;
    Rules rules;
    proto::race::Key key;      // of the race that draws
    float temperature = 0.0F;  // at which it is run; 0: greedy
    FirstCut cut;              // what stands before the first filter, and what that one lets through
    // The filter that is not applied again to what the search lets through: a top-n sigma before what cuts,
    // or a top-p that is told from what the row weighs.
    Step applied = Step::end;
    // The filter that a winner is asked about; or the temperature, where it follows from the entropy.
    Step asked = Step::end;
    bool adjusts_first = true;     // every penalty stands before every filter: a token has one value
    bool adjusts_last = false;     // those that do not stand there stand behind every filter
    bool changes_logits = false;   // penalties, DRY or rules do
    bool gives_up = false;         // the search ends where more tokens pass than a list is good for
    bool answers_left = false;     // the answer has the tokens that are left, with their shares
    bool sums_processed = false;   // the processed log-prob is told by what the whole row weighs
    bool draws_plainly = false;    // the token is the row's winner as it stands, and nothing else is answered
    bool perturbs_logits = false;  // the draw is that of another engine

    bool operator==(const Plan&) const = default;

    // Of a nucleus that is listed for what comes behind it.
    bool lists_nucleus() const { return path == DecisionPath::head && applied == Step::top_p; }
    // Of a row of which blocks are there, some of them suffice; other paths ask for all, or are quick anyway.
    bool reads_some_blocks() const {
        return path == DecisionPath::head || path == DecisionPath::race || path == DecisionPath::asked ||
               path == DecisionPath::mirostat;
    }
    // A race among all tokens will draw: its first arrivals may be made before the row is there.
    bool awaits_race() const {
        const bool races =
            path == DecisionPath::race || path == DecisionPath::asked || path == DecisionPath::classes;
        return races && !perturbs_logits && temperature > 0.0F;
    }
};

Plan plan_of(const SamplingParams& params, const Setting& setting) noexcept;

}  // namespace croupier::request
