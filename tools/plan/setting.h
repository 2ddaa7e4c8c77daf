// The workload of an engine, as `croupier plan` plans for it and `croupier sim` simulates it.
#pragma once

#include <cstdint>
#include <string>

namespace croupier::tools {

// Settings that differ in any of these are never compared or fitted together.
struct Requests {
    std::string mix = "mixed";  // a name of `croupier sim --mix`
    std::string dtype = "bf16";
    std::string transport = "rows";
    bool summaries = false;
    std::string wait = "adaptive";

    bool operator==(const Requests&) const = default;
    std::string text() const;  // "mix mixed, bf16 rows, wait adaptive"
    std::string options()
        const;  // for `croupier plan measure`: "--mix mixed" and all values that are not defaults
};

struct Setting {
    Requests requests;
    std::uint32_t vocab = 151936;
    std::uint32_t batch = 64;
    std::uint32_t tp = 1;
    double stage_ms = 20.0;
};

}  // namespace croupier::tools
