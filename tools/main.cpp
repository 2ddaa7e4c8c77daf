#include <CLI/CLI.hpp>

#include "tools/ipc_bench/command.h"
#include "tools/sim/command.h"
#include "tools/status/command.h"

int main(int argc, char** argv) {
    CLI::App app{"croupier: look at, try and measure a decision plane"};
    app.footer(R"(
Examples:
  croupier sim --demo                     a simulated engine against a daemon of its own
  croupier status                         what the running daemon does
  croupier bench ipc --json               the plane's latency beside a bare ring and ZMQ
Each command has its own --help.)");
    app.set_version_flag("--version", CROUPIER_VERSION);
    app.require_subcommand(1);
    int status = 0;
    croupier::tools::add_sim_command(app, status);
    croupier::tools::add_status_commands(app, status);
    croupier::tools::add_bench_commands(app, status);
    CLI11_PARSE(app, argc, argv);
    return status;
}
