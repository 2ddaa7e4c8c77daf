#include "tools/explain/terminal.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "command_line/text_width.h"
#include "text/shown_text.h"

namespace croupier::tools {
namespace {

constexpr std::size_t kBarColumn = 24;
constexpr std::size_t kLeastText = 8;  // width of a token's text
constexpr std::size_t kMostText = 32;
constexpr std::size_t kStepColumns = 45;  // width of the columns before a step's text

std::string bar(double share, std::size_t width, const TerminalStyle& style) {
    const double cells = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
    if (!style.blocks) return std::string(static_cast<std::size_t>(std::lround(cells)), '#');
    constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto eighths = static_cast<std::size_t>(std::lround(cells * 8.0));
    std::string text;
    for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
    return text + kEighths[eighths % 8];
}

std::string head(const explain::Explained& e, const TerminalStyle& style) {
    const auto& logprob = e.drawn_logprob();
    const std::string name = fmt::format("token {}", e.outcome.decision.token);
    std::string text = painted(e.text.empty() ? name : name + " " + e.text, "1;32", style);
    text += fmt::format(" at position {}, seed {}, from a row of {} logits in {}\n", e.position, e.seed,
                        e.vocab, e.dtype);
    text += fmt::format("  probability {:.6g}, log-prob {:.6g}, rank {}, flags: {}\n", e.drawn().after,
                        logprob.logprob, logprob.rank, explain::flags_in_words(e));
    text += fmt::format("  {}\n", e.chooser);
    const bool same = e.fast.token == e.outcome.decision.token;
    text += fmt::format("  the daemon's code used path '{}' and chose {}\n", e.fast.path,
                        same ? std::string("the same token")
                             : fmt::format("a DIFFERENT token, {}: please report this bug", e.fast.token));
    if (const std::string agreement = explain::agreement_in_words(e); !agreement.empty())
        text += "  the daemon: " + agreement + "\n";
    if (!e.history.empty()) text += "  after: " + e.history + "\n";
    if (const std::string stops = explain::stops_in_words(e); !stops.empty()) text += "  " + stops + "\n";
    if (!e.note.empty()) text += "  " + e.note + "\n";
    return text;
}

std::string steps(const explain::Explained& e, const TerminalStyle& style) {
    std::string text = painted(
        fmt::format("{:<18} {:>11} {:>11}   {}\n", "step", "tokens left", "mass left", "result"), "1", style);
    for (const auto& step : e.outcome.account) {
        text += fmt::format("{:<18} {:>11} {:>11.6f}   {}\n", step.step, step.tokens_left, step.mass_left,
                            command_line::wrapped(step.did, kStepColumns, style.width));
    }
    return text;
}

// The text after a token's bar: the token as text, and its role in the request.
std::string label(const explain::TokenShare& share, const TerminalStyle& style) {
    const std::string standing = explain::standing_in_words(share);
    std::string text = text::cut_to(share.text, std::clamp(style.width / 3, kLeastText, kMostText));
    if (standing.empty()) return text;
    return (text.empty() ? "" : text + " ") + "(" + standing + ")";
}

std::string picture(const explain::Explained& e, const TerminalStyle& style) {
    double tallest = 0.0;
    std::size_t longest = 0;
    for (const explain::TokenShare& each : e.top) {
        tallest = std::max(tallest, each.after);
        longest = std::max(longest, text::columns_of(label(each, style)));
    }
    const std::size_t taken = kBarColumn + longest + 2;
    const std::size_t room = std::clamp<std::size_t>(style.width, taken + 10, taken + 90) - taken;
    std::string text = painted(fmt::format("{:>10}  {:>10}\n", "id", "probability"), "1", style);
    for (const explain::TokenShare& each : e.top) {
        const std::string named = label(each, style);
        const std::string line = fmt::format("{} {:>8}  {:>10.6f}  {}", each.drawn ? ">" : " ", each.token,
                                             each.after, bar(each.after / tallest, room, style)) +
                                 (named.empty() ? "" : "  " + named);
        text += (each.drawn ? painted(line, "32", style) : line) + "\n";
    }
    if (const std::size_t more = e.outcome.support.size() - e.top.size(); more > 0) {
        text += fmt::format("  {} more tokens, {:.6f} together\n", more, e.others);
    }
    return text;
}

}  // namespace

std::string to_terminal(const explain::Explained& explained, const TerminalStyle& style) {
    return head(explained, style) + "\n" + steps(explained, style) + "\n" + picture(explained, style);
}

}  // namespace croupier::tools
