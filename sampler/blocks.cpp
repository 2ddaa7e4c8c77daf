#include "sampler/blocks.h"

#include <cstddef>
#include <limits>

#include "sampler/workspace.h"

namespace croupier::sampler {
namespace {

constexpr std::uint32_t kLanes = 8;

double block_maximum(const double* values) {
    double lanes[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = values[lane];
    for (std::uint32_t i = kLanes; i < kBlock; i += kLanes) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
            const double value = values[i + lane];
            lanes[lane] = value > lanes[lane] ? value : lanes[lane];
        }
    }
    double result = lanes[0];
    for (const double lane : lanes) result = lane > result ? lane : result;
    return result;
}

double block_sum(const double* values, Weigher weigh) {
    double weights[kBlock];
    for (std::uint32_t i = 0; i < kBlock; ++i) weights[i] = weigh(values[i]);
    double lanes[kLanes] = {};
    for (std::uint32_t i = 0; i < kBlock; i += kLanes) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
    }
    double sum = lanes[0];
    for (std::uint32_t lane = 1; lane < kLanes; ++lane) sum += lanes[lane];
    return sum;
}

}  // namespace

double find_block_maxima(std::span<const double> values, std::span<double> block_max) {
    double result = -std::numeric_limits<double>::infinity();
    for (std::size_t block = 0; block < block_max.size(); ++block) {
        block_max[block] = block_maximum(values.data() + block * kBlock);
        result = block_max[block] > result ? block_max[block] : result;
    }
    return result;
}

double sum_block_masses(std::span<const double> values, const Weigher& weigh, std::span<double> block_mass) {
    double sum = 0.0;
    for (std::size_t block = 0; block < block_mass.size(); ++block) {
        block_mass[block] = block_sum(values.data() + block * kBlock, weigh);
        sum += block_mass[block];
    }
    return sum;
}

std::uint32_t find_mass(std::span<const double> values, const Weigher& weigh,
                        std::span<const double> block_mass, double target) {
    double before = 0.0;
    std::uint32_t block = 0;
    while (block + 1 < block_mass.size() && before + block_mass[block] <= target) {
        before += block_mass[block];
        ++block;
    }
    // Within the block the mass runs sequentially, not by lanes, and may end a few roundings short of the
    // target that the block's sum passes: its last token of any weight is then the one.
    std::uint32_t last = block * kBlock;
    for (std::uint32_t position = block * kBlock; position < (block + 1) * kBlock; ++position) {
        const double weight = weigh(values[position]);
        before += weight;
        if (weight > 0.0) last = position;
        if (before > target) break;
    }
    return last;
}

}  // namespace croupier::sampler
