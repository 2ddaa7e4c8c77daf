// What ended a sequence's text, as an object of Python's.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace croupier::python {

// As croupier::client::TextStop of croupier/client.hpp.
struct TextStop {
    std::uint16_t flag = 0;
    std::uint32_t stop_string = 0;
    std::uint64_t begin = 0;
};

void bind_text_stop(nanobind::module_& module);

}  // namespace croupier::python
