#include "tools/doctor/command.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command_line/choices.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/report.h"

namespace croupier::tools {
namespace {

using doctor::Request;

constexpr const char* kHelp = R"(Examples:
  croupier doctor
      check this host, the daemon's configuration and the daemon
  croupier doctor --config croupierd.yaml
      check it for a daemon with this file
  croupier doctor --engine-user vllm --python /opt/vllm/bin/python
      check it for an engine of that user and Python
  croupier doctor --peer 10.0.0.2:7001
      time a round to another host of the engine
  croupier doctor --json | jq '.findings[] | select(.level != "fine")'

Exit status: 0 suitable, also without a running daemon; 1 Croupier works but slower; 2 it does not work; 3 an
option is invalid.
Run it as root for the most complete report: other users cannot read the daemon's folders, its program and the
libraries that engines have loaded. docs/watching.md describes the checks and the JSON object.)";
struct DoctorOptions {
    Request request;
    std::vector<std::string> skip;
    bool json = false;
};

// Whole checks, and families: what stands before the point.
std::vector<std::string> names_to_skip() {
    std::vector<std::string> names;
    for (const auto& check : doctor::all_checks()) {
        const std::string id = check.id;
        const std::string family = id.substr(0, id.find('.'));
        if (names.empty() || std::find(names.begin(), names.end(), family) == names.end())
            names.push_back(family);
        names.push_back(id);
    }
    return names;
}

int run(const DoctorOptions& options) {
    try {
        const auto begin = std::chrono::steady_clock::now();
        const auto findings = doctor::run_checks(doctor::examine(options.request), options.skip);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        std::cout << (options.json ? doctor::to_json(findings, seconds) + "\n"
                                   : doctor::to_terminal(findings, seconds, style_of_stdout()));
        return doctor::exit_status(doctor::worst(findings));
    } catch (const std::exception& error) {
        std::cerr << "doctor: " << error.what() << "\n";
        return kInvalidDoctorOption;
    }
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand("doctor", "Check whether this host is suitable, and what to change");
    command->footer(kHelp);
    auto options = std::make_shared<DoctorOptions>();
    Request& request = options->request;
    command->add_option("-c,--config", request.config_file,
                        "The daemon's configuration (default: that of the daemon that serves this user)");
    command->add_option("--user", request.user,
                        "The daemon's user (default: the running daemon's, `croupier`, or the caller)");
    command->add_option("--engine-user", request.engine_user, "The engine's user (default: the caller)");
    command->add_option("--python", request.python, "The engine's Python")->capture_default_str();
    command->add_option("--peer", request.peer,
                        "Another host of the engine, as HOST:PORT: whether it can be reached, and how fast");
    command->add_option("--library", request.library, "The libcroupier.so that the engine loads");
    command
        ->add_option("--patience", request.patience_ms,
                     "How long to wait for --python, in ms; the daemon and the measurement of cores get half")
        ->check(CLI::Range(10U, 600000U))
        ->capture_default_str();
    command
        ->add_option("--vocab", request.vocab,
                     "Vocabulary of the session that must fit into shared memory, in tokens")
        ->check(CLI::Range(1U, proto::kMaxVocab))
        ->capture_default_str();
    command->add_option("--batch", request.batch, "Columns per step of that session")
        ->check(CLI::Range(1U, proto::kMaxBatch))
        ->capture_default_str();
    command
        ->add_option("--skip", options->skip,
                     "Checks or families of checks to leave out, such as cpu.speed or daemon")
        ->check(command_line::one_of(names_to_skip()));
    command->add_option("--sysroot", request.sysroot,
                        "Check another host: a folder with copies of its /proc and /sys");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::tools
