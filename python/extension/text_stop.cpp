#include "python/extension/text_stop.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "croupier/types.h"
#include "python/extension/step.h"

namespace croupier::python {
namespace {

std::optional<std::uint32_t> stop_string_of(const TextStop& stop) {
    return stop.flag == CROUPIER_STOPPED_STRING ? std::optional(stop.stop_string) : std::nullopt;
}

std::string describe(const TextStop& stop) {
    const auto which = stop_string_of(stop);
    return "TextStop(stopped='" + nb::cast<std::string>(stopped_by(stop.flag)) + "'" +
           (which ? ", stop_string=" + std::to_string(*which) : "") +
           ", begin=" + std::to_string(stop.begin) + ")";
}

}  // namespace

void bind_text_stop(nb::module_& module) {
    nb::class_<TextStop>(module, "TextStop", "What of a sequence's text its last token completes.")
        .def_ro("flag", &TextStop::flag, "the one of Decision.flags that says it")
        .def_prop_ro(
            "stopped", [](const TextStop& self) { return stopped_by(self.flag); },
            nb::for_getter(nb::sig("def stopped(self) -> str")),
            "the same in words, as Decision.stopped: 'stop_string' or 'json'")
        .def_prop_ro("stop_string", &stop_string_of, "which of the request's stop strings; None with 'json'")
        .def_ro("begin", &TextStop::begin, "the byte of the text at which it begins")
        .def("__repr__", &describe);
}

}  // namespace croupier::python
