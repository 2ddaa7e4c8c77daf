#include "sim/live_view.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "shm/clock.h"

namespace croupier::sim {
namespace {

constexpr std::uint64_t kRefreshNs = 200'000'000;
constexpr std::uint64_t kPlainRefreshNs = 2'000'000'000;  // a file or a pipe gets a line each time
constexpr unsigned kBar = 24;

}  // namespace

LiveView::LiveView(const World& world) : world_(world), terminal_(::isatty(STDOUT_FILENO) != 0) {
    on_ = !world.options.json && (terminal_ || world.options.demo);
}

std::string LiveView::line(std::uint32_t kills) const {
    const LedgerHead& head = world_.ledger.head();
    const double progress =
        static_cast<double>(head.progress.load()) / static_cast<double>(world_.plan.most_tokens());
    const std::uint64_t first = head.first_step_ns.load();
    const double seconds = first == 0 ? 0.0 : static_cast<double>(head.last_step_ns.load() - first) * 1e-9;
    const double rate = seconds > 0.0 ? static_cast<double>(head.tokens.load()) / seconds : 0.0;
    std::string bar(kBar, '.');
    for (unsigned i = 0; i < kBar && (i + 1) <= static_cast<unsigned>(progress * kBar); ++i) bar[i] = '#';
    char text[256];
    (void)std::snprintf(text, sizeof(text),
                        "[%s] %3.0f %%  %6.0f tokens/s  step p50 %.1f p99 %.1f ms  live %llu  verified %llu  "
                        "mismatched %llu  kills %u",
                        bar.c_str(), 100.0 * progress, rate,
                        static_cast<double>(head.step_latency.percentile_ns(0.50)) * 1e-6,
                        static_cast<double>(head.step_latency.percentile_ns(0.99)) * 1e-6,
                        static_cast<unsigned long long>(head.live.load()),
                        static_cast<unsigned long long>(head.verified.load()),
                        static_cast<unsigned long long>(head.mismatched.load()), kills);
    return text;
}

void LiveView::show(std::uint32_t kills) {
    const std::uint64_t now = shm::monotonic_ns();
    if (!on_ || now - shown_ns_ < (terminal_ ? kRefreshNs : kPlainRefreshNs)) return;
    shown_ns_ = now;
    if (terminal_) {
        std::cout << "\r\033[K" << line(kills) << std::flush;
    } else {
        std::cout << line(kills) << std::endl;
    }
}

void LiveView::finish(std::uint32_t kills) {
    if (!on_) return;
    if (terminal_) std::cout << "\r\033[K";
    std::cout << line(kills) << "\n\n" << std::flush;
}

}  // namespace croupier::sim
