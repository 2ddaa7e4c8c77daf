// The arrivals of proto/race.h for registers full of tokens: operation for operation the same, so bit for bit
// the same. Included once for each instruction set (Highway's foreach_target).
#if defined(CROUPIER_SAMPLER_RACE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_RACE_INL_H_
#undef CROUPIER_SAMPLER_RACE_INL_H_
#else
#define CROUPIER_SAMPLER_RACE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "proto/race.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Not on the scalar target, which has proto/race.h itself.
#if HWY_TARGET != HWY_SCALAR

using RaceFloats = hn::CappedTag<float, 16>;
using RaceWords = hn::RebindToUnsigned<RaceFloats>;
using RaceCounters = hn::RepartitionToWide<RaceWords>;
using FloatVector = hn::Vec<RaceFloats>;
using WordVector = hn::Vec<RaceWords>;
using CounterVector = hn::Vec<RaceCounters>;

// The four words of as many counters as there are 64-bit lanes. Of each lane the upper half is rubbish, as it
// may be all the way: a product takes the lower halves only.
struct FourWords {
    CounterVector word[4];
};

// What all counters of a stream share.
struct Rounds {
    CounterVector position;
    CounterVector child;
    CounterVector stream;
    CounterVector key0[proto::kPhiloxRounds];
    CounterVector key1[proto::kPhiloxRounds];

    HWY_INLINE Rounds(const proto::race::Key& key, std::uint32_t of_stream) {
        const RaceCounters d;
        position = hn::Set(d, std::uint64_t{key.position});
        child = hn::Set(d, std::uint64_t{key.child});
        stream = hn::Set(d, std::uint64_t{of_stream});
        auto low = static_cast<std::uint32_t>(key.seed);
        auto high = static_cast<std::uint32_t>(key.seed >> 32U);
        for (int round = 0; round < proto::kPhiloxRounds; ++round) {
            key0[round] = hn::Set(d, std::uint64_t{low});
            key1[round] = hn::Set(d, std::uint64_t{high});
            low += proto::kPhiloxWeyl0;
            high += proto::kPhiloxWeyl1;
        }
    }
};

HWY_INLINE FourWords Philox(const Rounds& rounds, CounterVector n) {
    const RaceCounters d;
    const RaceWords dw;
    const auto product = [dw, d](CounterVector a, std::uint64_t b) HWY_ATTR {
        return hn::MulEven(hn::BitCast(dw, a), hn::BitCast(dw, hn::Set(d, b)));
    };
    auto c0 = rounds.position;
    auto c1 = rounds.child;
    auto c2 = rounds.stream;
    auto c3 = n;
    for (int round = 0; round < proto::kPhiloxRounds; ++round) {
        const auto product0 = product(c0, proto::kPhiloxMultiplier0);
        const auto product1 = product(c2, proto::kPhiloxMultiplier1);
        c0 = hn::Xor(hn::Xor(c1, rounds.key0[round]), hn::ShiftRight<32>(product1));
        c1 = product1;
        c2 = hn::Xor(hn::Xor(c3, rounds.key1[round]), hn::ShiftRight<32>(product0));
        c3 = product0;
    }
    return {{c0, c1, c2, c3}};
}

// Words of a stream one after the other, from 4 * counter on: two registers full.
struct WordRun {
    WordVector low;
    WordVector high;
};

// Which of a run's counters each 64-bit lane makes, so that interleaving within 128 bits, which is all that
// registers offer cheaply, puts their words in order.
HWY_INLINE CounterVector RunCounters(std::uint32_t first) {
    const RaceCounters d;
    HWY_ALIGN std::uint64_t lanes[hn::MaxLanes(RaceCounters())];
    const std::size_t count = hn::Lanes(d);
    for (std::size_t lane = 0; lane < count; ++lane) lanes[lane] = lane / 2 + lane % 2 * (count / 2);
    return hn::Add(hn::Load(d, lanes), hn::Set(d, std::uint64_t{first}));
}

HWY_INLINE WordRun RunOfWords(const Rounds& rounds, CounterVector counters) {
    const RaceCounters d;
    const RaceWords dw;
    const FourWords words = Philox(rounds, counters);
    const auto lower_halves = hn::Set(d, std::uint64_t{0xFFFFFFFFU});
    const auto pair = [&](CounterVector first, CounterVector second) HWY_ATTR {
        return hn::Or(hn::And(first, lower_halves), hn::ShiftLeft<32>(second));
    };
    const auto front = pair(words.word[0], words.word[1]);
    const auto back = pair(words.word[2], words.word[3]);
    return {hn::BitCast(dw, hn::InterleaveLower(d, front, back)),
            hn::BitCast(dw, hn::InterleaveUpper(d, front, back))};
}

HWY_INLINE FloatVector RaceLn(FloatVector y) {
    namespace k = proto::race::constants;
    const RaceFloats d;
    const hn::RebindToSigned<RaceFloats> di;
    const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
    const auto ci = [di](std::uint32_t value)
                        HWY_ATTR { return hn::Set(di, static_cast<std::int32_t>(value)); };
    const auto shifted = hn::Add(hn::BitCast(di, y), ci(k::kOneBits - k::kSqrtHalfBits));
    const auto exponent = hn::ConvertTo(d, hn::Sub(hn::ShiftRight<23>(shifted), ci(127)));
    const auto mantissa = hn::Add(hn::And(shifted, ci(k::kMantissaBits)), ci(k::kSqrtHalfBits));
    const auto f = hn::Sub(hn::BitCast(d, mantissa), c(1.0F));
    const auto f2 = hn::Mul(f, f);
    const auto pair = [&](std::size_t i)
                          HWY_ATTR { return hn::Add(c(k::kP[i]), hn::Mul(c(k::kP[i + 1]), f)); };
    const auto low = hn::Add(pair(0), hn::Mul(pair(2), f2));
    const auto high = hn::Add(pair(4), hn::Mul(pair(6), f2));
    const auto p = hn::Add(low, hn::Mul(high, hn::Mul(f2, f2)));
    const auto tail = hn::Add(hn::Mul(hn::Mul(p, f), f2), hn::Mul(exponent, c(k::kLn2Low)));
    const auto rest = hn::Add(f, hn::Sub(tail, hn::Mul(f2, c(0.5F))));
    return hn::Add(hn::Mul(exponent, c(k::kLn2High)), rest);
}

HWY_INLINE FloatVector RaceExponential(WordVector r) {
    const RaceFloats d;
    const hn::RebindToSigned<RaceFloats> di;
    const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
    const auto word = hn::BitCast(di, r);
    const auto high_bits = hn::BroadcastSignBit(word);
    const auto low = hn::MaskFromVec(hn::BitCast(d, hn::Not(high_bits)));
    const auto nearer = hn::ConvertTo(d, hn::Xor(word, high_bits));
    const auto q = hn::Mul(hn::Add(nearer, c(0.5F)), c(proto::race::constants::kUnit));
    const auto complement = hn::Sub(c(1.0F), q);
    const auto lost = hn::IfThenElseZero(low, hn::Sub(q, hn::Sub(c(1.0F), complement)));
    return hn::Sub(lost, RaceLn(hn::IfThenElse(low, complement, q)));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
