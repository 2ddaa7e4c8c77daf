// What sums over a row's blocks share. Included once for each instruction set (Highway's foreach_target).
#if defined(CROUPIER_SAMPLER_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_ROW_SUMS_INL_H_
#undef CROUPIER_SAMPLER_ROW_SUMS_INL_H_
#else
#define CROUPIER_SAMPLER_ROW_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include "sampler/float_bounds.h"
#include "sampler/weights-inl.h"
#include "sampler/widen-inl.h"
#include "sampler/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kNone = -std::numeric_limits<float>::infinity();
// So many blocks are summed in float before a double takes them in.
constexpr std::uint32_t kFloatBlocks = 8;

// A float sum of a few blocks after the other, the groups in double. Two registers: an addition waits for the
// one before.
class GroupedSum {
  public:
    HWY_ATTR GroupedSum() : low_(hn::Zero(SumLanes())), high_(hn::Zero(SumLanes())) {}

    HWY_INLINE void add(V low, V high) {
        low_ = hn::Add(low_, low);
        high_ = hn::Add(high_, high);
    }
    HWY_INLINE void add_product(V low, V high, V low_factor, V high_factor) {
        low_ = hn::MulAdd(low, low_factor, low_);
        high_ = hn::MulAdd(high, high_factor, high_);
    }
    HWY_INLINE void end_block() {
        if (++blocks_ % kFloatBlocks == 0) take_in();
    }
    HWY_INLINE double total() {
        take_in();
        return total_;
    }

  private:
    HWY_INLINE void take_in() {
        total_ += static_cast<double>(hn::GetLane(hn::SumOfLanes(SumLanes(), hn::Add(low_, high_))));
        low_ = hn::Zero(SumLanes());
        high_ = hn::Zero(SumLanes());
    }

    V low_;
    V high_;
    std::uint32_t blocks_ = 0;
    double total_ = 0.0;
};

// The values of a row from which on a token stands before a place in canonical order: in the blocks before
// the place's own, in those after it, and in its own, where it depends on the member.
struct PlaceFloors {
    float as_large;
    float larger;
    std::uint32_t block;
    std::uint32_t member;

    explicit PlaceFloors(const Candidate& place)
        : as_large(float_above(place.value)),
          larger(static_cast<double>(as_large) > place.value
                     ? as_large
                     : std::nextafter(as_large, std::numeric_limits<float>::infinity())),
          block(place.token / kBlock),
          member(place.token % kBlock) {}

    float of_block(std::uint32_t other) const { return other <= block ? as_large : larger; }
    // Of the members of the own block that stand after the place, one that no value reaches.
    void hide_equal(float* values) const {
        for (std::uint32_t i = member; i < kBlock; ++i) {
            if (!(values[i] >= larger)) values[i] = kNone;
        }
    }
};

// Every token that is above -inf stands before it.
inline PlaceFloors BehindAll() {
    return PlaceFloors({static_cast<double>(std::numeric_limits<float>::lowest()), 0xFFFFFFFFU});
}

// Shows all values of a bf16 block, in no particular order, from where they lie.
template <class Visit>
HWY_INLINE void EachOfBf16(const std::byte* HWY_RESTRICT block, Visit visit) {
#if HWY_TARGET == HWY_SCALAR
    for (std::size_t i = 0; i < kBlock; i += 2) visit(Bf16::widen(block, i), Bf16::widen(block, i + 1));
#else
    const SumLanes d;
    const hn::RebindToUnsigned<SumLanes> words;
    const std::size_t lanes = hn::Lanes(d);
    const auto upper = hn::Set(words, 0xFFFF0000U);
    for (std::size_t i = 0; i < kBlock / 2; i += lanes) {
        const auto pairs = hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(block) + i);
        visit(hn::BitCast(d, hn::ShiftLeft<16>(pairs)), hn::BitCast(d, hn::And(pairs, upper)));
    }
#endif
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
