#include "html/page.h"

#include <spdlog/fmt/fmt.h>

#include <fstream>
#include <stdexcept>

namespace croupier::html {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fdfdfb; --soft: #9aa3b2; --bar: #3b6fb6; --mark: #c2410c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ee; --paper: #14171d; --soft: #6b7484; --bar: #7aa7e6; --mark: #fb923c; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 50em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin-top: 2em; }
table { border-collapse: collapse; } th, td { padding: .25em .8em; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid var(--soft); } td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; min-width: 40em; } .plot { overflow-x: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.axis { stroke: var(--soft); fill: none; } .before { fill: var(--soft); } .after { fill: var(--bar); }
.drawn { fill: var(--mark); } .curve { stroke: var(--bar); fill: none; stroke-width: 1.5; }
.mark { stroke: var(--mark); stroke-dasharray: 4 3; fill: none; }
.dot { fill: var(--bar); } .other { fill: var(--mark); } .thin { stroke: var(--mark); fill: none; }
.first { color: var(--bar); } .second { color: var(--mark); }
svg text.winner { font-weight: bold; fill: var(--mark); } tr.cut { color: var(--soft); }
tr.chosen { font-weight: bold; color: var(--mark); } p code { overflow-wrap: anywhere; }
.wide { overflow-x: auto; } @media (max-width: 30em) { th, td { padding: .25em .4em; } }
.part { fill: var(--mark); opacity: .25; }
)";

}  // namespace

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            default:
                result += c;
        }
    }
    return result;
}

std::string page(std::string_view title, std::string_view body) {
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width\"/>\n"
        "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</html>\n",
        escaped(title), kStyle, body);
}

void write_page(const std::string& path, std::string_view page) {
    std::ofstream file(path);
    file << page;
    if (!file.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

}  // namespace croupier::html
