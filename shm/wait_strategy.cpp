#include "shm/wait_strategy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace croupier::shm {

std::optional<WaitMode> wait_mode_from(std::string_view name) {
    if (name == "spin") return WaitMode::spin;
    if (name == "adaptive") return WaitMode::adaptive;
    if (name == "sleep") return WaitMode::sleep;
    return std::nullopt;
}

const char* wait_mode_name(WaitMode mode) {
    switch (mode) {
        case WaitMode::spin:
            return "spin";
        case WaitMode::adaptive:
            return "adaptive";
        case WaitMode::sleep:
            return "sleep";
    }
    return "unknown";
}

void WaitStrategy::pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

bool WaitStrategy::within_patience() {
    const auto now = std::chrono::steady_clock::now();
    if (!idle_since_) idle_since_ = now;
    return now - *idle_since_ < settings_.spin;
}

}  // namespace croupier::shm
