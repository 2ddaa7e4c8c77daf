// `croupier doctor`, asked for its JSON object.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/daemon_process.h"
#include "testing/workplace.h"

namespace croupier::testing {

constexpr const char* kOneSampler = "{count: 1}";
// Of the machine that runs the tests nothing is known: it may have one core, or a neighbour.
constexpr const char* kNotThisMachine = " --skip cpu --skip memory --skip engine";

inline std::string config_of(const Sandbox& sandbox) {
    return "--config " + sandbox.config_path();
}

// A shell that does something to itself, and then becomes the doctor.
inline std::string after(const std::string& preparation) {
    return "sh -c '" + preparation + " && exec \"$@\"' sh ";
}

struct DoctorAnswer {
    int status = -1;
    nlohmann::json answer;

    const nlohmann::json& finding(const std::string& check) const {
        const auto& all = answer.at("findings");
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const auto& each) { return each["check"] == check; });
        REQUIRE(found != all.end());
        return *found;
    }
    std::string level(const std::string& check) const { return finding(check)["level"]; }
    std::string what(const std::string& check) const { return finding(check)["what"]; }
    std::string remedy(const std::string& check) const { return finding(check)["remedy"]; }
};

// `before` stands before the program in the shell's command. No Python is asked unless the arguments name
// one.
inline DoctorAnswer ask_doctor(const Workplace& place, const std::string& arguments,
                               const std::string& before = "") {
    const std::string python =
        arguments.find("--python") == std::string::npos ? " --python no-python-here" : "";
    const std::string patience = arguments.find("--patience") == std::string::npos ? " --patience 60000" : "";
    const Ended ended = place.run("doctor --json " + arguments + python + patience, before);
    INFO(ended.output);
    DoctorAnswer told{ended.status, nlohmann::json::parse(ended.output, nullptr, false)};
    REQUIRE(told.answer.is_object());
    CHECK(told.answer["exit"] == told.status);
    return told;
}

}  // namespace croupier::testing
