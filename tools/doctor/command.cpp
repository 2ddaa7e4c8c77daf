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
      this host, the daemon's configuration and the daemon
  croupier doctor --config croupierd.yaml
      the same for a daemon with this file
  croupier doctor --engine-user vllm --python /opt/vllm/bin/python
      what an engine of that user and Python meets
  croupier doctor --json | jq '.findings[] | select(.level != "fine")'

Exit status: 0 this host is fit, whether a daemon runs or not yet; 1 it works but slower, 2 it will not work,
3 the question itself is wrong.
Root sees most: the daemon's folders, its program, the libraries of engines. docs/watching.md describes the checks
and the JSON object.)";
constexpr int kWrongQuestion = 3;

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
        return kWrongQuestion;
    }
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand("doctor", "Is this host fit? What is wrong, and what to do about it");
    command->footer(kHelp);
    auto options = std::make_shared<DoctorOptions>();
    Request& request = options->request;
    command->add_option(
        "-c,--config", request.config_file,
        "The daemon's configuration; default: what the daemon that serves this user starts with");
    command->add_option(
        "--user", request.user,
        "The daemon's user; by default that of the one that runs, or `croupier`, or who asks");
    command->add_option("--engine-user", request.engine_user, "The engine's user; by default who asks");
    command->add_option("--python", request.python, "The engine's Python")->capture_default_str();
    command->add_option("--library", request.library, "The libcroupier.so that the engine loads");
    command
        ->add_option(
            "--patience", request.patience_ms,
            "Milliseconds that Python may take to answer; the daemon, and the measuring of cores, half of it")
        ->check(CLI::Range(10U, 600000U))
        ->capture_default_str();
    command->add_option("--vocab", request.vocab, "Vocabulary of the session that must find room")
        ->check(CLI::Range(1U, proto::kMaxVocab))
        ->capture_default_str();
    command->add_option("--batch", request.batch, "Columns of its steps")
        ->check(CLI::Range(1U, proto::kMaxBatch))
        ->capture_default_str();
    command
        ->add_option("--skip", options->skip, "A check or a family of checks to leave out: daemon, cpu.speed")
        ->check(command_line::one_of(names_to_skip()));
    command->add_option(
        "--sysroot", request.sysroot,
        "A folder with copies of another host's /proc and /sys: what can be told from those alone");
    command->add_flag("--json", options->json, "One JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::tools
