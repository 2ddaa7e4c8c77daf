#include "command_line/choices.h"

namespace croupier::command_line {

CLI::Validator one_of(const std::vector<std::string>& names) {
    const auto check = [names](const std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        return "'" + text + "' is invalid; allowed: " + CLI::detail::join(names, ", ");
    };
    return CLI::Validator(check, "{" + CLI::detail::join(names, ",") + "}");
}

}  // namespace croupier::command_line
