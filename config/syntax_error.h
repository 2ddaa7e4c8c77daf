// yaml-cpp's errors speak of its grammar, and stand where it noticed; these say what a person most likely
// did, and where.
#pragma once

#include <string_view>
#include <vector>

#include "config/document.h"

namespace YAML {
class Exception;
}

namespace croupier::config {

using Lines = std::vector<std::string_view>;

// `opened`: where the innermost list or section began that is still open.
SyntaxProblem explain(const YAML::Exception& error, const Lines& lines, Place opened);

}  // namespace croupier::config
