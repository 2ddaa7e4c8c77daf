// The steps of docs/semantics.md up to the draw, one function a step. Each returns a sentence on what it did.
#pragma once

#include <sstream>
#include <string>

#include "sampler/reference/left.h"
#include "sampler/request.h"

namespace croupier::sampler::reference {

template <class... Parts>
std::string sentence(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

// Mask, lists of ids, min_tokens, biases (adjust.cpp). What they forbid is no longer left.
std::string apply_mask(const Request& request, Left& left);
std::string keep_allowed_ids(const Request& request, Left& left);
std::string ban_bad_words(const Request& request, Left& left);
std::string ban_stops_before_min_tokens(const Request& request, Left& left);
std::string add_logit_bias(const Request& request, Left& left);

// In penalties.cpp and dry.cpp.
std::string apply_penalties(const Request& request, Left& left);
std::string apply_dry(const Request& request, Left& left);

// The steps of an order (filters.cpp), each where the request's has it.
std::string take_step(proto::Step step, const Request& request, Left& left);

// The newest tokens of prompt and output together, oldest first.
std::vector<std::int32_t> newest_tokens(const Request& request, std::size_t count);

}  // namespace croupier::sampler::reference
