#include "daemon/control/hot_sets.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "event_log/event_log.h"

namespace croupier::daemon {

using event_log::Event;

using proto::hot_choice_of;

namespace {

void give(const shm::Segment& segment, std::uint32_t choice, std::uint32_t trial) {
    segment.header().hot_choice.store(choice, std::memory_order_relaxed);
    segment.header().hot_trial.store(trial, std::memory_order_relaxed);
}

std::array<hot_sets::HotCostSoFar, proto::kHotChoices> costs_of(const shm::Segment& segment) {
    std::array<hot_sets::HotCostSoFar, proto::kHotChoices> costs;
    for (std::size_t choice = 0; choice < costs.size(); ++choice) {
        const auto& cost = segment.header().hot_costs[choice];
        costs[choice] = {cost.draws.load(std::memory_order_relaxed), cost.ns.load(std::memory_order_relaxed)};
    }
    return costs;
}

}  // namespace

void HotSets::configure(const config::HotSet& settings) {
    if (settings == settings_) return;
    settings_ = settings;
    controllers_.clear();
}

void HotSets::begin(const shm::Segment& segment) {
    if (segment.geometry().has_order == 0) return;
    const std::uint32_t choice = hot_choice_of(settings_.size);
    give(segment, choice, choice);
}

// Goes on from what the session has: a daemon that restarts finds its predecessor's.
hot_sets::HotController& HotSets::controller_of(const shm::Segment& segment) {
    const auto& header = segment.header();
    const auto found = controllers_.find(segment.id());
    if (found != controllers_.end()) return found->second;
    const std::uint32_t all = hot_choice_of(segment.geometry().vocab);
    const std::uint32_t most = std::min(hot_choice_of(settings_.most), all);
    const std::uint32_t least = std::min(hot_choice_of(settings_.least), most);
    const hot_sets::HotBounds bounds = {least, most, settings_.hysteresis_percent / 100.0};
    const std::uint32_t first = header.hot_choice.load(std::memory_order_relaxed);
    return controllers_.try_emplace(segment.id(), bounds, first).first->second;
}

void HotSets::housekeep(const shm::Segment& segment) {
    if (!settings_.adapt) return begin(segment);
    if (segment.geometry().has_order == 0) return;
    hot_sets::HotController& controller = controller_of(segment);
    const std::uint32_t before = controller.present();
    controller.observe(costs_of(segment));
    give(segment, controller.present(), controller.tried());
    if (controller.present() == before) return;
    event_log::write(Event::hot_set_changed,
                     {{"session", segment.name()},
                      {"session_id", segment.id()},
                      {"from", proto::hot_size(before)},
                      {"to", proto::hot_size(controller.present())}},
                     "session {} ({}): the hot set of new sequences goes from {} ids to {}", segment.name(),
                     segment.id(), proto::hot_size(before), proto::hot_size(controller.present()));
}

}  // namespace croupier::daemon
