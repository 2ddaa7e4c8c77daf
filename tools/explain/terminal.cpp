#include "tools/explain/terminal.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace croupier::tools {
namespace {

constexpr std::size_t kBarColumn = 24;
constexpr std::size_t kStepColumns = 45;  // what stands before the text of what a step did

std::string bar(double share, std::size_t width, const TerminalStyle& style) {
    const double cells = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
    if (!style.blocks) return std::string(static_cast<std::size_t>(std::lround(cells)), '#');
    constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto eighths = static_cast<std::size_t>(std::lround(cells * 8.0));
    std::string text;
    for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
    return text + kEighths[eighths % 8];
}

std::string head(const Explained& e, const TerminalStyle& style) {
    const auto& logprob = e.drawn_logprob();
    std::string text = painted(fmt::format("token {}", e.outcome.decision.token), "1;32", style);
    text += fmt::format(" at position {}, seed {}, from a row of {} logits in {}\n", e.position, e.seed,
                        e.vocab, e.dtype);
    text += fmt::format("  probability {:.6g}, log-prob {:.6g}, rank {}, flags: {}\n", e.drawn().after,
                        logprob.logprob, logprob.rank, flags_in_words(e));
    text += fmt::format("  {}\n", e.chooser);
    const bool same = e.fast.token == e.outcome.decision.token;
    text += fmt::format("  the daemon's code took the path '{}' to {}\n", e.fast.path,
                        same ? std::string("the same token")
                             : fmt::format("ANOTHER token, {}: please report this", e.fast.token));
    return text;
}

std::string steps(const Explained& e, const TerminalStyle& style) {
    std::string text =
        painted(fmt::format("{:<18} {:>11} {:>11}   {}\n", "step", "tokens left", "mass left", "what it did"),
                "1", style);
    for (const auto& step : e.outcome.account) {
        text += fmt::format("{:<18} {:>11} {:>11.6f}   {}\n", step.step, step.tokens_left, step.mass_left,
                            wrapped(step.did, kStepColumns, style.width));
    }
    return text;
}

std::string picture(const Explained& e, const TerminalStyle& style) {
    double tallest = 0.0;
    std::size_t longest = 0;
    for (const TokenShare& each : e.top) {
        tallest = std::max(tallest, each.after);
        longest = std::max(longest, standing_in_words(each).size());
    }
    const std::size_t taken = kBarColumn + longest + 4;
    const std::size_t room = std::clamp<std::size_t>(style.width, taken + 10, taken + 90) - taken;
    std::string text = painted(fmt::format("{:>10}  {:>10}\n", "id", "drawn from"), "1", style);
    for (const TokenShare& each : e.top) {
        const std::string standing = standing_in_words(each);
        const std::string line = fmt::format("{} {:>8}  {:>10.6f}  {}", each.drawn ? ">" : " ", each.token,
                                             each.after, bar(each.after / tallest, room, style)) +
                                 (standing.empty() ? "" : "  (" + standing + ")");
        text += (each.drawn ? painted(line, "32", style) : line) + "\n";
    }
    if (const std::size_t more = e.outcome.support.size() - e.top.size(); more > 0) {
        text += fmt::format("  {} more tokens, {:.6f} together\n", more, e.others);
    }
    return text;
}

}  // namespace

std::string to_terminal(const Explained& explained, const TerminalStyle& style) {
    return head(explained, style) + "\n" + steps(explained, style) + "\n" + picture(explained, style);
}

}  // namespace croupier::tools
