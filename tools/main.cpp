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

// Behind the commands, which would else show these as theirs.
constexpr const char* kExamples = R"(Examples:
  croupier sim --demo
      a simulated engine and a daemon of its own: tokens flow
  croupier doctor
      is this host fit, and what would make it faster?
  croupier status
      what the running daemon does; `croupier top` shows it live
  croupier trace --seconds 5 -o trace.json
      what happens to steps and columns, for Perfetto
  echo '{"logits": [1, 3, 2], "seed": 7}' | croupier decide
      a decision, by the code that the daemon runs
  croupier explain request.json
      why this token: step by step, with a picture
  croupier plan --batch 256 --stage-ms 12
      how many samplers, what a step costs, which memory

`croupier help COMMAND` tells more of each.)";

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
    // Listed for --help: main() runs both before anything is parsed.
    app.add_subcommand("sim", "Simulated engine: serves requests and verifies every decision");
    app.add_subcommand("bench", "Measurements; every answer is a ratio of one run");
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
    if (const auto over = croupier::command_line::parse(app, argc, argv)) return *over;
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
