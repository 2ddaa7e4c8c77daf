#include "command_line/number_between.h"

#include <sstream>
#include <string>

namespace croupier::command_line {

CLI::Validator number_between(double least, double most) {
    std::ostringstream allowed;
    allowed << "a number from " << least << " to " << most;
    return {[least, most, allowed = allowed.str()](std::string& text) {
                double number = 0;
                const bool fits =
                    CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
                return fits ? "" : "'" + text + "' is invalid; allowed: " + allowed;
            },
            CLI::Range(least, most).get_description()};
}

}  // namespace croupier::command_line
