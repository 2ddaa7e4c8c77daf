// The controller against costs that are made up: a curve over the sizes, noise, interruptions, a shift.
#include "hot_sets/controller.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace croupier::hot_sets {
namespace {

using Costs = std::array<HotCostSoFar, proto::kHotChoices>;

// Draws cost least at `best`, and more the further off a size is.
double cost_at(std::uint32_t choice, std::uint32_t best) {
    const double steps = std::abs(static_cast<double>(choice) - static_cast<double>(best));
    return 4000.0 * std::pow(1.15, steps);
}

struct Served {
    double ns = 0.0;
    std::uint64_t draws = 0;

    double mean() const { return ns / static_cast<double>(draws); }
};

// Sequences as an engine has them: each keeps the choice that it was admitted with.
class Engine {
  public:
    Engine(HotController& controller, std::uint32_t seed) : controller_(controller), random_(seed) {
        for (std::uint32_t& choice : choices_) choice = controller.present();
    }

    Served serve(std::uint32_t steps, std::uint32_t best) {
        Served served;
        for (std::uint32_t step = 0; step < steps; ++step) {
            for (std::uint32_t& choice : choices_) {
                const double cost = cost_at(choice, best) * noise();
                costs_[choice].draws += 1;
                costs_[choice].ns += static_cast<std::uint64_t>(cost);
                served.ns += cost_at(choice, best);
                ++served.draws;
                if (random_() % kMeanLength == 0) choice = admitted();
            }
            controller_.observe(costs_);
        }
        return served;
    }

  private:
    static constexpr std::uint32_t kMeanLength = 60;

    std::uint32_t admitted() {
        const bool tries = ++admissions_ % proto::kHotTrialShare == 0;
        return tries ? controller_.tried() : controller_.present();
    }
    // One draw in a thousand is interrupted.
    double noise() {
        const double slow = random_() % 1000 == 0 ? 50.0 : 1.0;
        return slow * (0.8 + 0.4 * static_cast<double>(random_() % 1000) * 1e-3);
    }

    HotController& controller_;
    std::mt19937 random_;
    std::array<std::uint32_t, 64> choices_;
    std::uint64_t admissions_ = 0;
    Costs costs_ = {};
};

}  // namespace

TEST_CASE("a controller climbs to the cheapest size from wherever it begins, and stays near") {
    const auto best = GENERATE(1U, 4U, proto::kHotChoices - 1);
    const auto first = GENERATE(1U, 5U, proto::kHotChoices - 1);
    HotController controller({1, proto::kHotChoices - 1, 0.03}, first);
    Engine engine(controller, best * 10 + first);
    engine.serve(8000, best);
    CHECK(controller.present() == best);
    const Served settled = engine.serve(8000, best);
    CHECK(controller.present() == best);
    CHECK(settled.mean() < 1.05 * cost_at(best, best));
}

TEST_CASE("a controller follows when the costs shift, and when they shift back") {
    HotController controller({0, proto::kHotChoices - 1, 0.03}, 2);
    Engine engine(controller, 5);
    engine.serve(8000, 2);
    CHECK(controller.present() == 2);
    engine.serve(12000, 7);
    CHECK(controller.present() == 7);
    engine.serve(12000, 2);
    CHECK(controller.present() == 2);
}

TEST_CASE("a controller finds a cheaper size behind one that is dearer") {
    HotController controller({1, proto::kHotChoices - 1, 0.03}, 2);
    Costs costs = {};
    const auto draw = [&](std::uint32_t choice, std::uint64_t draws) {
        costs[choice].draws += draws;
        costs[choice].ns += draws * (choice == 4 ? 4000 : choice == 2 ? 5000 : 6000);
    };
    for (int round = 0; round < 2000; ++round) {
        draw(controller.present(), 48);
        draw(controller.tried(), 16);
        controller.observe(costs);
    }
    CHECK(controller.present() == 4);
    CHECK(controller.moves() == 1);
}

TEST_CASE("a controller keeps within its bounds, and what costs the same does not move it") {
    HotController bounded({3, 5, 0.03}, 9);
    CHECK(bounded.present() == 5);
    Engine engine(bounded, 1);
    engine.serve(8000, 1);
    CHECK(bounded.present() == 3);

    HotController held({4, 4, 0.03}, 0);
    Engine other(held, 2);
    other.serve(1000, 1);
    CHECK(held.present() == 4);
    CHECK(held.tried() == 4);

    HotController indifferent({1, 9, 0.03}, 5);
    Costs costs = {};
    for (int round = 0; round < 2000; ++round) {
        for (HotCostSoFar& each : costs) each = {each.draws + 64, each.ns + 320'000};
        indifferent.observe(costs);
    }
    CHECK(indifferent.present() == 5);
    CHECK(indifferent.moves() == 0);
}

TEST_CASE("a controller without draws tries nothing") {
    HotController controller({0, proto::kHotChoices - 1, 0.03}, 0);
    const Costs costs = {};
    for (int round = 0; round < 1000; ++round) controller.observe(costs);
    CHECK(controller.present() == 0);
    CHECK(controller.tried() == 0);
}

}  // namespace croupier::hot_sets
