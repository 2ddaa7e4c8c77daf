// Repeats every decision with the reference and another row layout, and compares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/decision.h"
#include "sampler/row_view.h"
#include "sim/whole_row.h"
#include "testing/text_reference.h"

namespace croupier::sim {

class Verifier {
  public:
    explicit Verifier(const World& world);

    // Verifies a request that has ended; the result goes to the ledger's counters.
    void begin(const Request& request);
    bool busy() const { return request_ != nullptr; }
    // The next position of the request that was begun.
    void verify_next();

  private:
    proto::Decision decide_again(const Request& request, std::uint32_t position);
    // Of a session with a tokenizer.
    testing::ReferenceText text_after(const Request& request, std::uint32_t position,
                                      const proto::Decision& decision);
    void note_mismatch(const Request& request, std::uint32_t position, const proto::Decision& expected,
                       const testing::ReferenceText& text);

    const World& world_;
    WholeRow row_;
    std::vector<std::int32_t> prompt_;
    std::string unfinished_;  // the character with which the prompt ends
    std::vector<std::int32_t> output_;
    const Request* request_ = nullptr;
    std::uint32_t position_ = 0;
    proto::Feedback feedback_;  // left by the previous position
};

// Runs in its own process until every request is verified. While requests are served, only cores that are
// idle work for it.
void run_verifier(World& world);

}  // namespace croupier::sim
