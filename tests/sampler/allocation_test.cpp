#include <catch2/catch.hpp>
#include <memory>

#include "allocation_count.h"
#include "case_generator.h"
#include "sampler/decide.h"

namespace croupier::sampler::test {

TEST_CASE("a decision of a history that is followed allocates nothing") {
    std::mt19937_64 generator(5);
    const std::uint64_t before_any = allocations_so_far();
    const auto counted = std::make_unique<std::uint64_t>(before_any);
    REQUIRE(allocations_so_far() > *counted);
    Workspace workspace(5000);
    RandomCase random_case;
    for (int i = 0; i < 500; ++i) {
        fill_case(random_case, 5000, generator);
        const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
        const RowView view = row.view();
        SequenceState state(5000, 100);
        state.begin(random_case.params, random_case.breakers);
        // What the state derives of the history grows with it, and with the most repeats that it has found.
        decide(view, random_case.request, state, workspace);
        const std::uint64_t before = allocations_so_far();
        decide(view, random_case.request, state, workspace);
        const std::uint64_t after = allocations_so_far();
        REQUIRE(after == before);
    }
}

}  // namespace croupier::sampler::test
