// What one line of `croupier decide` is answered.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/decide/case.h"
#include "tools/decide/decider.h"

namespace croupier::tools {

using OrderedJson = nlohmann::ordered_json;

std::vector<std::string> flag_names(std::uint16_t flags);
// A number, or "nan", "inf" and "-inf".
OrderedJson number(double value);

OrderedJson answer(const Case& of, Decider& decider);
// Never throws for anything a line may hold; `where` says in an error which line it was.
std::string answer_line(std::string_view line, const std::string& where, RowFiles& files, Decider& decider);

}  // namespace croupier::tools
