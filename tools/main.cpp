#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/controller_bench/command.h"
#include "tools/decide/command.h"
#include "tools/decide_bench/command.h"
#include "tools/explain/command.h"
#include "tools/fairness_bench/command.h"
#include "tools/hotset/command.h"
#include "tools/ipc_bench/command.h"
#include "tools/relay/command.h"
#include "tools/rounding_bench/command.h"
#include "tools/shvs_bench/command.h"
#include "tools/sim/command.h"
#include "tools/status/command.h"
#include "tools/step_bench/command.h"
#include "tools/tvd_bench/command.h"
#ifdef CROUPIER_HAS_CUDA
#include "tools/writer_bench/command.h"
#endif

namespace {

int run(int argc, char** argv) {
    CLI::App app{"croupier: look at, try and measure a decision plane"};
    app.footer(R"(
Examples:
  croupier sim --demo                     a simulated engine against a daemon of its own
  croupier status                         what the running daemon does
  echo '{"logits": [1, 3, 2], "seed": 7}' | croupier decide
                                          a decision, by the code that the daemon runs
  croupier explain request.json           why this token: step by step, with a picture
  croupier hotset build log.jsonl --vocab 151936 --model M -o M.hot
                                          which tokens occur most, for a session's hotness_file
  croupier hotset size --rows rows.bf16 --hot M.hot
                                          which size of a hot set draws fastest here
  croupier bench ipc --json               the plane's latency beside a bare ring and ZMQ
Each command has its own --help.)");
    app.set_version_flag("--version", CROUPIER_VERSION);
    app.require_subcommand(1);
    int status = 0;
    croupier::tools::add_sim_command(app, status);
    croupier::tools::add_status_commands(app, status);
    croupier::tools::add_decide_command(app, status);
    croupier::tools::add_explain_command(app, status);
    croupier::tools::add_hotset_commands(app, status);
    croupier::tools::add_relay_command(app, status);
    auto* bench = app.add_subcommand("bench", "Measurements; every answer is a ratio of one run");
    bench->require_subcommand(1);
    croupier::tools::add_decide_bench(*bench, status);
    croupier::tools::add_fairness_bench(*bench, status);
    croupier::tools::add_ipc_bench(*bench, status);
    croupier::tools::add_rounding_bench(*bench, status);
    croupier::tools::add_shvs_bench(*bench, status);
    croupier::tools::add_controller_bench(*bench, status);
    croupier::tools::add_step_bench(*bench, status);
    croupier::tools::add_tvd_bench(*bench, status);
#ifdef CROUPIER_HAS_CUDA
    croupier::tools::add_writer_bench(*bench, status);
#endif
    CLI11_PARSE(app, argc, argv);
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupier: %s\n", failure.what());
        return 1;
    }
}
