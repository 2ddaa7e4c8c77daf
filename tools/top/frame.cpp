#include "tools/top/frame.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "tools/column_words.h"
#include "tools/printable.h"

namespace croupier::tools {
namespace {

using Rows = std::vector<std::string>;

constexpr std::string_view kSessionRow = "{:<13} {:>8} {:>7} {:>6} {:>11} {:>11} {:>11} {:>6}";
constexpr std::string_view kColumnRow = "{:>6} {:<9} {:>9} {:>6} {:<10} {:>8} {:>4} {:>8} {:>3} {}";
constexpr std::string_view kStatRow = "{:>10} {:>9} {:>9} {:>6} {:>9} {:>13}";
constexpr std::string_view kKeys = "q quit  ? help";

// Four or five characters: 812us, 1.2ms, 34ms, 5.6s.
std::string duration(std::uint64_t ns) {
    const auto us = static_cast<double>(ns) * 1e-3;
    if (us < 9.95) return fmt::format("{:.1f}us", us);
    if (us < 999.5) return fmt::format("{:.0f}us", us);
    if (us < 9'950) return fmt::format("{:.1f}ms", us * 1e-3);
    if (us < 999'500) return fmt::format("{:.0f}ms", us * 1e-3);
    if (us < 99'950'000) return fmt::format("{:.1f}s", us * 1e-6);
    return fmt::format("{:.0f}s", us * 1e-6);
}

std::string spread(const std::optional<Spread>& of) {
    return of ? duration(of->p50_ns) + "/" + duration(of->p99_ns) : "-";
}

std::string name(const std::string& of, std::size_t room) {
    const std::string shown = printable(of);
    return shown.size() <= room ? shown : shown.substr(0, room - 1) + "~";
}

std::string bar(double share, std::size_t width) {
    const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
    return std::string(full, '#') + std::string(width - full, '.');
}

std::string whole(double number) {
    return fmt::format("{:.0f}", number);
}

std::string state_of(const View& view) {
    const std::string text = "instance " + printable(view.instance);
    const auto gone = static_cast<std::uint64_t>(view.gone_for.count());
    if (view.daemon_stopped)
        return text + fmt::format(": daemon {0} is STOPPED; kill -CONT {0} lets it go on", view.daemon_pid);
    if (view.daemon_alive)
        return text + fmt::format(": daemon {}, up {}", view.daemon_pid, duration(view.up_ns));
    if (!view.fault.empty()) return text + ": " + printable(view.fault);
    return text + fmt::format(": daemon {} is GONE for {}; waiting for the next one", view.daemon_pid,
                              duration(gone));
}

std::string head(const View& view, const FrameSize& size) {
    std::string text = "croupier top  " + state_of(view);
    const std::size_t needed = text.size() + 2 + kKeys.size();
    if (size.rows > 0 && needed <= size.columns)
        text += std::string(size.columns - text.size() - kKeys.size(), ' ') + std::string(kKeys);
    return text;
}

std::string totals_row(const View& view) {
    const Totals totals = totals_of(view);
    return fmt::format(
        "{:.0f} tokens/s, {:.1f} steps/s, {:.0f} errors/s, samplers {:.0f}% busy    pairs: p50/p99",
        totals.tokens_per_second, totals.steps_per_second, totals.errors_per_second, totals.busy * 100);
}

std::string session_row(const SessionLine& line) {
    if (!line.seen.fault.empty())
        return fmt::format("{:<14} cannot be read: {}", name(line.seen.path, 40), printable(line.seen.fault));
    const std::string tokens = fmt::format("{:.0f}", line.tokens_per_second);
    const std::string steps = fmt::format("{:.1f}", line.steps_per_second);
    const std::string flight = fmt::format("{}/{}", line.seen.steps_in_flight, line.seen.geometry.slots);
    const std::string hidden = line.hidden ? fmt::format("{:.0f}%", *line.hidden * 100) : "-";
    return fmt::format(kSessionRow, name(line.seen.name, 13), tokens, steps, flight, spread(line.logits_wait),
                       spread(line.deciding), spread(line.to_be_taken), hidden);
}

std::string sampler_row(const SamplerLine& line) {
    const std::string core = line.seen.core < 0 ? "any" : std::to_string(line.seen.core);
    return fmt::format("{:>7} {:>5} {:>8}  {} {:>4.0f}% {:>10.0f} {:>9} {}", line.seen.index, core,
                       line.seen.pid, bar(line.busy, 16), line.busy * 100, line.columns_per_second,
                       line.seen.restarts, line.seen.alive ? "" : "GONE");
}

std::string rank_row(const RankLine& line) {
    std::string text = fmt::format("{:<14} rank {}", name(line.session, 14), line.rank);
    if (line.last_share) {
        text += fmt::format(" was last in {:.0f} % of the steps, by {}", *line.last_share * 100,
                            spread(line.late));
    }
    if (line.behind_ns > 0)
        text += (line.last_share ? ", is behind for " : " is behind for ") + duration(line.behind_ns);
    return text;
}

std::string column_row(const SlowColumn& line) {
    const proto::ColumnRecord& column = line.record;
    const std::uint64_t waited = column.begin_ns > column.ready_ns ? column.begin_ns - column.ready_ns : 0;
    const std::string read = fmt::format("{}/{}", column.blocks_read, column.blocks);
    return fmt::format(kColumnRow, duration(column.duration_ns), path_name(column.path), read,
                       column.ready_ns == 0 ? "-" : duration(waited), name(line.session, 10), column.step,
                       column.column, column.sequence_uid, line.sampler, fmt::join(notes_on(column), ", "));
}

struct Section {
    std::string heading;
    Rows rows;
    std::size_t shown = 0;
};

template <typename Lines, typename Row>
Section section(std::string heading, const Lines& lines, Row row) {
    Section made{std::move(heading), {}, 0};
    for (const auto& line : lines) made.rows.push_back(row(line));
    return made;
}

// Rows in turns to all sections, until each has its own or there is no room.
void deal(std::vector<Section>& sections, std::size_t room) {
    for (bool dealt = true; room > 0 && dealt;) {
        dealt = false;
        for (Section& each : sections) {
            if (room == 0 || each.shown == each.rows.size()) continue;
            ++each.shown;
            --room;
            dealt = true;
        }
    }
}

std::vector<Section> sections_of(const View& view, std::uint64_t slow_ns) {
    std::vector<Section> sections;
    sections.push_back(section(fmt::format(kSessionRow, "session", "tokens/s", "steps/s", "flight",
                                           "logits wait", "deciding", "to be taken", "hidden"),
                               view.sessions, session_row));
    if (view.sessions.empty()) sections.back().rows.emplace_back("no sessions");
    sections.push_back(section(fmt::format("{:>7} {:>5} {:>8}  {:<16} {:>5} {:>10} {:>9}", "sampler", "core",
                                           "pid", "busy", "", "columns/s", "restarts"),
                               view.samplers, sampler_row));
    sections.push_back(section("late ranks", view.ranks, rank_row));
    std::vector<SlowColumn> slow;
    std::copy_if(view.slowest.begin(), view.slowest.end(), std::back_inserter(slow),
                 [&](const SlowColumn& each) { return each.record.duration_ns >= slow_ns; });
    sections.push_back(section(fmt::format(kColumnRow, "slow", "path", "blocks", "waited", "session", "step",
                                           "col", "sequence", "by", "notes"),
                               slow, column_row));
    sections.erase(std::remove_if(sections.begin(), sections.end(),
                                  [](const Section& each) { return each.rows.empty(); }),
                   sections.end());
    return sections;
}

void fit(std::vector<FrameLine>& lines, const FrameSize& size) {
    if (size.rows > 0 && lines.size() > size.rows) lines.resize(size.rows);
    for (FrameLine& line : lines) {
        if (line.text.size() > size.columns) {
            line.text.resize(size.columns);
            if (!line.text.empty()) line.text.back() = '~';
        }
        while (line.text.ends_with(' ')) line.text.pop_back();
    }
}

}  // namespace

std::vector<FrameLine> frame_of(const View& view, const FrameSize& size, std::uint64_t slow_ns) {
    std::vector<Section> sections = sections_of(view, slow_ns);
    std::vector<FrameLine> lines = {{head(view, size), true}, {totals_row(view)}};
    if (view.lost > 0)
        lines.push_back({fmt::format("{} entries were written over before they were read", view.lost)});
    const std::size_t fixed = lines.size() + sections.size();
    const std::size_t all = ~std::size_t{0};
    deal(sections, size.rows == 0 ? all : size.rows - std::min(size.rows, fixed));
    for (const Section& each : sections) {
        const std::size_t left_out = each.rows.size() - each.shown;
        lines.push_back({each.heading + (left_out > 0 ? fmt::format("  (+{})", left_out) : ""), true});
        for (std::size_t i = 0; i < each.shown; ++i) lines.push_back({each.rows[i]});
    }
    fit(lines, size);
    return lines;
}

std::vector<FrameLine> help_frame(const FrameSize& size) {
    std::vector<FrameLine> lines = {
        {"croupier top: help", true},
        {"q             quit"},
        {"?             back to the view"},
        {""},
        {"40ms/43ms     p50/p99 of the last 5 seconds; rates are of one interval"},
        {"flight        steps in flight, of the slots that there are"},
        {"logits wait   from a step's submission to its last logits"},
        {"deciding      from then to its last decision"},
        {"to be taken   from then until the engine took it"},
        {"hidden        share of the deciding during which the engine did not wait"},
        {"busy          share of the interval in which the sampler decided"},
        {"late ranks    whose logits came last, and by how much"},
        {"slow          columns that took at least --slow-ms to decide:"},
        {"  path        how (docs/how-a-row-is-decided.md)"},
        {"  blocks      of 64 logits that were read, of those of the row"},
        {"  waited      for a sampler, after the logits had come"},
        {"  by          which sampler"}};
    fit(lines, size);
    return lines;
}

std::string stat_heading() {
    return fmt::format(kStatRow, "tokens/s", "steps/s", "errors/s", "busy", "sessions", "decide p50/99");
}

std::string stat_line(const View& view) {
    if (!view.daemon_alive || view.daemon_stopped) return state_of(view);
    const Totals totals = totals_of(view);
    return fmt::format(kStatRow, whole(totals.tokens_per_second), whole(totals.steps_per_second),
                       whole(totals.errors_per_second), whole(totals.busy * 100) + "%", view.sessions.size(),
                       spread(view.deciding));
}

}  // namespace croupier::tools
