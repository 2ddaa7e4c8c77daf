#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "command_line/parse.h"
#include "tools/decide/command.h"
#include "tools/doctor/command.h"
#include "tools/explain/command.h"
#include "tools/hotset/command.h"
#include "tools/plan/command.h"
#include "tools/program_beside.h"
#include "tools/relay/command.h"
#include "tools/status/command.h"
#include "tools/top/command.h"
#include "tools/trace/command.h"

namespace {

// Set after the commands are added: a command inherits the footer that the app has then.
constexpr const char* kExamples = R"(Examples:
  croupier sim --demo
      run a simulated engine with its own daemon
  croupier doctor
      check whether this host is suitable, and how to make it faster
  croupier status
      show what the running daemon does; `croupier top` shows it live
  croupier trace --seconds 5 -o trace.json
      record steps and columns for Perfetto
  echo '{"logits": [1, 3, 2], "seed": 7}' | croupier decide
      decide one token with the daemon's own code
  croupier explain request.json
      explain step by step why a token was chosen
  croupier plan --batch 256 --stage-ms 12
      plan the number of samplers, and predict step time and memory

`croupier help COMMAND` describes a command.)";

bool is_program_beside(std::string_view command) {
    return command == "sim" || command == "bench";
}

// `croupier help bench ipc` is `croupier bench ipc --help`.
int help_of_program_beside(int argc, char** argv) {
    std::string flag = "--help";
    std::vector<char*> words{argv[0]};
    words.insert(words.end(), argv + 2, argv + argc);
    words.push_back(flag.data());
    words.push_back(nullptr);
    return croupier::tools::run_program_beside(words.data());
}

int run(int argc, char** argv) {
    CLI::App app{"Inspect, test and benchmark croupierd, the token sampler", "croupier"};
    app.set_version_flag("--version", CROUPIER_VERSION);
    app.require_subcommand(1);
    int status = 0;
    // Only so that --help lists them: main() runs both before it parses the command line.
    app.add_subcommand("sim", "Simulate an engine: serve requests and verify every decision");
    app.add_subcommand("bench", "Benchmarks; each compares with a baseline from the same run");
    croupier::tools::add_doctor_command(app, status);
    croupier::tools::add_status_commands(app, status);
    croupier::tools::add_decide_command(app, status);
    croupier::tools::add_explain_command(app, status);
    croupier::tools::add_hotset_commands(app, status);
    croupier::tools::add_plan_command(app, status);
    croupier::tools::add_relay_command(app, status);
    croupier::tools::add_top_command(app, status);
    croupier::tools::add_trace_command(app, status);
    app.footer(kExamples);
    if (const auto over = croupier::command_line::parse(app, argc, argv)) {
        const bool asks_doctor = argc > 1 && std::string_view(argv[1]) == "doctor";
        return asks_doctor && *over != 0 ? croupier::tools::kInvalidDoctorOption : *over;
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && is_program_beside(argv[1])) return croupier::tools::run_program_beside(argv);
    if (argc > 2 && std::string_view(argv[1]) == "help" && is_program_beside(argv[2]))
        return help_of_program_beside(argc, argv);
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupier: %s\n", failure.what());
        return 1;
    }
}
