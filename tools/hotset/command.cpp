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
      show which share of the tokens each prefix of the order covers
  croupier hotset size --rows rows.bf16 --hot qwen3.hot
      find the fastest size of a hot set on this machine

docs/hotsets.md explains when a hot set helps.)";

constexpr const char* kBuildHelp = R"(Traces:
  NAME.i32      token ids, little-endian int32, nothing else
  NAME.jsonl    each line is a list of ids, or an object with ids in any of
                tokens, prompt, output, history and next (lists or single
                ids; other keys are ignored); - for standard input
  a hotness file of the same model (recognised by its content): its counts are
                added
An id outside the vocabulary is an error, which names its position.

Ids are ordered by count, and by id if counts are equal. So ids that occur in no trace come last, lowest id
first, which suits BPE vocabularies: their ids are roughly in the order of frequency. Smoothing adds the same
count to every id. It does not change the order, only the shares that `show` prints.

Examples:
  croupier hotset build chat.i32 --vocab 151936 --model Qwen3 -o qwen3.hot
  croupier hotset build qwen3.hot --weight 0.5 new.jsonl --weight 1 \
      --vocab 151936 --model Qwen3 -o next.hot

docs/hotsets.md is the reference.)";

constexpr const char* kShowHelp = R"(Examples:
  croupier hotset show qwen3.hot
  croupier hotset show qwen3.hot --vocab 151936 --tp 8
      also show how many hot blocks each of 8 ranks owns

docs/hotsets.md is the reference.)";

constexpr const char* kSizeHelp =
    R"(Draws tokens from rows in hotness order with the sampler's own code, on one core, with summaries and without
filters. Tokens of the hot set have individual bounds; the tail is bounded by the largest logit of each block.
  alpha      share of the rows' probability mass in the hot set
  rho        expected number of proposals per draw
  at once    share of draws that accepted their first proposal from the hot set
  proposals  measured proposals per draw
  blocks     blocks of 64 ids read per draw
  hot us     time of a draw that accepted its first proposal from the hot set
  mean us    mean time of all draws
  F(H) us    time predicted by the model

The model is F(H) = c0 + c H + t (rho(H) - 1): the hot path costs c0 + c H, and each further proposal t. H* is
the measured size next to the minimum of F with the smaller F. The line "per row" is for requests without a
hot set, for which each row chooses its own blocks; it is not part of the model. Each time is the mean of the
middle half of the rounds; each round measures all sizes.

Examples:
  croupier hotset size --rows rows.bf16 --hot model.hot --html size.html
  croupier hotset size --rows rows.bf16 --hot model.hot --temperature 1 \
      --sizes 2048,4096,8192,16384

docs/hotsets.md is the reference.)";

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
    auto* build = hotset.add_subcommand("build", "Build a hotness order from token traces");
    build->footer(kBuildHelp);
    auto options = std::make_shared<BuildOptions>();
    build->add_option("traces", options->traces, "Token traces; their counts are added")->required();
    build
        ->add_option("--weight", options->weights,
                     "Weight of a trace's counts; give one per trace, in order (default: 1)")
        ->allow_extra_args(false);
    build->add_option("--vocab", options->model.vocab, "Size of the model's vocabulary")->required();
    build->add_option("--model", options->model.name, "Name of the model, stored in the file")->required();
    build->add_option("--smoothing", options->smoothing, "Count added to every id")->capture_default_str();
    build->add_option("-o,--output", options->output, "Output file, replaced atomically")->required();
    build->add_flag("--json", options->json, "Print one JSON object");
    build->callback([options, &status] { status = run([&] { build_hotness(*options); }, options->json); });
}

void add_show(CLI::App& hotset, int& status) {
    auto* show = hotset.add_subcommand("show", "Show a hotness file and the shares that its prefixes cover");
    show->footer(kShowHelp);
    auto options = std::make_shared<ShowOptions>();
    show->add_option("file", options->file, "A file of `croupier hotset build`")->required();
    show->add_option("--vocab", options->vocab, "Fail if the file has another vocabulary size");
    show->add_option("--tp", options->tp, "Number of ranks that share the vocabulary")->capture_default_str();
    show->add_option("--tokenizer", options->tokenizer,
                     "The model's tokenizer.json or tiktoken file, to show tokens as text too");
    show->add_flag("--json", options->json, "Print one JSON object");
    show->callback([options, &status] { status = run([&] { show_hotness(*options); }, options->json); });
}

void write_json(const std::string& path, const std::string& json) {
    std::ofstream file(path);
    file << json;
    if (!file.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

void size_hot_set(const SizeOptions& options) {
    const SizeResults results = measure_sizes(options);
    if (!options.save.empty()) write_json(options.save, size_json(results));
    if (!options.page.empty()) html::write_page(options.page, size_page(results));
    std::cout << (options.json ? size_json(results) : size_table(results));
}

void add_size(CLI::App& hotset, int& status) {
    auto* size = hotset.add_subcommand("size", "Find the fastest size of a hot set on this machine");
    size->footer(kSizeHelp);
    auto options = std::make_shared<SizeOptions>();
    size->add_option("--rows", options->rows, "Files with bf16 rows")->required();
    size->add_option("--hot", options->hot, "Hotness order: a file of `croupier hotset build`, or int32 ids")
        ->required();
    size->add_option("--vocab", options->vocab, "Logits per row")->capture_default_str();
    size->add_option("--temperature", options->temperature, "Temperature of the draws")
        ->capture_default_str();
    size->add_option("--rounds", options->rounds, "Draws per row and size")->capture_default_str();
    size->add_option("--sizes", options->sizes, "Sizes to measure (default: 256 to --vocab, two per octave)")
        ->delimiter(',')
        ->expected(1, 64);
    size->add_flag("--json", options->json, "Print one JSON object");
    size->add_option("--save", options->save, "Write the results to this file as JSON");
    size->add_option("--html", options->page, "Write a self-contained HTML page with plots");
    size->callback([options, &status] { status = run([&] { size_hot_set(*options); }, options->json); });
}

}  // namespace

void add_hotset_commands(CLI::App& app, int& status) {
    auto* hotset =
        app.add_subcommand("hotset", "Build, show and size hot sets, the most frequent ids of a model");
    hotset->require_subcommand(1);
    add_build(*hotset, status);
    add_show(*hotset, status);
    add_size(*hotset, status);
    hotset->footer(kHelp);
}

}  // namespace croupier::tools
