#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "bench/cliffs/command.h"
#include "bench/controller/command.h"
#include "bench/decide/command.h"
#include "bench/fairness/command.h"
#include "bench/fan_out/command.h"
#include "bench/ipc/command.h"
#include "bench/rounding/command.h"
#include "bench/shvs/command.h"
#include "bench/step/command.h"
#include "bench/text/command.h"
#include "bench/tvd/command.h"
#include "bench/windows/command.h"
#ifdef CROUPIER_HAS_CUDA
#include "bench/lean/command.h"
#include "bench/writer/command.h"
#endif
#include "command_line/parse.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  croupier bench ipc
      compare the latency of a decision with a bare ring and with ZMQ
  croupier bench decide --rows rows.bf16 --cases full,topp
      compare decisions with a plain read of the row
  croupier bench fairness --json
      measure how long a small session waits for a large one

`croupier help bench COMMAND` describes a benchmark.)";

int run(int argc, char** argv) {
    CLI::App app{"Benchmarks; each compares with a baseline from the same run", "croupier bench"};
    app.require_subcommand(1);
    int status = 0;
    croupier::bench::add_cliffs_bench(app, status);
    croupier::bench::add_decide_bench(app, status);
    croupier::bench::add_fairness_bench(app, status);
    croupier::bench::add_fan_out_bench(app, status);
    croupier::bench::add_ipc_bench(app, status);
    croupier::bench::add_rounding_bench(app, status);
    croupier::bench::add_shvs_bench(app, status);
    croupier::bench::add_controller_bench(app, status);
    croupier::bench::add_step_bench(app, status);
    croupier::bench::add_text_bench(app, status);
    croupier::bench::add_tvd_bench(app, status);
    croupier::bench::add_windows_bench(app, status);
#ifdef CROUPIER_HAS_CUDA
    croupier::bench::add_lean_bench(app);
    croupier::bench::add_writer_bench(app);
#endif
    app.footer(kExamples);
    try {
        if (const auto over = croupier::command_line::parse(app, argc, argv)) return *over;
    } catch (const std::exception& failure) {
        // Benchmarks run in CLI11 callbacks, so their errors come from parse().
        const std::string name = app.get_subcommands().front()->get_name();
        std::fprintf(stderr, "bench %s: %s\n", name.c_str(), failure.what());
        return 1;
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupier bench: %s\n", failure.what());
        return 1;
    }
}
