// Repeats every decision with the reference and another row layout, and compares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sampler/row_view.h"
#include "sim/world.h"

namespace croupier::sim {

class Verifier {
  public:
    explicit Verifier(const World& world);

    // Verifies a request that has ended; the result goes to the ledger's counters.
    void verify(const Request& request);

  private:
    proto::Decision decide_again(const Request& request, std::uint32_t position);
    void note_mismatch(const Request& request, std::uint32_t position, const proto::Decision& expected);

    const World& world_;
    std::vector<std::byte> row_;
    std::vector<std::int32_t> prompt_;
    std::vector<std::int32_t> output_;
    proto::Feedback feedback_;  // left by the previous position
};

// Runs in its own process until every request is verified. While requests are served, it uses only idle
// cores.
void run_verifier(World& world);

}  // namespace croupier::sim
