// When a session's next logits are likely to come, by the steps before: an engine's steps take about as long
// as each other. Who sleeps then is late by its wakening, tens of microseconds of every token.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace croupier::shm {

class LogitsForecast {
  public:
    // Engines that idle between steps are not worth a spinning core.
    static constexpr std::uint64_t kLongestSpunNs = 200'000'000;

    LogitsForecast() = default;
    // Steps that took `longest_ns` or more are not noted.
    explicit LogitsForecast(std::uint64_t longest_ns) : longest_ns_(longest_ns) {}

    // All logits of the step were there then. A step before the last one, or the same, changes nothing.
    void note(std::uint64_t step, std::uint64_t ready_ns);

    // Whether a step may come at any moment now.
    bool due(std::uint64_t now_ns) const;
    // How long until it may; 0: it is due, or nothing is known, or it did not come.
    std::uint64_t until_due(std::uint64_t now_ns) const;
    // Where a moment lies between the times after which steps came before: how long until the next of these,
    // and since the last one. kNone: there is none.
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    struct Around {
        std::uint64_t until = kNone;
        std::uint64_t since = kNone;
    };
    Around around(std::uint64_t now_ns) const;

  private:
    std::span<const std::uint64_t> known() const {
        return std::span(passed_).first(std::min(known_, passed_.size()));
    }

    std::uint64_t longest_ns_ = kLongestSpunNs;
    std::uint64_t step_ = 0;
    std::uint64_t ready_ns_ = 0;             // 0: no step was seen
    std::array<std::uint64_t, 8> passed_{};  // from step to step, the last ones
    std::size_t known_ = 0;
};

}  // namespace croupier::shm
