#include "tools/hotset/command.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>

#include "explain/fields.h"
#include "html/page.h"
#include "tools/hotset/build.h"
#include "tools/hotset/show.h"
#include "tools/hotset/size.h"

namespace croupier::tools {
namespace {

constexpr const char* kHelp = R"(Examples:
  croupier hotset build chat.i32 --vocab 151936 --model Qwen3 -o qwen3.hot
      count a model's tokens in traces
  croupier hotset show qwen3.hot
      which share of the tokens its prefixes cover
  croupier hotset size --rows rows.bf16 --hot qwen3.hot
      which size of a hot set draws fastest here

docs/hotsets.md says when a hot set pays.)";

constexpr const char* kBuildHelp = R"(Traces:
  NAME.i32      token ids, little-endian int32, nothing else
  NAME.jsonl    each line is a list of ids, or an object with ids in any of
                tokens, prompt, output, history and next (lists or single
                ids; other keys are ignored); - for standard input
  a hotness file of the same model, known by its content: its counts are merged
An id outside the vocabulary is an error that says where it stands.

The order is by count, and by id where counts are equal. So ids that occur in no trace come last, lowest id
first: a BPE vocabulary gave its ids nearly in the order of frequency. Smoothing credits each id alike, so
that it changes no order, only the shares that `show` tells. Hot sets are of blocks of 64 ids, whose counts
tell their shares well without it.

Examples:
  croupier hotset build chat.i32 --vocab 151936 --model Qwen3 -o qwen3.hot
  croupier hotset build qwen3.hot --weight 0.5 new.jsonl --weight 1 \
      --vocab 151936 --model Qwen3 -o next.hot

docs/hotsets.md says it all.)";

constexpr const char* kShowHelp = R"(Examples:
  croupier hotset show qwen3.hot
  croupier hotset show qwen3.hot --vocab 151936 --tp 8
      and how many of the hot ids each of 8 ranks owns

docs/hotsets.md says it all.)";

constexpr const char* kSizeHelp =
    R"(Draws from the rows, laid in hotness order, by the sampler itself: one core, summaries on, no filter. A hot
set's tokens are bounded one by one, the tail by the largest logit of each block of 64.
  alpha      share of the rows' mass in the hot set
  rho        proposals that a draw is expected to need
  at once    draws that took their first proposal, a hot one
  proposals  and blocks of 64 that were read, for each draw
  hot        what such a draw costs

The hot path is fitted by c0 + c H, the rest by t for each further proposal: F(H) = c0 + c H + t (rho(H) - 1).
H* is where F stands still, then the cheaper of its two neighbours among the sizes. "row's" is what a request
gets that names no hot set: each row chooses its blocks itself. It is no part of the model.
Each time is the mean of the middle half of the rounds; a round takes all sizes in turn.

Examples:
  croupier hotset size --rows rows.bf16 --hot model.hot --html size.html
  croupier hotset size --rows rows.bf16 --hot model.hot --temperature 1 \
      --sizes 2048,4096,8192,16384

docs/hotsets.md says it all.)";

int run(const std::function<void()>& work, bool json) {
    try {
        work();
        return 0;
    } catch (const std::exception& error) {
        if (json) {
            std::cout << explain::Json{{"error", error.what()}}.dump(-1, ' ', false,
                                                                     explain::Json::error_handler_t::replace)
                      << "\n";
        } else {
            std::cerr << "hotset: " << error.what() << "\n";
        }
        return 1;
    }
}

void add_build(CLI::App& hotset, int& status) {
    auto* build = hotset.add_subcommand("build", "A hotness order from token traces");
    build->footer(kBuildHelp);
    auto options = std::make_shared<BuildOptions>();
    build->add_option("traces", options->traces, "Token traces, counted together")->required();
    build
        ->add_option("--weight", options->weights,
                     "A trace counts so many times; one for each, in their order (default: all 1)")
        ->allow_extra_args(false);
    build->add_option("--vocab", options->model.vocab, "Ids in the model's vocabulary")->required();
    build->add_option("--model", options->model.name, "The model's name, kept in the file")->required();
    build->add_option("--smoothing", options->smoothing, "Occurrences that each id is credited with")
        ->capture_default_str();
    build->add_option("-o,--output", options->output, "The file to write; it is replaced whole")->required();
    build->add_flag("--json", options->json, "One JSON object");
    build->callback([options, &status] { status = run([&] { build_hotness(*options); }, options->json); });
}

void add_show(CLI::App& hotset, int& status) {
    auto* show = hotset.add_subcommand("show", "A hotness file's header, and what its prefixes cover");
    show->footer(kShowHelp);
    auto options = std::make_shared<ShowOptions>();
    show->add_option("file", options->file, "A file that `croupier hotset build` wrote")->required();
    show->add_option("--vocab", options->vocab, "Refuse the file when its vocabulary has another size");
    show->add_option("--tp", options->tp, "Cut the order among so many ranks")->capture_default_str();
    show->add_option("--tokenizer", options->tokenizer,
                     "The model's tokenizer.json: the hottest tokens are shown as text too");
    show->add_flag("--json", options->json, "One JSON object");
    show->callback([options, &status] { status = run([&] { show_hotness(*options); }, options->json); });
}

void write_json(const std::string& path, const std::string& json) {
    std::ofstream file(path);
    file << json;
    if (!file.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

void size_hot_set(const SizeOptions& options) {
    const SizeResults results = measure_sizes(options);
    if (!options.json.empty()) write_json(options.json, size_json(results));
    if (!options.page.empty()) html::write_page(options.page, size_page(results));
    std::cout << size_table(results);
}

void add_size(CLI::App& hotset, int& status) {
    auto* size = hotset.add_subcommand("size", "Which size of a hot set draws fastest on this machine");
    size->footer(kSizeHelp);
    auto options = std::make_shared<SizeOptions>();
    size->add_option("--rows", options->rows, "Files of bf16 rows, one after another")->required();
    size->add_option("--hot", options->hot, "Hotness order: a file of `croupier hotset build`, or int32 ids")
        ->required();
    size->add_option("--vocab", options->vocab, "Logits a row")->capture_default_str();
    size->add_option("--temperature", options->temperature, "Of the draws")->capture_default_str();
    size->add_option("--rounds", options->rounds, "Draws of each row at each size")->capture_default_str();
    size->add_option("--sizes", options->sizes, "Hot sets to measure (default: 256 to all, in half octaves)")
        ->delimiter(',')
        ->expected(1, 64);
    size->add_option("--json", options->json, "Write the results as one JSON object");
    size->add_option("--html", options->page, "Write a page with plots, which needs nothing else");
    size->callback([options, &status] { status = run([&] { size_hot_set(*options); }, false); });
}

}  // namespace

void add_hotset_commands(CLI::App& app, int& status) {
    auto* hotset = app.add_subcommand("hotset", "Hotness orders: which ids of a model occur most");
    hotset->require_subcommand(1);
    add_build(*hotset, status);
    add_show(*hotset, status);
    add_size(*hotset, status);
    hotset->footer(kHelp);
}

}  // namespace croupier::tools
