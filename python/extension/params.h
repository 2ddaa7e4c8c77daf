// croupier.Params: croupier_params by the names of proto/sampling.h.
#pragma once

#include <nanobind/nanobind.h>

#include "croupier/types.h"

namespace croupier::python {

namespace nb = nanobind;

struct Params {
    Params() { croupier_params_init(&fields); }

    croupier_params fields;
    bool has_seed = false;  // else each sequence gets one of its own
};

// With a random seed where it has none. None: the defaults.
croupier_params params_of(nb::handle given);

void bind_params(nb::module_& module);

}  // namespace croupier::python
