#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string_view>

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

bool is_program_beside(std::string_view command) {
    return command == "sim" || command == "bench";
}

int run(int argc, char** argv) {
    CLI::App app{"croupier: look at, try and measure a decision plane"};
    app.footer(R"(
Examples:
  croupier sim --demo                     a simulated engine against a daemon of its own
  croupier doctor                         is this host fit, and what to do where it is not
  croupier status                         what the running daemon does
  croupier top                            the same as it goes on, and what of it is slow
  croupier trace --seconds 5 -o t.json    the life of steps and columns, for Perfetto
  echo '{"logits": [1, 3, 2], "seed": 7}' | croupier decide
                                          a decision, by the code that the daemon runs
  croupier explain request.json           why this token: step by step, with a picture
  croupier hotset build log.jsonl --vocab 151936 --model M -o M.hot
                                          which tokens occur most, for a session's hotness_file
  croupier hotset size --rows rows.bf16 --hot M.hot
                                          which size of a hot set draws fastest here
  croupier plan --batch 256 --stage-ms 12  how many samplers, what a step costs, which memory
  croupier bench ipc --json               the plane's latency beside a bare ring and ZMQ
Each command has its own --help.)");
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
    CLI11_PARSE(app, argc, argv);
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && is_program_beside(argv[1])) return croupier::tools::run_program_beside(argv);
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupier: %s\n", failure.what());
        return 1;
    }
}
