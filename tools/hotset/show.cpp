#include "tools/hotset/show.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "explain/fields.h"
#include "explain/token_texts.h"
#include "hot_sets/coverage.h"
#include "shm/hotness_file.h"
#include "tools/terminal_style.h"

namespace croupier::tools {
namespace {

constexpr std::size_t kHottest = 10;
constexpr int kRows = 10;
constexpr std::size_t kColumn = 8;  // width of a prefix's column in the chart
constexpr std::size_t kBar = 3;

std::string facts(const ShowOptions& options, const shm::HotnessFile& file) {
    const proto::HotnessOrder& order = file.order;
    return fmt::format(
        "{}: the hotness order of '{}'\n"
        "  format version {}, checksum {:016x}\n"
        "  {} ids, {} of them counted\n"
        "  {:.10g} tokens counted; smoothing adds {:g} to each id\n",
        options.file, order.model, file.header.version, file.header.checksum, order.ids.size(),
        hot_sets::ids_counted(order), order.counted(), order.smoothing);
}

std::string table(const std::vector<hot_sets::Coverage>& rows, std::uint32_t tp) {
    std::string text = fmt::format("{:>10} {:>10} {:>10}", "hot ids", "counted", "smoothed");
    text += tp > 1 ? fmt::format("   hot blocks per rank, {} ranks\n", tp) : "\n";
    for (const hot_sets::Coverage& row : rows) {
        text += fmt::format("{:>10} {:>9.2f}% {:>9.2f}%", row.hot, 100 * row.counted, 100 * row.smoothed);
        if (tp > 1) {
            const auto [least, most] = std::minmax_element(row.prefixes.begin(), row.prefixes.end());
            text += fmt::format("   {} to {}", *least, *most);
        }
        text += "\n";
    }
    return text;
}

// One cell of a column: fills the covered part of this row's tenth.
std::string cell(double covered, int row, const TerminalStyle& style) {
    const double tenths = std::clamp(covered * kRows - row, 0.0, 1.0);
    if (!style.blocks) return tenths >= 0.5 ? "#" : " ";
    constexpr std::array<const char*, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    return kEighths[static_cast<std::size_t>(std::lround(tenths * 8.0))];
}

std::string picture(const std::vector<hot_sets::Coverage>& columns, const TerminalStyle& style) {
    std::string text;
    for (int row = kRows - 1; row >= 0; --row) {
        text += row % 5 == 4 ? fmt::format("{:>4}% |", (row + 1) * 100 / kRows) : "      |";
        for (const hot_sets::Coverage& column : columns) {
            const std::string filled = cell(column.smoothed, row, style);
            text += std::string(kColumn - kBar, ' ');
            for (std::size_t i = 0; i < kBar; ++i) text += filled;
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += "\n";
    }
    text += "   0% +" + std::string(columns.size() * kColumn, '-') + "\n       ";
    for (const hot_sets::Coverage& column : columns) text += fmt::format("{:>{}}", column.hot, kColumn);
    return text + "\n       share of the tokens (smoothed) in a hot set of this many ids\n";
}

std::string hottest(const proto::HotnessOrder& order, const explain::TokenTexts& texts) {
    std::string text = "hottest:";
    for (std::size_t i = 0; i < std::min(kHottest, order.ids.size()); ++i) {
        const std::string named = texts.shown(static_cast<std::int32_t>(order.ids[i]));
        text += fmt::format("{} {}{} ({:.10g})", i == 0 ? "" : ",", order.ids[i],
                            named.empty() ? "" : " " + named, order.counts[i]);
    }
    return text + "\n";
}

nlohmann::ordered_json to_json(const ShowOptions& options, const shm::HotnessFile& file,
                               const std::vector<hot_sets::Coverage>& rows,
                               const explain::TokenTexts& texts) {
    const proto::HotnessOrder& order = file.order;
    nlohmann::ordered_json all = {{"file", options.file},
                                  {"version", file.header.version},
                                  {"checksum", fmt::format("{:016x}", file.header.checksum)}};
    all.update(hot_sets::facts_json(order));
    for (const hot_sets::Coverage& row : rows) {
        all["coverage"].push_back({{"hot", row.hot},
                                   {"counted", row.counted},
                                   {"smoothed", row.smoothed},
                                   {"prefixes", row.prefixes}});
    }
    for (std::size_t i = 0; i < std::min(kHottest, order.ids.size()); ++i) {
        nlohmann::ordered_json each = {{"id", order.ids[i]}, {"count", order.counts[i]}};
        const std::string named = texts.shown(static_cast<std::int32_t>(order.ids[i]));
        if (!named.empty()) each["text"] = named;
        all["hottest"].push_back(std::move(each));
    }
    return all;
}

}  // namespace

void show_hotness(const ShowOptions& options) {
    const auto file = shm::load_hotness(options.file, options.vocab);
    if (!file) throw explain::RequestError(file.error().message);
    const auto most = std::min<std::size_t>(proto::kMaxTp, file.value().order.ids.size());
    if (options.tp < 1 || options.tp > most) {
        throw explain::RequestError("--tp is " + std::to_string(options.tp) + "; allowed: 1 to " +
                                    std::to_string(most));
    }
    const std::vector<hot_sets::Coverage> rows = hot_sets::coverage_of(file.value().order, options.tp);
    explain::TokenTexts texts;
    if (!options.tokenizer.empty()) texts = explain::TokenTexts::load(options.tokenizer);
    texts.check_fits(static_cast<std::uint32_t>(file.value().order.ids.size()));
    if (options.json) {
        std::cout << to_json(options, file.value(), rows, texts)
                         .dump(-1, ' ', false, explain::Json::error_handler_t::replace)
                  << "\n";
        return;
    }
    std::cout << facts(options, file.value()) << "\n"
              << table(rows, options.tp) << "\n"
              << picture(rows, style_of_stdout()) << "\n"
              << hottest(file.value().order, texts);
}

}  // namespace croupier::tools
