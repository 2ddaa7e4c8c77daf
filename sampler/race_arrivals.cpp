// Compiled once for each instruction set and chosen at run time.
#include "sampler/race_arrivals.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/race_arrivals.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/race-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace race = proto::race;

using race::Key;

#if HWY_TARGET == HWY_SCALAR

void MakeFirstArrivals(const Key& key, std::size_t blocks, float* ln_first) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const auto block = static_cast<std::uint32_t>(b);
        ln_first[b] = race::ln(race::first_arrival(race::word_of(key, race::kBlockStream, block)));
    }
}

void ArriveMembers(const Key& key, std::uint32_t block, float* ln_arrivals) {
    for (std::uint32_t i = 0; i < kBlock; ++i) {
        ln_arrivals[i] = race::ln(race::arrival(key, block * kBlock + i));
    }
}

void MakeArrivals(const Key& key, const std::uint32_t* tokens, std::size_t count, float* ln_arrivals) {
    for (std::size_t i = 0; i < count; ++i) ln_arrivals[i] = race::ln(race::arrival(key, tokens[i]));
}

#else

void MakeFirstArrivals(const Key& key, std::size_t blocks, float* HWY_RESTRICT ln_first) {
    const RaceFloats d;
    const std::size_t lanes = hn::Lanes(d);
    const Rounds rounds(key, race::kBlockStream);
    const auto rate = hn::Set(d, race::constants::kBlockRate);
    const auto counters_a_run = hn::Set(RaceCounters(), std::uint64_t{lanes / 2});
    auto counters = RunCounters(0);
    HWY_ALIGN float rest[2 * hn::MaxLanes(RaceFloats())];
    for (std::size_t b = 0; b < blocks; b += 2 * lanes) {
        const WordRun words = RunOfWords(rounds, counters);
        counters = hn::Add(counters, counters_a_run);
        const bool whole = b + 2 * lanes <= blocks;
        float* const to = whole ? ln_first + b : rest;
        hn::StoreU(RaceLn(hn::Mul(RaceExponential(words.low), rate)), d, to);
        hn::StoreU(RaceLn(hn::Mul(RaceExponential(words.high), rate)), d, to + lanes);
        if (!whole) std::copy_n(rest, blocks - b, ln_first + b);
    }
}

void ArriveMembers(const Key& key, std::uint32_t block, float* HWY_RESTRICT ln_arrivals) {
    const RaceFloats d;
    const std::size_t lanes = hn::Lanes(d);
    const Rounds rounds(key, race::kMemberStream);
    const float first = race::first_arrival(race::word_of(key, race::kBlockStream, block));
    const auto earliest = hn::Set(d, first);
    for (std::uint32_t i = 0; i < kBlock; i += static_cast<std::uint32_t>(2 * lanes)) {
        const WordRun words = RunOfWords(rounds, RunCounters((block * kBlock + i) / 4));
        hn::StoreU(RaceLn(hn::Add(earliest, RaceExponential(words.low))), d, ln_arrivals + i);
        hn::StoreU(RaceLn(hn::Add(earliest, RaceExponential(words.high))), d, ln_arrivals + i + lanes);
    }
    const std::uint32_t member = race::first_member(race::word_of(key, race::kFirstMemberStream, block));
    ln_arrivals[member] = race::ln(first);
}

// The words of a stream that these places name, a 64-bit lane each.
HWY_INLINE CounterVector WordsAt(const Rounds& rounds, CounterVector places) {
    const RaceCounters d;
    const FourWords words = Philox(rounds, hn::ShiftRight<2>(places));
    const auto place = hn::And(places, hn::Set(d, std::uint64_t{3}));
    auto chosen = words.word[0];
    for (std::uint64_t w = 1; w < 4; ++w) {
        chosen = hn::IfThenElse(hn::Eq(place, hn::Set(d, w)), words.word[w], chosen);
    }
    return hn::And(chosen, hn::Set(d, std::uint64_t{0xFFFFFFFFU}));
}

// The streams of single tokens.
struct TokenRounds {
    Rounds block;
    Rounds member;
    Rounds first_member;

