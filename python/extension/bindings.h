// The classes of the module, each bound by its own file.
#pragma once

#include <nanobind/nanobind.h>

namespace croupier::python {

void bind_beams(nanobind::module_& module);
void bind_fan_out(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_writer(nanobind::module_& module);
void bind_decider(nanobind::module_& module);

}  // namespace croupier::python
