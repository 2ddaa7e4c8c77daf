// What an engine does with a decided step's columns, whose order is not that of its own rows.
#pragma once

#include <nanobind/nanobind.h>

#include "python/extension/step.h"

namespace croupier::python {

void bind_step_rows(nb::class_<Step>& step);

}  // namespace croupier::python