    HWY_INLINE explicit TokenRounds(const Key& key)
        : block(key, race::kBlockStream),
          member(key, race::kMemberStream),
          first_member(key, race::kFirstMemberStream) {}
};

// Half of the tokens that a register of floats holds: each in the lower half of a 64-bit lane.
HWY_INLINE FloatVector LnArrivalsOf(const TokenRounds& rounds, CounterVector tokens) {
    const RaceCounters d;
    const RaceFloats df;
    const RaceWords dw;
    const auto blocks = hn::ShiftRight<6>(tokens);
    const auto first = hn::Mul(RaceExponential(hn::BitCast(dw, WordsAt(rounds.block, blocks))),
                               hn::Set(df, race::constants::kBlockRate));
    const auto later = hn::Add(first, RaceExponential(hn::BitCast(dw, WordsAt(rounds.member, tokens))));
    const auto member = hn::ShiftRight<26>(WordsAt(rounds.first_member, blocks));
    const auto own = hn::And(tokens, hn::Set(d, std::uint64_t{kBlock - 1}));
    const auto is_first = hn::BitCast(df, hn::VecFromMask(d, hn::Eq(member, own)));
    return RaceLn(hn::IfThenElse(hn::MaskFromVec(is_first), first, later));
}

void MakeArrivals(const Key& key, const std::uint32_t* HWY_RESTRICT tokens, std::size_t count,
                  float* HWY_RESTRICT ln_arrivals) {
    const RaceCounters d;
    const RaceFloats df;
    const std::size_t lanes = hn::Lanes(d);
    const TokenRounds rounds(key);
    HWY_ALIGN std::uint64_t some[hn::MaxLanes(RaceCounters())];
    HWY_ALIGN float made[hn::MaxLanes(RaceFloats())];
    for (std::size_t i = 0; i < count; i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) some[lane] = tokens[std::min(i + lane, count - 1)];
        hn::Store(LnArrivalsOf(rounds, hn::Load(d, some)), df, made);
        for (std::size_t lane = 0; lane < std::min(lanes, count - i); ++lane) {
            ln_arrivals[i + lane] = made[2 * lane];
        }
    }
}

#endif  // HWY_TARGET == HWY_SCALAR

HWY_INLINE hn::Vec<Floats> Score(hn::Vec<Floats> logits, hn::Vec<Floats> temperature,
                                 hn::Vec<Floats> ln_arrivals) {
    const auto exact = hn::Sub(hn::Div(logits, temperature), ln_arrivals);
    return hn::Max(exact, hn::Set(Floats(), race::constants::kLeastScore));
}

float BoundBlocks(const float* HWY_RESTRICT block_max, const float* HWY_RESTRICT ln_first, std::size_t blocks,
                  float temperature, const BoundedValues& values, float* HWY_RESTRICT bounds) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    const Floats d;
    const std::size_t lanes = hn::Lanes(d);
    const auto t = hn::Set(d, temperature);
    const auto floor = hn::Set(d, values.floor);
    const auto ceiling = hn::Set(d, values.ceiling);
    const auto none = hn::Set(d, kNone);
    auto most = none;
    std::size_t b = 0;
    for (; b + lanes <= blocks; b += lanes) {
        const auto maxima = hn::LoadU(d, block_max + b);
        const auto score = Score(hn::Min(maxima, ceiling), t, hn::LoadU(d, ln_first + b));
        const auto bound = hn::IfThenElse(hn::Ge(maxima, floor), score, none);
        most = hn::Max(most, bound);
        hn::StoreU(bound, d, bounds + b);
    }
    HWY_ALIGN float last[16];
    hn::Store(most, d, last);
    float largest = *std::max_element(last, last + lanes);
    for (; b < blocks; ++b) {
        const float capped = std::min(block_max[b], values.ceiling);
        bounds[b] = block_max[b] >= values.floor ? race::score(capped, temperature, ln_first[b]) : kNone;
        largest = std::max(largest, bounds[b]);
    }
    return largest;
}

