#include "python/extension/failure.h"

#include <exception>

#include "croupier/client.h"

namespace croupier::python {
namespace {

constexpr std::size_t kLongestShown = 60;

void translate(const std::exception_ptr& thrown, void* /*payload*/) {
    try {
        std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
        // Looked up here: the class is Python's, and this module is imported by its package.
        const nb::object error = nb::module_::import_("croupier._error").attr("Error");
        const nb::object raised = error(failure.code(), croupier_error_name(failure.code()), failure.what());
        PyErr_SetObject(error.ptr(), raised.ptr());
    }
}

}  // namespace

std::string shown(nb::handle value) {
    std::string text = nb::repr(value).c_str();
    if (text.size() > kLongestShown) text = text.substr(0, kLongestShown - 3) + "...";
    return text;
}

std::string type_name_of(nb::handle value) {
    return nb::cast<std::string>(value.type().attr("__name__"));
}

void bind_failures() {
    nb::register_exception_translator(translate);
}

}  // namespace croupier::python
