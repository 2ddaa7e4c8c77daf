// Compiled once for each instruction set and chosen at run time; every one of them gives the same bits,
// because the lanes of docs/decisions/0002 are eight whatever the width of a register.
#include "sampler/blocks.h"

#include <cstddef>
#include <limits>

#include "sampler/workspace.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

constexpr std::size_t kLanes = 8;
using Lanes = hn::CappedTag<double, kLanes>;

double BlockMaxima(const double* HWY_RESTRICT values, std::size_t blocks, double* HWY_RESTRICT block_max) {
    const Lanes d;
    const std::size_t width = hn::Lanes(d);
    double result = -std::numeric_limits<double>::infinity();
    for (std::size_t block = 0; block < blocks; ++block, values += kBlock) {
        auto best = hn::LoadU(d, values);
        for (std::size_t i = width; i < kBlock; i += width) best = hn::Max(best, hn::LoadU(d, values + i));
        block_max[block] = hn::GetLane(hn::MaxOfLanes(d, best));
        result = block_max[block] > result ? block_max[block] : result;
    }
    return result;
}

double WidenBlocks(const float* HWY_RESTRICT row, std::size_t blocks, double* HWY_RESTRICT values,
                   double* HWY_RESTRICT block_max) {
    const Lanes d;
    const hn::Rebind<float, Lanes> narrow;
    const std::size_t width = hn::Lanes(d);
    double result = -std::numeric_limits<double>::infinity();
    for (std::size_t block = 0; block < blocks; ++block, row += kBlock, values += kBlock) {
        auto best = hn::Set(d, -std::numeric_limits<double>::infinity());
        for (std::size_t i = 0; i < kBlock; i += width) {
            const auto wide = hn::PromoteTo(d, hn::LoadU(narrow, row + i));
            hn::StoreU(wide, d, values + i);
            best = hn::Max(best, wide);
        }
        block_max[block] = hn::GetLane(hn::MaxOfLanes(d, best));
        result = block_max[block] > result ? block_max[block] : result;
    }
    return result;
}

double BlockMasses(const double* HWY_RESTRICT values, std::size_t blocks, double maximum, double scale,
                   double* HWY_RESTRICT block_mass) {
    const Lanes d;
    const std::size_t width = hn::Lanes(d);
    const auto top = hn::Set(d, maximum);
    const auto times = hn::Set(d, scale);
    HWY_ALIGN double lanes[kLanes];
    double total = 0.0;
    for (std::size_t block = 0; block < blocks; ++block, values += kBlock) {
        for (std::size_t lane = 0; lane < kLanes; lane += width) {
            auto sum = hn::Zero(d);
            for (std::size_t i = lane; i < kBlock; i += kLanes) {
                const auto exponent = hn::Mul(hn::Sub(hn::LoadU(d, values + i), top), times);
                sum = hn::Add(sum, exp_nonpositive_vector(d, exponent));
            }
            hn::Store(sum, d, lanes + lane);
        }
        double mass = lanes[0];
        for (std::size_t lane = 1; lane < kLanes; ++lane) mass += lanes[lane];
        block_mass[block] = mass;
        total += mass;
    }
    return total;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(BlockMaxima);
HWY_EXPORT(WidenBlocks);
HWY_EXPORT(BlockMasses);

double find_block_maxima(std::span<const double> values, std::span<double> block_max) {
    return HWY_DYNAMIC_DISPATCH(BlockMaxima)(values.data(), block_max.size(), block_max.data());
}

double widen_blocks(std::span<const float> row, std::span<double> values, std::span<double> block_max) {
    return HWY_DYNAMIC_DISPATCH(WidenBlocks)(row.data(), block_max.size(), values.data(), block_max.data());
}

double sum_block_masses(std::span<const double> values, const Weigher& weigh, std::span<double> block_mass) {
    return HWY_DYNAMIC_DISPATCH(BlockMasses)(values.data(), block_mass.size(), weigh.maximum, weigh.scale,
                                             block_mass.data());
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
#endif  // HWY_ONCE
