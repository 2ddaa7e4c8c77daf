// What ended a sequence's text, as an object of Python's.
#pragma once

#include <nanobind/nanobind.h>

#include "croupier/client.hpp"

namespace croupier::python {

using client::TextStop;

void bind_text_stop(nanobind::module_& module);

}  // namespace croupier::python
