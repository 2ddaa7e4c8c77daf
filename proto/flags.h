// A set of flags of one enum, in a word that processes and GPUs share.
#pragma once

#include <cstdint>

namespace croupier::proto {

// The enum's values are bits. An enum that wants `A | B` says so with an operator of its own.
template <class Flag>
struct Flags {
    std::uint32_t bits = 0;

    constexpr Flags() = default;
    constexpr Flags(Flag flag) : bits(static_cast<std::uint32_t>(flag)) {}

    constexpr bool has(Flag flag) const { return (bits & static_cast<std::uint32_t>(flag)) != 0; }
    constexpr bool has_any(Flags others) const { return (bits & others.bits) != 0; }
    constexpr void add(Flags others) { bits |= others.bits; }
    constexpr void remove(Flags others) { bits &= ~others.bits; }

    friend constexpr Flags operator|(Flags a, Flags b) { return of(a.bits | b.bits); }
    friend constexpr Flags operator&(Flags a, Flags b) { return of(a.bits & b.bits); }
    bool operator==(const Flags&) const = default;

    static constexpr Flags of(std::uint32_t bits) {
        Flags flags;
        flags.bits = bits;
        return flags;
    }
};

}  // namespace croupier::proto
