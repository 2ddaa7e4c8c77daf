#include "python/extension/keywords.h"

#include <deque>
#include <utility>

namespace croupier::python {

void throw_unknown(const std::string& of, const std::string& name, const std::vector<std::string>& known) {
    nb::list names;
    for (const std::string& each : known) names.append(each);
    const nb::object near = nb::module_::import_("difflib").attr("get_close_matches")(name, names, 1);
    std::string text = of + " has no '" + name + "'";
    if (nb::len(near) > 0) text += "; did you mean '" + nb::cast<std::string>(near[0]) + "'?";
    throw bad_argument(text);
}

const char* kept(std::string text) {
    static std::deque<std::string> texts;
    return texts.emplace_back(std::move(text)).c_str();
}

}  // namespace croupier::python
