#include "sim/chaos.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "shm/clock.h"
#include "shm/plane.h"

namespace croupier::sim {
namespace {

constexpr std::uint64_t kChaosKey = 8;
constexpr double kFirstMoment = 0.02;
constexpr double kLastMoment = 0.90;  // leaves time for the last victim to recover
constexpr std::uint32_t kSpinNs = 500'000;

}  // namespace

Chaos::Chaos(const SimOptions& options)
    : target_(options.chaos), random_(key_of(options.seed, kChaosKey, shm::monotonic_ns())) {
    for (std::uint32_t i = 0; i < options.kills; ++i) {
        moments_.push_back(kFirstMoment + (kLastMoment - kFirstMoment) * random_.unit());
    }
    std::sort(moments_.begin(), moments_.end());
}

void Chaos::await_random_moment(std::uint64_t usual_step_ns) {
    const auto part = static_cast<std::int64_t>(random_.unit() * static_cast<double>(usual_step_ns));
    std::this_thread::sleep_for(std::chrono::nanoseconds(part));
    const std::uint64_t until = shm::monotonic_ns() + random_.below(kSpinNs);
    while (shm::monotonic_ns() < until) {
    }
}

std::optional<pid_t> Chaos::pick_sampler(const std::string& shm_dir, const std::string& instance) {
    const auto plane = shm::Plane::attach(shm_dir, instance, shm::Access::read_only);
    if (!plane) return std::nullopt;
    const proto::PlaneHeader& header = plane.value().header();
    std::vector<pid_t> running;
    for (std::uint32_t i = 0; i < std::min(header.sampler_count, proto::kMaxSamplers); ++i) {
        // In this order: who runs has stored its pid.
        const bool runs = header.samplers[i].state.load() == proto::SamplerState::running;
        const pid_t pid = header.samplers[i].pid.load();
        if (runs && pid > 0 && !killed_.contains(pid)) running.push_back(pid);
    }
    if (running.empty()) return std::nullopt;
    const pid_t chosen = running[pick(static_cast<std::uint32_t>(running.size()))];
    killed_.insert(chosen);
    return chosen;
}

}  // namespace croupier::sim
