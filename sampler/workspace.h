// All memory that decisions over one vocabulary need, taken once: decide() allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace croupier::sampler {

// Sums and maxima are taken over blocks of this many consecutive positions of vocabulary order, the last
// one filled up with -inf. The size is part of the reduction order: docs/decisions/0002.
constexpr std::uint32_t kBlock = 64;

struct Candidate {
    double value;  // adjusted logit
    std::uint32_t token;
    std::uint32_t position;  // in vocabulary order
};

// Survivors with equal adjusted logits: `size` of them from `begin` on in canonical order.
struct EqualClass {
    double weight;
    std::uint32_t begin;
    std::uint32_t size;
};

constexpr std::uint32_t kDigitBits = 11;
constexpr std::uint32_t kSortDigits = 8;  // 2 of the token id, 6 of the logit

class Workspace {
  private:
    struct Release {
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte[], Release> memory_;

  public:
    explicit Workspace(std::uint32_t vocab);
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    const std::uint32_t vocab;
    const std::uint32_t blocks;

    std::span<float> row;        // the raw row in vocabulary order, filled up to whole blocks
    std::span<double> adjusted;  // likewise
    std::span<double> block_max;
    std::span<double> block_mass;
    std::span<std::uint32_t> counts;     // a position's standing in the history; all zero between decisions
    std::span<std::uint32_t> touched;    // positions with a non-zero count
    std::span<std::uint32_t> positions;  // last known position of each token: checked at every use
    std::span<Candidate> candidates;
    std::span<Candidate> sort_buffer;
    std::span<EqualClass> classes;
    std::span<std::uint32_t> digit_counts;  // kSortDigits tables of 1 << kDigitBits
};

}  // namespace croupier::sampler
