// Whether a hot set makes draws faster on this host: compares the sizing model's F(H) with draws without one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::tools {

struct HotSetQuestion {
    std::vector<std::string> rows;  // files of the model's logits; empty: nothing is measured
    std::string hot;                // the hotness order
    std::uint32_t vocab = 151936;
    double temperature = 0.8;
};

struct HotSetAnswer {
    bool measured = false;
    std::uint32_t size = 0;      // H*, by the model
    double expected_us = 0.0;    // F(H*)
    double own_choice_us = 0.0;  // `rng: shvs` without a hot set
    double race_us = 0.0;        // `rng: race`, the default

    // By at least 10 %: smaller differences are within the noise between two runs.
    bool is_faster_than(double us) const { return measured && expected_us < 0.9 * us; }
    bool pays_for_shvs() const { return is_faster_than(own_choice_us); }
    bool pays_for_race() const { return is_faster_than(race_us); }
};

// Throws std::runtime_error with what is wrong with the files.
HotSetAnswer ask_hot_set(const HotSetQuestion& question);

}  // namespace croupier::tools
