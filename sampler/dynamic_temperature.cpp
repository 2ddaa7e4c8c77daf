#include "sampler/dynamic_temperature.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sampler/formulas.h"

namespace croupier::sampler {
namespace {

// A winner stands within 32 of the row's best in units of the temperature: no arrival's logarithm is below
// -28 (a block's first one at 2^-33 / 64), and the best one's own is below 4. A token that stands further
// below loses more by its distance than any other temperature gives back.
constexpr double kReach = 32.0;
// The effect of a float's rounding on a temperature and on a score: two quotients, two differences and the
// margin's own subtraction, at either temperature.
constexpr double kRounding = 0x1p-24;
constexpr double kRoundings = 12.0;
// What the formula's power and products round.
constexpr double kPower = 0x1p-40;
// Beyond it a race tells little.
constexpr double kWidest = 1e-3;
constexpr double kLargestScore = 1e30;

}  // namespace

std::optional<TemperatureInterval> dynamic_temperature_interval(const proto::SamplingParams& params,
                                                                const WinnerQuestion& row) {
    const WinnerQuestion::Interval entropy = row.entropy();
    if (!(row.tokens() >= 2.0) || !(entropy.high > 0.0)) return std::nullopt;
    const auto tokens = static_cast<std::uint64_t>(row.tokens());
    const double one = dynamic_temperature(params, std::max(0.0, entropy.low), tokens);
    const double other = dynamic_temperature(params, entropy.high, tokens);
    const auto [low, high] = std::minmax(one, other);
    const double width = (high - low) / low + 4.0 * kRounding;
    const double largest = (std::abs(row.highest()) + std::abs(row.highest_changed())) / low + 2.0 * kReach;
    if (!(width <= kWidest) || !(largest < kLargestScore)) return std::nullopt;
    const double rounding = kRoundings * kRounding * largest;
    return TemperatureInterval{low * (1.0 - kPower), high * (1.0 + kPower),
                               static_cast<float>(kReach * width + rounding), static_cast<float>(rounding)};
}

}  // namespace croupier::sampler
