// Whether a hot set pays here: the sizing model's F(H), beside the race that needs none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::tools {

struct HotSetQuestion {
    std::vector<std::string> rows;  // of the model's logits; empty: nothing can be measured
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

    // By a tenth at least: less is what two runs differ by.
    bool pays_beside(double us) const { return measured && expected_us < 0.9 * us; }
    bool pays_for_shvs() const { return pays_beside(own_choice_us); }
    bool pays_for_race() const { return pays_beside(race_us); }
};

// Throws std::runtime_error with what is wrong with the files.
HotSetAnswer ask_hot_set(const HotSetQuestion& question);

}  // namespace croupier::tools
