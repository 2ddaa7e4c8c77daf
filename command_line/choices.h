// Options whose value is one of several names.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace croupier::command_line {

// Help shows the names as {a,b,c}, and errors list them.
CLI::Validator one_of(const std::vector<std::string>& names);

template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

// Adds an option that sets `value` to the value of the given name; the default is the name of the current
// value. CLI::CheckedTransformer would show the values too, as numbers or raw bytes.
template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& option, T& value, const Choices<T>& choices,
                        const std::string& description) {
    std::vector<std::string> names;
    std::string present;
    for (const auto& [name, meaning] : choices) {
        names.push_back(name);
        if (meaning == value) present = name;
    }
    const auto choose = [&value, choices](const std::string& chosen) {
        value = std::find_if(choices.begin(), choices.end(), [&](const auto& choice) {
                    return choice.first == chosen;
                })->second;
    };
    auto* added = app.add_option_function<std::string>(option, choose, description)->check(one_of(names));
    return present.empty() ? added : added->default_str(present);
}

}  // namespace croupier::command_line