std::size_t ListReaching(const float* HWY_RESTRICT values, std::size_t count, float floor,
                         std::uint32_t* HWY_RESTRICT out) {
    const Floats d;
    const hn::RebindToUnsigned<Floats> du;
    const auto least = hn::Set(d, floor);
    std::size_t found = 0;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
        const auto reached = hn::Ge(hn::LoadU(d, values + i), least);
        if (hn::AllFalse(d, reached)) continue;
        const auto numbers = hn::Iota(du, static_cast<std::uint32_t>(i));
        found += hn::CompressBlendedStore(numbers, hn::RebindMask(du, reached), du, out + found);
    }
    for (; i < count; ++i) {
        if (values[i] >= floor) out[found++] = static_cast<std::uint32_t>(i);
    }
    return found;
}

// Those that reach `least`, a bit each.
HWY_INLINE std::uint64_t LanesFrom(hn::Vec<Floats> scores, float least) {
    const Floats d;
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Ge(scores, hn::Set(d, least)), bits);
    return bits[0] | std::uint64_t{bits[1]} << 8U;
}

std::uint64_t OpenBlock(proto::Dtype dtype, const std::byte* HWY_RESTRICT elements, const Key& key,
                        std::uint32_t block, float temperature, float least, OpenedBlock& opened) {
    WidenBlock(dtype, elements, opened.values.data());
    ArriveMembers(key, block, opened.ln_arrivals.data());
    const Floats d;
    const auto t = hn::Set(d, temperature);
    std::uint64_t reached = 0;
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        const auto values = hn::LoadU(d, opened.values.data() + i);
        const auto arrivals = hn::LoadU(d, opened.ln_arrivals.data() + i);
        const auto scores = Score(values, t, arrivals);
        hn::StoreU(scores, d, opened.scores.data() + i);
        reached |= LanesFrom(scores, least) << i;
    }
    return reached;
}

std::uint64_t ReachMembers(proto::Dtype dtype, const std::byte* HWY_RESTRICT elements, float ln_first,
                           float temperature, float least, float* HWY_RESTRICT values) {
    WidenBlock(dtype, elements, values);
    const Floats d;
    const auto t = hn::Set(d, temperature);
    const auto first = hn::Set(d, ln_first);
    std::uint64_t reached = 0;
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        reached |= LanesFrom(Score(hn::LoadU(d, values + i), t, first), least) << i;
    }
    return reached;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(MakeFirstArrivals);
HWY_EXPORT(BoundBlocks);
HWY_EXPORT(ListReaching);
HWY_EXPORT(OpenBlock);
HWY_EXPORT(ReachMembers);
HWY_EXPORT(MakeArrivals);

void make_first_arrivals(const proto::race::Key& key, std::span<float> ln_first) noexcept {
    HWY_DYNAMIC_DISPATCH(MakeFirstArrivals)(key, ln_first.size(), ln_first.data());
}

float bound_blocks(std::span<const float> block_max, std::span<const float> ln_first, float temperature,
                   const BoundedValues& values, std::span<float> bounds) noexcept {
    return HWY_DYNAMIC_DISPATCH(BoundBlocks)(block_max.data(), ln_first.data(), block_max.size(), temperature,
                                             values, bounds.data());
}

std::uint32_t list_reaching(std::span<const float> values, float floor,
                            std::span<std::uint32_t> out) noexcept {
    return static_cast<std::uint32_t>(
        HWY_DYNAMIC_DISPATCH(ListReaching)(values.data(), values.size(), floor, out.data()));
}

std::uint64_t open_block(proto::Dtype dtype, const std::byte* elements, const proto::race::Key& key,
                         std::uint32_t block, float temperature, float least, OpenedBlock& opened) noexcept {
    return HWY_DYNAMIC_DISPATCH(OpenBlock)(dtype, elements, key, block, temperature, least, opened);
}

std::uint64_t reach_members(proto::Dtype dtype, const std::byte* elements, float ln_first, float temperature,
                            float least, std::span<float, kBlock> values) noexcept {
    return HWY_DYNAMIC_DISPATCH(ReachMembers)(dtype, elements, ln_first, temperature, least, values.data());
}

void make_arrivals(const proto::race::Key& key, std::span<const std::uint32_t> tokens,
                   std::span<float> ln_arrivals) noexcept {
    HWY_DYNAMIC_DISPATCH(MakeArrivals)(key, tokens.data(), tokens.size(), ln_arrivals.data());
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
