// What our C ABIs share: errors become a code and a text in the caller's struct, and -1 is returned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "shm/error.h"

namespace croupier::shm {

// CError: {uint32_t code; char text[N]}. `error` may be null.
template <typename CError>
int report(CError* error, Errc code, const char* text) noexcept {
    if (error == nullptr) return -1;
    error->code = static_cast<std::uint32_t>(code);
    const std::size_t length = std::min(std::strlen(text), sizeof(error->text) - 1);
    std::memcpy(error->text, text, length);
    error->text[length] = '\0';
    return -1;
}

// No exception of the standard library's or of ZMQ's crosses a C ABI. `body` gives a Result of an integer.
template <typename CError, typename Body>
auto guarded(CError* error, Body&& body) noexcept -> typename decltype(body())::value_type {
    try {
        const auto result = body();
        return result ? result.value() : report(error, result.error().code, result.error().message.c_str());
    } catch (const std::bad_alloc&) {
        return report(error, Errc::no_memory, "out of memory");
    } catch (const std::exception& failure) {
        return report(error, Errc::system_error, failure.what());
    }
}

inline Result<int> done(const Result<bool>& result) {
    if (!result) return result.error();
    return 0;
}

inline Result<int> missing(const char* argument) {
    return fail(Errc::bad_argument, std::string(argument) + " is null");
}

}  // namespace croupier::shm
