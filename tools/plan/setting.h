// What an engine asks of its samplers, as `croupier plan` plans it and `croupier sim` imitates it.
#pragma once

#include <cstdint>
#include <string>

#include "proto/sampling.h"

namespace croupier::tools {

// Times of two settings that differ in any of these have nothing to do with each other.
struct Requests {
    std::string mix = "mixed";  // by the name that `croupier sim --mix` knows it by
    std::string dtype = "bf16";
    std::string transport = "rows";
    bool summaries = false;
    std::string wait = "adaptive";

    bool operator==(const Requests&) const = default;
    std::string text() const;     // "mix mixed, bf16 rows, wait adaptive"
    std::string options() const;  // of `croupier plan measure`: "--mix mixed", and what is not usual
};

struct Setting {
    Requests requests;
    std::uint32_t vocab = 151936;
    std::uint32_t batch = 64;
    std::uint32_t tp = 1;
    double stage_ms = 20.0;
};

}  // namespace croupier::tools
