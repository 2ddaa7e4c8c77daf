#include "bench/text/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "bench/text/text_times.h"
#include "measurement/environment.h"
#include "testing/file_text.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Decodes tokens to text, one by one, on one thread, and prints the CPU time of a token: its bytes copied from the
table of tokens (the baseline), its text, and its text searched for stop strings.
bench/text/beside_tokenizers.py times Hugging Face's `tokenizers` with the same tokens.

Examples:
  croupier bench text --tokenizer tokenizer.json
  croupier bench text --tokenizer tokenizer.json --ids ids.i32 --json)";

struct Options {
    std::string tokenizer;
    std::string ids;
    std::size_t tokens = 1'000'000;
    std::size_t length = 512;
    std::size_t rounds = 10;
    bool json = false;
};

std::string contents_of(const std::string& path) {
    auto text = testing::text_of(path);
    if (!text) throw std::runtime_error("cannot read '" + path + "'");
    return std::move(*text);
}

// Any id is as likely as another, which is the worst for caches.
std::vector<std::int32_t> ids_of(const Options& options, std::size_t vocab) {
    std::vector<std::int32_t> ids;
    if (!options.ids.empty()) {
        const std::string bytes = contents_of(options.ids);
        ids.resize(bytes.size() / sizeof(std::int32_t));
        std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(std::int32_t));
        if (ids.empty())
            throw std::runtime_error("'" + options.ids + "' has no ids: it should be a file of int32");
        return ids;
    }
    std::mt19937_64 random(1);
    ids.resize(options.tokens);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % vocab);
    return ids;
}

int run(const Options& options) {
    const auto table = text::TokenTable::parse(contents_of(options.tokenizer));
    const auto ids = ids_of(options, table.size());
    const auto times = time_texts(table, ids, options.length, options.rounds, text_cases(table, ids));
    if (options.json) {
        nlohmann::json cases = nlohmann::json::object();
        for (const TextTime& each : times) cases[each.name] = {{"ns", each.ns}, {"bytes", each.bytes}};
        std::cout << nlohmann::json{{"cases", cases},
                                    {"vocab", table.size()},
                                    {"tokens", ids.size()},
                                    {"length", options.length},
                                    {"environment", measurement::environment()}}
                  << "\n";
        return 0;
    }
    std::cout << fmt::format("{} tokens of {} ids; {:.1f} bytes a token\n\n{:<18} {:>9} {:>8}\n", ids.size(),
                             table.size(), times.front().bytes, "", "ns/token", "x bytes");
    for (const TextTime& each : times)
        std::cout << fmt::format("{:<18} {:>9.1f} {:>8.1f}\n", each.name, each.ns,
                                 each.ns / times.front().ns);
    return 0;
}

}  // namespace

void add_text_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("text", "Measure what a token's text and stop strings cost");
    command->footer(kHelp);
    auto options = std::make_shared<Options>();
    command->add_option("--tokenizer", options->tokenizer, "A tokenizer.json or a tiktoken file")->required();
    command->add_option("--ids", options->ids, "File of token ids (int32) to decode; default: random ids");
    command->add_option("--tokens", options->tokens, "Random ids to decode")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--length", options->length, "Tokens per sequence")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--rounds", options->rounds, "Rounds, of which the fastest counts")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
