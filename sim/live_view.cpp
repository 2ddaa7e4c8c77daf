#include "sim/live_view.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <vector>

#include "command_line/text_width.h"
#include "shm/clock.h"
#include "sim/report_text.h"

namespace croupier::sim {
namespace {

constexpr std::uint64_t kRefreshNs = 200'000'000;
constexpr std::uint64_t kPlainRefreshNs = 2'000'000'000;  // each update of a file or a pipe is a new line
constexpr unsigned kBar = 20;

std::string bar_of(double share) {
    const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBar);
    char percent[16];
    (void)std::snprintf(percent, sizeof(percent), "] %3.0f %%", 100.0 * share);
    return "[" + std::string(full, '#') + std::string(kBar - full, '.') + percent;
}

// Joins as many parts as fit; the parts are ordered by importance.
std::string joined(const std::vector<std::string>& parts, std::size_t width) {
    std::string line;
    for (const std::string& part : parts) {
        const std::size_t gap = line.empty() ? 0 : 2;
        if (line.size() + gap + part.size() > width) break;
        line += std::string(gap, ' ') + part;
    }
    return line;
}

}  // namespace

LiveView::LiveView(const World& world) : world_(world), terminal_(::isatty(STDOUT_FILENO) != 0) {
    on_ = !world.options.json && (terminal_ || world.options.demo);
}

std::string LiveView::line(std::uint32_t kills) const {
    const LedgerHead& head = world_.ledger.head();
    const std::uint64_t tokens = head.tokens.load();
    const std::uint64_t differ = head.mismatched.load();
    const std::uint64_t checked = head.verified.load() + differ;
    const bool serves = head.served.load() == 0;
    const double seconds = static_cast<double>(head.last_step_ns.load() - head.first_step_ns.load()) * 1e-9;
    const double rate = seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
    const double served = world_.ledger.progress();
    const double verified = tokens == 0 ? 1.0 : static_cast<double>(checked) / static_cast<double>(tokens);
    char step[64];
    (void)std::snprintf(step, sizeof(step), "step p50 %.1f ms",
                        static_cast<double>(head.step_latency.percentile_ns(0.50)) * 1e-6);
    // The size of a sample is not known in advance.
    const bool samples = !serves && world_.options.verification == Verification::sample;
    std::vector<std::string> parts = {samples ? "verifying a sample" : bar_of(serves ? served : verified)};
    if (differ > 0) parts.push_back(with_commas(differ) + " DIFFER");
    if (serves) parts.push_back(with_commas(static_cast<std::uint64_t>(rate)) + " tokens/s");
    parts.push_back(with_commas(checked) + (serves ? "" : " of " + with_commas(tokens)) + " verified");
    if (kills > 0) parts.push_back(std::to_string(kills) + (kills == 1 ? " kill" : " kills"));
    if (serves) parts.emplace_back(step);
    if (serves) parts.push_back(with_commas(head.live.load()) + " requests");
    // The last column stays free: there the cursor would move to the next line.
    return joined(parts, command_line::terminal_width(STDOUT_FILENO) - 1);
}

void LiveView::show(std::uint32_t kills) {
    const std::uint64_t now = shm::monotonic_ns();
    const bool has_begun = world_.ledger.head().last_step_ns.load() != 0;
    if (!on_ || !has_begun || now - shown_ns_ < (terminal_ ? kRefreshNs : kPlainRefreshNs)) return;
    shown_ns_ = now;
    if (terminal_) {
        std::cout << "\r\033[K" << line(kills) << std::flush;
    } else {
        std::cout << line(kills) << std::endl;
    }
}

void LiveView::finish() {
    if (on_ && terminal_) std::cout << "\r\033[K" << std::flush;
}

}  // namespace croupier::sim
