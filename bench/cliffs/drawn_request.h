// Random requests from the whole space of parameters: controls alone, in pairs and in mixtures, at both ends
// of their ranges and between.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/decide/bench_sequence.h"
#include "proto/dtype.h"

namespace croupier::bench {

struct DrawnRequest {
    std::uint32_t number = 0;
    std::vector<std::string> controls;  // which were drawn; empty: a temperature alone
    CaseRequest request;
    std::uint32_t history = 0;
    bool repeats = false;  // the history repeats one passage
    proto::Dtype dtype = proto::Dtype::bf16;
};

// What requests are drawn for.
struct RequestSpace {
    std::uint64_t seed = 1;
    std::uint32_t vocab = 0;
    std::uint32_t longest_history = 100'000;
    bool lean = false;                     // only what a session of the transport lean admits
    std::span<const std::int32_t> likely;  // tokens, of which lists of ids have some
};

// A function of the space and the number: a request is the same whichever others are drawn.
DrawnRequest drawn_request(const RequestSpace& space, std::uint32_t number);

// The names that DrawnRequest::controls may have.
std::vector<std::string> control_names();

// Controls and their values, temperature, history and dtype in one line.
std::string describe(const DrawnRequest& drawn);

}  // namespace croupier::bench
