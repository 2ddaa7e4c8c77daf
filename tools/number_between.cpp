#include "tools/number_between.h"

#include <cmath>
#include <string>

namespace croupier::tools {

CLI::Validator number_between(double least, double most) {
    const CLI::Range range(least, most);
    return {[range](std::string& text) {
                double number = 0;
                if (CLI::detail::lexical_cast(text, number) && std::isnan(number))
                    return text + " is no number; allowed: " + range.get_description();
                return range(text);
            },
            range.get_description()};
}

}  // namespace croupier::tools
