// Decides everything again, with the reference and rows of another layout, and compares.
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

    // One request that has ended; the ledger's counters tell what came of it.
    void verify(const Request& request);

  private:
    proto::Decision decide_again(const Request& request, std::uint32_t position);
    void note_mismatch(const Request& request, std::uint32_t position, const proto::Decision& expected);

    const World& world_;
    std::vector<std::byte> row_;
    std::vector<std::int32_t> prompt_;
    std::vector<std::int32_t> output_;
    proto::Feedback feedback_;  // that the position before left
};

// Runs in a process of its own until every request is verified; while requests are served, only on idle
// cores.
void run_verifier(World& world);

}  // namespace croupier::sim
