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
    std::string content = frame(tallest, "token id; grey: the row as it came, coloured: what was drawn from");
    const double step = kPlotWidth / static_cast<double>(e.top.size());
    const double half = std::min(step * 0.4, 24.0);
    double middle = kLeft + step / 2;
    for (const TokenShare& each : e.top) {
        std::string title = fmt::format("token {}: {:.6g} before, {:.6g} after{}", each.token, each.before,
                                        each.after, each.drawn ? ", drawn" : "");
        const std::string standing = standing_in_words(each);
        if (!standing.empty()) title += " (" + standing + ")";
        content += column("before", middle - half, half, each.before / tallest, title);
        content += column(each.drawn ? "drawn" : "after", middle, half, each.after / tallest, title);
        content += fmt::format("<text x=\"{0:.1f}\" y=\"{1}\" text-anchor=\"middle\"{3}>{2}</text>\n", middle,
                               y_of(0) + 14, each.token, each.drawn ? " font-weight=\"bold\"" : "");
        middle += step;
    }
    return svg("The distribution before and after", content);
}

// A long tail would press the head into one pixel: the canonical order is shown on a logarithmic scale.
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

std::string cumulative(const Explained& e) {
    return svg("The running probability", frame(1.0, "tokens in canonical order (logarithmic)") + curve(e));
}

std::string steps(const Explained& e) {
    std::string rows;
    for (const auto& step : e.outcome.account) {
        rows += fmt::format(
            "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{:.6f}</td><td>{}</td></tr>\n",
            escaped(step.step), step.tokens_left, step.mass_left, escaped(step.did));
    }
    return "<div class=\"wide\"><table>\n<tr><th>step</th><th>tokens left</th><th>mass left</th><th>what it "
           "did</th></tr>\n" +
           rows + "</table></div>\n";
}

std::string likeliest(const Explained& e) {
    std::string rows;
    for (const TokenShare& each : e.top) {
        const std::string text = each.text.empty() ? "" : "<code>" + escaped(each.text) + "</code>";
        rows += fmt::format(
            "<tr{}><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{:.6f}</td>"
            "<td class=\"number\">{:.6f}</td><td>{}</td></tr>\n",
            each.drawn ? " class=\"chosen\"" : "", each.token, text, each.before, each.after,
            standing_in_words(each));
    }
    std::string table =
        "<div class=\"wide\"><table>\n<tr><th>id</th><th>text</th><th>in the row</th><th>drawn from</th>"
        "<th>stands</th></tr>\n" +
        rows + "</table></div>\n";
    const std::size_t more = e.outcome.support.size() - e.top.size();
    if (more > 0) table += fmt::format("<p>{} more tokens, {:.6f} together.</p>\n", more, e.others);
    return table;
}

std::string summary(const Explained& e) {
    const auto& logprob = e.drawn_logprob();
    std::string text = fmt::format(
        "<p>Position {}, seed {}, a row of {} logits in {}; {} tokens were left to draw from.</p>\n",
        e.position, e.seed, e.vocab, e.dtype, e.outcome.support.size());
    text +=
        fmt::format("<p>Its probability was {:.6g}, its log-prob is {:.6g}, its rank {}. Flags: {}.</p>\n",
                    e.drawn().after, logprob.logprob, logprob.rank, flags_in_words(e));
    text += fmt::format("<p>Chosen by {}.</p>\n", escaped(e.chooser));
    if (const std::string agreement = agreement_in_words(e); !agreement.empty())
        text += fmt::format("<p>The daemon: {}.</p>\n", escaped(agreement));
    if (!e.history.empty()) text += fmt::format("<p>It follows on <code>{}</code></p>\n", escaped(e.history));
    if (!e.note.empty()) text += fmt::format("<p>{}.</p>\n", escaped(e.note));
    return text + fmt::format("<p>The daemon's code took the path <b>{}</b> to token {}.</p>\n",
                              escaped(e.fast.path), e.fast.token);
}

}  // namespace

std::string to_page(const Explained& e) {
    const std::string text = e.text.empty() ? "" : ", " + e.text;
    const std::string title = fmt::format("Why token {}{}?", e.outcome.decision.token, text);
    std::string body = summary(e) + "<h2>The distribution</h2>\n" + distribution(e);
    body += "<h2>The likeliest tokens</h2>\n" + likeliest(e);
    body += "<h2>The draw</h2>\n" + cumulative(e) + "<h2>The steps</h2>\n" + steps(e);
    return html::page(title, body);
}

}  // namespace croupier::explain
