// The answer to one line of `croupier decide`.
#pragma once

#include <string>
#include <string_view>

#include "explain/case.h"
#include "explain/decider.h"
#include "explain/values.h"

namespace croupier::tools {

explain::OrderedJson answer(const explain::Case& of, explain::Decider& decider);
// Never throws, whatever the line holds; errors name the line by `where`.
std::string answer_line(std::string_view line, const std::string& where, explain::RowFiles& files,
                        explain::Decider& decider);

}  // namespace croupier::tools
