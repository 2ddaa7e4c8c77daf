// Why a call failed, on its way to croupier.Error.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "croupier/types.h"

namespace croupier::python {

namespace nb = nanobind;

class Failure : public std::runtime_error {
  public:
    Failure(std::uint32_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
    explicit Failure(const croupier_error& error) : Failure(error.code, error.text) {}
    std::uint32_t code() const { return code_; }

  private:
    std::uint32_t code_;
};

inline Failure bad_argument(const std::string& text) {
    return {CROUPIER_ERROR_BAD_ARGUMENT, text};
}

// `call` gets a croupier_error; a negative answer of its becomes a Failure.
template <typename Call>
auto checked(Call&& call) {
    croupier_error error{};
    const auto answer = call(&error);
    if (answer < 0) throw Failure(error);
    return answer;
}

// As Python writes it, cut where it is long.
std::string shown(nb::handle value);
std::string type_name_of(nb::handle value);

void bind_failures();

}  // namespace croupier::python
