// What a check found: one finding for each check, whatever it found.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace croupier::tools::doctor {

// In the order of their weight.
enum class Level { fine, skipped, slower, broken };

using Fact = std::pair<std::string, std::variant<std::int64_t, double, std::string>>;

struct Finding {
    std::string check;
    Level level = Level::fine;
    std::string what;
    std::string remedy;  // empty where there is nothing to do
    std::vector<Fact> facts;
};

// The name of the check is filled in by who runs it.
inline Finding fine(std::string what, std::vector<Fact> facts = {}) {
    return {"", Level::fine, std::move(what), "", std::move(facts)};
}
inline Finding skipped(std::string why, std::string remedy = "") {
    return {"", Level::skipped, std::move(why), std::move(remedy), {}};
}
inline Finding slower(std::string what, std::string remedy, std::vector<Fact> facts = {}) {
    return {"", Level::slower, std::move(what), std::move(remedy), std::move(facts)};
}
inline Finding broken(std::string what, std::string remedy, std::vector<Fact> facts = {}) {
    return {"", Level::broken, std::move(what), std::move(remedy), std::move(facts)};
}

}  // namespace croupier::tools::doctor
