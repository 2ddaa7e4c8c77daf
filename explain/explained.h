// Why this token: one decision with all that led to it, ready to be shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/case.h"
#include "explain/decider.h"
#include "explain/token_texts.h"
#include "explain/values.h"

namespace croupier::explain {

struct TokenShare {
    std::int32_t token;
    std::string text;  // in quotes, as it may be shown anywhere; empty: the token has none
    double before;     // its probability in the row as it came
    double after;      // in the distribution that was drawn from
    bool drawn;
    // What penalties and biases go by.
    std::size_t in_prompt;
    std::size_t in_output;
    float bias;
};

struct FastWay {
    std::string path;
    std::int32_t token;
    std::uint16_t flags;
};

struct Explained {
    std::uint32_t vocab = 0;
    std::string dtype;
    std::uint64_t seed = 0;
    std::uint32_t position = 0;
    std::string text;                // of the token, as a share's
    std::string history;             // the last tokens before it, as they may be shown; empty: of no text
    std::string note;                // for who reads the page; empty: none
    std::optional<Decided> decided;  // what the daemon answered
    std::string chooser;             // what chose, in words
    Outcome outcome;                 // the reference's
    FastWay fast;                    // what the daemon's code does with the same request
    std::vector<TokenShare> top;     // the likeliest, the drawn token always among them
    std::vector<TokenShare> cut;     // the likeliest of the row that filters and masks left out
    double others = 0.0;             // the probability of all that `top` leaves out
    std::vector<double> running;     // the running probability at each survivor's end, in canonical order

    const TokenShare& drawn() const;
    const sampler::RankedLogprob& drawn_logprob() const { return outcome.logprobs.front(); }
};

// Throws RequestError, also with the decision's own error.
Explained explain_case(Case of, Decider& decider, const TokenTexts& texts = {});

// "" or what came of the comparison with what the daemon answered.
std::string agreement_in_words(const Explained& explained);
// "none", or the flags' names.
std::string flags_in_words(const Explained& explained);
// Where the token stands in the history, and its bias; empty for a token with neither.
std::string standing_in_words(const TokenShare& share);

OrderedJson to_json(const Explained& explained);

}  // namespace croupier::explain
