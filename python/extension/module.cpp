// croupier._core: the C ABIs of include/croupier/ as classes. What is Python's own is in src/croupier/.
#include <nanobind/nanobind.h>

#include "croupier/client.h"
#include "python/extension/bindings.h"
#include "python/extension/failure.h"
#include "python/extension/params.h"
#include "python/extension/step.h"

NB_MODULE(_core, module) {
    // A session that lives until the interpreter ends is no mistake.
    nanobind::set_leak_warnings(false);
    module.attr("VERSION") = croupier_version();
    croupier::python::bind_failures();
    croupier::python::bind_params(module);
    croupier::python::bind_steps(module);
    croupier::python::bind_beams(module);
    croupier::python::bind_fan_out(module);
    croupier::python::bind_session(module);
    croupier::python::bind_writer(module);
    croupier::python::bind_decider(module);
}
