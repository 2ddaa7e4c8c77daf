#include "explain/page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "html/canvas.h"
#include "html/page.h"

namespace croupier::explain {
namespace {

using html::escaped;
using html::kLeft;
using html::kPlotHeight;
using html::kPlotWidth;
using html::svg;
using html::y_of;

constexpr std::size_t kCurvePoints = 400;
constexpr std::size_t kNameLength = 9;  // width of a name below a bar

// The token's text in quotes, cut at a character's end if it is long; without a text, the id.
std::string name_of(const TokenShare& share) {
    if (share.text.empty()) return std::to_string(share.token);
    std::size_t end = 0;
    for (std::size_t length = 0; end < share.text.size() && length < kNameLength; ++length) {
        do ++end;
        while (end < share.text.size() && (static_cast<unsigned char>(share.text[end]) & 0xC0U) == 0x80U);
    }
    return end == share.text.size() ? share.text : share.text.substr(0, end) + "\u2026";
}

std::string frame(double tallest, const std::string& below) {
    std::string text = html::axes(below);
    for (const double part : {0.0, 0.5, 1.0}) {
        text += html::label(kLeft - 6, y_of(part) + 4, "text-anchor=\"end\"",
                            fmt::format("{:.4g}", part * tallest));
    }
    return text;
}

std::string column(const char* kind, double x, double width, double share, const std::string& title) {
    return fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" "
        "height=\"{:.2f}\"><title>{}</title></rect>\n",
        kind, x, y_of(share), width, share * kPlotHeight, title);
}

std::string distribution(const Explained& e) {
    double tallest = 0.0;
    for (const TokenShare& each : e.top) tallest = std::max({tallest, each.after, each.before});
    std::string content = frame(tallest, "grey: original row; coloured: distribution of the draw");
    const double step = kPlotWidth / static_cast<double>(e.top.size());
    const double half = std::min(step * 0.4, 24.0);
    double middle = kLeft + step / 2;
    // Names alternate between two rows because they are wider than the bars.
    bool lower = false;
    for (const TokenShare& each : e.top) {
        const std::string text = each.text.empty() ? "" : " " + escaped(each.text);
        std::string title = fmt::format("token {}{}: {:.6g} before, {:.6g} after{}", each.token, text,
                                        each.before, each.after, each.drawn ? ", drawn" : "");
        const std::string standing = standing_in_words(each);
        if (!standing.empty()) title += " (" + standing + ")";
        content += column("before", middle - half, half, each.before / tallest, title);
        content += column(each.drawn ? "drawn" : "after", middle, half, each.after / tallest, title);
        content += html::label(
            middle, y_of(0) + (lower ? 25 : 13),
            each.drawn ? "class=\"winner\" text-anchor=\"middle\"" : "text-anchor=\"middle\"", name_of(each));
        lower = !lower;
        middle += step;
    }
    return svg("The distribution before and after", content);
}

// The canonical order has a logarithmic scale: a long tail would squeeze the first tokens into one pixel.
double x_of(const Explained& e, std::size_t ended) {
    const auto count = static_cast<double>(e.running.size());
    const auto place = static_cast<double>(ended);
    return kLeft + kPlotWidth * std::log1p(place) / std::log1p(count);
}

std::string curve(const Explained& e) {
    std::string path = fmt::format("M{} {:.2f}", kLeft, y_of(0));
    double last = kLeft;
    const std::size_t count = e.running.size();
    for (std::size_t i = 0; i < count; ++i) {
        const double x = x_of(e, i + 1);
        const bool far_enough = x - last >= kPlotWidth / static_cast<double>(kCurvePoints);
        if (!far_enough && i + 1 != count) continue;
        path += fmt::format(" V{:.2f} H{:.2f}", y_of(std::min(1.0, e.running[i])), x);
        last = x;
    }
    return fmt::format("<path class=\"curve\" d=\"{}\"/>\n", path);
}

// Marks the drawn token among the remaining ones.
std::string winner(const Explained& e) {
    const auto& support = e.outcome.support;
    const auto is_drawn = [&](const auto& each) { return each.token == e.outcome.decision.token; };
    const auto place =
        static_cast<std::size_t>(std::find_if(support.begin(), support.end(), is_drawn) - support.begin());
    const double left = x_of(e, place);
    const double middle = (left + x_of(e, place + 1)) / 2;
    const bool is_right = middle > kLeft + kPlotWidth / 2;
    return fmt::format(
               "<rect class=\"part\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n", left,
               y_of(1), std::max(1.0, x_of(e, place + 1) - left), kPlotHeight) +
           html::label(middle + (is_right ? -8 : 8), y_of(0.5),
                       is_right ? "class=\"winner\" text-anchor=\"end\"" : "class=\"winner\"",
                       fmt::format("{}, {} of {}", name_of(e.drawn()), place + 1, support.size()));
}

std::string draw(const Explained& e) {
    std::string text = fmt::format("<p>Token {}", e.outcome.decision.token);
    if (!e.text.empty()) text += fmt::format(" <code>{}</code>", escaped(e.text));
    text +=
        fmt::format(" won, with a probability of {:.6g}, by {}.</p>\n", e.drawn().after, escaped(e.chooser));
    return text +
           svg("Cumulative probability and the drawn token",
               frame(1.0, "cumulative probability in canonical order (logarithmic)") + curve(e) + winner(e));
}

std::string steps(const Explained& e) {
    std::string rows;
    for (const auto& step : e.outcome.account) {
        rows += fmt::format(
            "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{:.6f}</td><td>{}</td></tr>\n",
            escaped(step.step), step.tokens_left, step.mass_left, escaped(step.did));
    }
    return "<div class=\"wide\"><table>\n<tr><th>step</th><th>tokens left</th><th>mass "
           "left</th><th>result</th></tr>\n" +
           rows + "</table></div>\n";
}

std::string row_of(const TokenShare& share, const char* kind, const std::string& drawn_from) {
    const std::string text = share.text.empty() ? "" : "<code>" + escaped(share.text) + "</code>";
    return fmt::format(
        "<tr{}><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{:.6f}</td>"
        "<td class=\"number\">{}</td><td>{}</td></tr>\n",
        kind, share.token, text, share.before, drawn_from, standing_in_words(share));
}

std::string likeliest(const Explained& e) {
    std::string rows;
    for (const TokenShare& each : e.top)
        rows += row_of(each, each.drawn ? " class=\"chosen\"" : "", fmt::format("{:.6f}", each.after));
    for (const TokenShare& each : e.cut) rows += row_of(each, " class=\"cut\"", "cut");
    std::string table =
        "<div class=\"wide\"><table>\n<tr><th>id</th><th>text</th><th>in the row</th><th>in the draw</th>"
        "<th>stands</th></tr>\n" +
        rows + "</table></div>\n";
    const std::size_t more = e.outcome.support.size() - e.top.size();
    if (more > 0)
        table += fmt::format("<p>{} more tokens remained, with a probability of {:.6f} together.</p>\n", more,
                             e.others);
    if (const std::size_t cut = e.vocab - e.outcome.support.size(); cut > 0)
        table += fmt::format("<p>{} tokens were cut; the most likely of them are grey.</p>\n", cut);
    return table;
}

std::string summary(const Explained& e) {
    const auto& logprob = e.drawn_logprob();
    std::string text = fmt::format(
        "<p>Position {}, seed {}, a row of {} logits in {}; {} tokens remained for the draw.</p>\n",
        e.position, e.seed, e.vocab, e.dtype, e.outcome.support.size());
    text += fmt::format("<p>Probability {:.6g}, log-prob {:.6g}, rank {}, flags: {}.</p>\n", e.drawn().after,
                        logprob.logprob, logprob.rank, flags_in_words(e));
    if (const std::string agreement = agreement_in_words(e); !agreement.empty())
        text += fmt::format("<p>The daemon: {}.</p>\n", escaped(agreement));
    if (!e.history.empty()) text += fmt::format("<p>It follows <code>{}</code></p>\n", escaped(e.history));
    if (const std::string stops = stops_in_words(e); !stops.empty())
        text += fmt::format("<p>It has {}.</p>\n", escaped(stops));
    if (!e.note.empty()) text += fmt::format("<p>{}.</p>\n", escaped(e.note));
    return text + fmt::format("<p>The daemon's code used path <b>{}</b> and chose token {}.</p>\n",
                              escaped(e.fast.path), e.fast.token);
}

}  // namespace

std::string to_page(const Explained& e) {
    const std::string text = e.text.empty() ? "" : ", " + e.text;
    const std::string title = fmt::format("Why token {}{}?", e.outcome.decision.token, text);
    std::string body = summary(e) + "<h2>The distribution</h2>\n" + distribution(e);
    body += "<h2>The most likely tokens</h2>\n" + likeliest(e);
    body += "<h2>The draw</h2>\n" + draw(e) + "<h2>The steps</h2>\n" + steps(e);
    return html::page(title, body);
}

}  // namespace croupier::explain
