// A decided step's columns compared with, and written to, an engine's rows, whose order may be another one.
#pragma once

#include <nanobind/nanobind.h>

#include "python/extension/step.h"

namespace croupier::python {

void bind_step_rows(nb::class_<Step>& step);

}  // namespace croupier::python
