// One decision with everything that led to its token, ready for display.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/case.h"
#include "explain/decider.h"
#include "explain/token_texts.h"
#include "explain/values.h"
#include "text/sequence_text.h"

namespace croupier::explain {

struct TokenShare {
    std::int32_t token;
    std::string text;  // quoted and safe to display; empty if the token has no text
    double before;     // its probability in the original row
    double after;      // in the distribution of the draw
    bool drawn;
    // Input of penalties and biases.
    std::size_t in_prompt;
    std::size_t in_output;
    float bias;
};

struct FastDecision {
    std::string path;
    std::int32_t token;
    std::uint16_t flags;
};

struct Explained {
    std::uint32_t vocab = 0;
    std::string dtype;
    std::uint64_t seed = 0;
    std::uint32_t position = 0;
    std::string text;     // text of the token, as in TokenShare
    std::string history;  // text of the last tokens before it; empty if they have no text
    std::string note;     // a note for the page; may be empty
    // Of the request, quoted and safe to display; and what of them the token completes, if its text is
    // known.
    std::vector<std::string> stop_strings;
    bool stop_at_json = false;
    std::optional<text::FoundStop> completed;
    std::optional<Decided> decided;  // the daemon's answer
    std::string chooser;             // how the token was chosen, as text
    Outcome outcome;                 // of the reference
    FastDecision fast;               // of the daemon's code for the same request
    std::vector<TokenShare> top;     // the most likely tokens and the drawn one
    std::vector<TokenShare> cut;     // the most likely tokens that filters and masks removed
    double others = 0.0;             // the probability of all tokens outside `top`
    std::vector<double> running;     // cumulative probabilities of the survivors, in canonical order

    const TokenShare& drawn() const;
    const sampler::RankedLogprob& drawn_logprob() const { return outcome.logprobs.front(); }
};

// Throws RequestError, also if the decision fails.
Explained explain_case(Case of, Decider& decider, const TokenTexts& texts = {});

// The result of the comparison with the daemon's answer; empty without one.
std::string agreement_in_words(const Explained& explained);
// "none", or the flags' names.
std::string flags_in_words(const Explained& explained);
// At what of its text the request stops, and whether the token completes it; empty without any.
std::string stops_in_words(const Explained& explained);
// How often the token occurs in the history, and its bias; empty for a token with neither.
std::string standing_in_words(const TokenShare& share);

OrderedJson to_json(const Explained& explained);

}  // namespace croupier::explain
