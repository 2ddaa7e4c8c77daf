#include "tools/explain/command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "explain/explained.h"
#include "explain/page.h"
#include "explain/target.h"
#include "html/page.h"
#include "tools/explain/terminal.h"

namespace croupier::tools {
namespace {

constexpr const char* kHelp = R"(The request has the format of `croupier decide`; draws and n are ignored.

Examples:
  echo '{"logits": [1, 3, 2], "params": {"top_p": 0.9}}' | croupier explain
  croupier explain request.json --html why.html
  croupier explain --row rows.bf16 --vocab 151936 --index 3 \
      --params '{"temperature": 0.7, "top_k": 40}'
  curl 'localhost:9464/explain?session=replica-0&uid=7&format=json' |
      croupier explain - --tokenizer tokenizer.json
      the next decision of a sequence; needs metrics.explain: true

The steps are those of the reference implementation; the path is the one that the daemon's code takes.
docs/decide.md is the reference.)";

struct ExplainOptions {
    std::string request_file;
    std::string row_file;
    std::uint32_t vocab = 0;
    std::uint64_t index = 0;
    std::uint64_t seed = 0;
    std::string dtype = "bf16";
    std::string params = "{}";
    std::string page_file;
    std::string tokenizer;
    bool json = false;
};

explain::Json read_request(const ExplainOptions& options) {
    if (!options.row_file.empty()) {
        const explain::Json row = {{"file", options.row_file},
                                   {"dtype", options.dtype},
                                   {"vocab", options.vocab},
                                   {"index", options.index}};
        return {{"row", row}, {"params", explain::parse_json(options.params)}, {"seed", options.seed}};
    }
    if (options.request_file.empty() || options.request_file == "-") {
        return explain::parse_json(std::string(std::istreambuf_iterator<char>(std::cin), {}));
    }
    std::ifstream file(options.request_file);
    if (!file)
        throw explain::RequestError("cannot read '" + options.request_file + "': " + std::strerror(errno) +
                                    "; it should be a request, as the daemon's /explain gives it");
    return explain::parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
}

int run(const ExplainOptions& options) {
    try {
        explain::RowFiles files;
        explain::Decider decider;
        explain::Case request = explain::read_case(read_request(options), files);
        explain::use_target(request.target);
        const explain::TokenTexts texts =
            options.tokenizer.empty() ? explain::TokenTexts() : explain::TokenTexts::load(options.tokenizer);
        const explain::Explained explained = explain::explain_case(std::move(request), decider, texts);
        if (!options.page_file.empty()) html::write_page(options.page_file, explain::to_page(explained));
        if (options.json) {
            std::cout << to_json(explained).dump() << "\n";
        } else {
            std::cout << to_terminal(explained, style_of_stdout());
        }
        return 0;
    } catch (const std::exception& error) {
        if (options.json) {
            std::cout << explain::Json{{"error", error.what()}}.dump(-1, ' ', false,
                                                                     explain::Json::error_handler_t::replace)
                      << "\n";
        } else {
            std::cerr << "explain: " << error.what() << "\n";
        }
        return 1;
    }
}

}  // namespace

void add_explain_command(CLI::App& app, int& status) {
    auto* explain = app.add_subcommand("explain", "Show step by step why a token was chosen");
    explain->footer(kHelp);
    auto options = std::make_shared<ExplainOptions>();
    auto* request = explain->add_option("request", options->request_file,
                                        "File with one request; without it, or with -, standard input");
    auto* row =
        explain->add_option("--row", options->row_file, "File with rows of logits, instead of a request");
    row->excludes(request);
    auto* vocab = explain->add_option("--vocab", options->vocab, "Logits per row")->needs(row);
    row->needs(vocab);
    explain->add_option("--index", options->index, "Index of the row")->needs(row)->capture_default_str();
    explain->add_option("--dtype", options->dtype, "bf16, fp16 or fp32")->needs(row)->capture_default_str();
    explain->add_option("--seed", options->seed, "Seed of the request")->needs(row)->capture_default_str();
    explain->add_option("--params", options->params, "Sampling parameters as a JSON object")
        ->needs(row)
        ->capture_default_str();
    explain->add_option("--tokenizer", options->tokenizer,
                        "The model's tokenizer.json or tiktoken file, to show tokens as text too");
    explain->add_option("--html", options->page_file, "Write a self-contained HTML page with plots");
    explain->add_flag("--json", options->json, "Print one JSON object");
    explain->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::tools
