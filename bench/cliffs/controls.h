// The controls of random requests, and the random numbers that their values are drawn from.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "bench/cliffs/drawn_request.h"

namespace croupier::bench {

// The random numbers of one request.
class Draws {
  public:
    Draws(std::uint64_t seed, std::uint32_t number) : generator_((seed << 32U) + number) {}

    std::uint64_t next() { return generator_(); }
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }
    bool one_in(std::uint32_t odds) { return below(odds) == 0; }
    // From 0 to 1.
    double unit() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

    // Chooses whether the values that follow are at the low end of their ranges, at the high end, or between,
    // which is as likely as both ends together.
    void choose_place() { place_ = below(4); }
    double from(double low, double high);
    // Where between means evenly spread over the orders of magnitude.
    double scaled(double low, double high);
    std::uint32_t count(std::uint32_t low, std::uint32_t high);

    std::int32_t token(const RequestSpace& space);

  private:
    bool at_low() const { return place_ == 0; }
    bool at_high() const { return place_ == 1; }

    std::mt19937_64 generator_;
    std::uint32_t place_ = 2;
};

// What a control draws into.
struct Drawing {
    const RequestSpace& space;
    Draws& draws;
    DrawnRequest& drawn;
    std::int32_t kept;  // a token that no list or mask forbids, so that each request has a decision

    proto::SamplingParams& params() const { return drawn.request.params; }
};

// Of the controls that replace the draw a request has one, and one kind of log-probs.
enum class Excludes : std::uint8_t { none, draws, logprobs };

struct Control {
    const char* name;
    void (*draw)(const Drawing& drawing);
    Excludes excludes = Excludes::none;
};
std::span<const Control> all_controls();

}  // namespace croupier::bench
