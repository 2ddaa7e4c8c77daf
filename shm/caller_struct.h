// Structs that cross a C ABI and grow: include/croupier/types.h says how. A caller's may be older or newer
// than ours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "croupier/types.h"
#include "shm/error.h"

namespace croupier::shm {

namespace detail {

constexpr std::size_t kLargest = 65536;

inline std::string version_text(std::uint32_t version) {
    return std::to_string(version >> 16U) + "." + std::to_string(version & 0xFFFFU);
}

// `to` where all bytes of [from, to) are zero; else where the first one is that is not.
inline std::size_t first_set(const void* bytes, std::size_t from, std::size_t to) {
    const auto* begin = static_cast<const unsigned char*>(bytes);
    return static_cast<std::size_t>(
        std::find_if(begin + from, begin + to, [](auto byte) { return byte != 0; }) - begin);
}

inline Error unknown_field(const std::string& name, std::size_t at, std::size_t known,
                           std::uint32_t version) {
    return {Errc::wrong_version,
            name + ": byte " + std::to_string(at) + " is set, which this library (ABI " +
                version_text(CROUPIER_ABI_VERSION) + ", " + std::to_string(known) +
                " bytes) does not know; the caller has ABI " + version_text(version) +
                ": leave that field at 0, or install the library that the caller was compiled against"};
}

}  // namespace detail

// The first `least` bytes are those that every caller has: the struct as it was when its layout was fixed.
template <typename Abi>
Result<bool> check_head(const Abi& given, const char* name, std::size_t least) {
    static_assert(std::is_trivially_copyable_v<Abi> && offsetof(Abi, size) == 0 &&
                  offsetof(Abi, version) == 4);
    if (given.size < least || given.size > detail::kLargest) {
        return fail(Errc::bad_argument, std::string(name) + " says that it has " +
                                            std::to_string(given.size) + " bytes, it has at least " +
                                            std::to_string(least) + ": begin with " + name + "_init()");
    }
    if (given.version >> 16U == CROUPIER_ABI_MAJOR) return true;
    return fail(Errc::wrong_version, std::string(name) + ": the caller has ABI " +
                                         detail::version_text(given.version) + ", this library " +
                                         detail::version_text(CROUPIER_ABI_VERSION) +
                                         ": compile the caller against this library's headers");
}

// Past given.size the caller's memory may be anything else.
template <typename Abi>
Result<Abi> read_struct(const Abi& given, const char* name, std::size_t least) {
    CROUPIER_TRY(check_head(given, name, least));
    const std::size_t size = given.size;
    const std::size_t known = std::min(size, sizeof(Abi));
    const std::size_t unknown = detail::first_set(&given, known, size);
    if (unknown < size) return detail::unknown_field(name, unknown, sizeof(Abi), given.version);
    Abi ours{};
    std::memcpy(static_cast<void*>(&ours), &given, known);
    return ours;
}

// As much as the caller has room for; what it has beyond ours becomes zero.
template <typename Abi>
Result<bool> write_struct(const Abi& ours, Abi& given, const char* name, std::size_t least) {
    CROUPIER_TRY(check_head(given, name, least));
    constexpr std::size_t kHead = 8;
    const std::size_t known = std::min<std::size_t>(given.size, sizeof(Abi));
    auto* bytes = reinterpret_cast<unsigned char*>(&given);
    std::memcpy(bytes + kHead, reinterpret_cast<const unsigned char*>(&ours) + kHead, known - kHead);
    std::memset(bytes + known, 0, given.size - known);
    return true;
}

// Elements that their caller's compiler gave `element` bytes each.
template <typename Abi, typename Vector>
Result<bool> read_array(const Abi* given, std::size_t count, std::size_t element, const std::string& name,
                        std::size_t least, Vector& ours) {
    static_assert(std::is_trivially_copyable_v<Abi>);
    if (element < least || element > detail::kLargest) {
        return fail(Errc::bad_argument, std::string(name) + ": an element has " + std::to_string(element) +
                                            " bytes, it has at least " + std::to_string(least));
    }
    ours.clear();
    ours.reserve(count);
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = 0; i < count; ++i, bytes += element) {
        const std::size_t unknown = detail::first_set(bytes, std::min(element, sizeof(Abi)), element);
        if (unknown < element) {
            return detail::unknown_field(std::string(name) + "[" + std::to_string(i) + "]", unknown,
                                         sizeof(Abi), CROUPIER_ABI_VERSION);
        }
        Abi one{};
        std::memcpy(static_cast<void*>(&one), bytes, std::min(element, sizeof(Abi)));
        ours.push_back(one);
    }
    return true;
}

}  // namespace croupier::shm
