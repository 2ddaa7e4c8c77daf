#include "tools/decide/command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tools/decide/answer.h"
#include "tools/decide/parameters_page.h"

namespace croupier::tools {
namespace {

constexpr const char* kHelp =
    R"(Each line of input is a request, which needs only logits or row. Each answer is one line.
  {"logits": [1, 3.5, "-inf"], "params": {"temperature": 0}}
      {"tokens":[1],"flags":["greedy"]}
  {"logits": [1, 3, 2], "params": {"top_k": 2}, "draws": 5, "support": true}
      five draws at consecutive positions, and [id, probability] of each
      remaining token
  {"row": {"file": "rows.bf16", "vocab": 151936, "index": 3}, "logprobs": 5}
      [id, log-probability, rank] of the drawn token and of the five best
  {"logits": [1, 3, 2], "output": [1, 1], "params": {"n": 3}}
      three children with seed 0
  {"logits": [1, 3, 2], "impl": "reference"}, or "target": "avx2"
      use the reference implementation in double precision, or the fast
      code with one instruction set

Examples:
  echo '{"logits": [1, 3, 2], "seed": 7}' | croupier decide
  croupier decide requests.jsonl

Keys: logits or row; dtype (bf16, fp16, fp32), tile, ranks; params; prompt, output; seed, position, draws;
support, logprobs, mask, feedback {level, weight}, max_length, hot or hot_blocks, random, decided;
impl (fast, reference), target.
An invalid line gets the answer {"error": ...}, and reading continues. docs/decide.md is the reference.)";

void answer_stream(std::istream& lines, const std::string& name, explain::RowFiles& files,
                   explain::Decider& decider) {
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) {
        ++count;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        // Flushed, because a program that talks through pipes waits for each answer before its next request.
        std::cout << answer_line(line, name + std::to_string(count), files, decider) << std::endl;
    }
}

int run(const std::vector<std::string>& paths) {
    explain::RowFiles files;
    explain::Decider decider;
    if (paths.empty()) answer_stream(std::cin, "line ", files, decider);
    for (const std::string& path : paths) {
        std::ifstream lines(path);
        if (!lines || std::filesystem::is_directory(path)) {
            std::cerr << "decide: cannot read '" << path << "'\n";
            return 1;
        }
        answer_stream(lines, path + ", line ", files, decider);
    }
    return 0;
}

}  // namespace

void add_decide_command(CLI::App& app, int& status) {
    auto* decide =
        app.add_subcommand("decide", "Decide tokens for requests in JSON lines, with the daemon's own code");
    decide->footer(kHelp);
    auto paths = std::make_shared<std::vector<std::string>>();
    decide->add_option("files", *paths, "Files with requests; without any, standard input");
    auto lists_parameters = std::make_shared<bool>(false);
    decide->add_flag("--parameters", *lists_parameters,
                     "Print the sampling parameters (docs/parameters.md) and exit");
    decide->callback([paths, lists_parameters, &status] {
        if (*lists_parameters) {
            std::cout << parameters_page();
        } else {
            status = run(*paths);
        }
    });
}

}  // namespace croupier::tools
