// All memory that decisions over one vocabulary need, taken once: decide() allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "request/plan.h"
#include "sampler/lean_blocks.h"
#include "sampler/mass.h"
#include "sampler/request.h"
#include "sampler/token_counts.h"

namespace croupier::sampler {

constexpr std::uint32_t kBlock = 64;

struct BlockRun;
struct Found;
struct ValueClass;

struct Candidate {
    double value;  // adjusted logit
    std::uint32_t token;
};

// A token that the adjustments move.
struct ChangedToken {
    double adjusted;
    float raw;
    std::uint32_t token;
    float raw_weight;
    float weight;
};

// Survivors of equal value, consecutive among the sorted candidates; or all of a 32-bit row from one value to
// another, together (sampler/row_classes.h).
struct EqualClass {
    double value;   // of a mixed class: an upper bound of its values
    double least;   // of a mixed class: a lower bound
    double weight;  // of `value`
    Mass mass;      // of one of them; of a mixed class: of all together
    std::uint32_t begin;
    std::uint32_t size;
    std::uint32_t whole = 0;  // of a row's class: its size before any filter

    bool is_mixed() const { return least < value; }
    Mass total() const { return is_mixed() ? mass : mass * size; }
};

constexpr EqualClass class_of(double value, std::uint32_t begin, std::uint32_t size, std::uint32_t whole) {
    return {value, value, 0.0, 0, begin, size, whole};
}

// All tokens of one 16-bit value.
struct CountedValue {
    double value;
    std::uint32_t count;
};

using request::DecisionPath;

// Where an untruncated draw's accepted proposal came from.
enum class Region : std::uint8_t {
    none,  // there was none
    hot,   // the head, or what an adjustment had added
    tail
};

// What is answered beside the decision: valid until the workspace's next decision.
struct Answer {
    std::span<const Survivor> support;  // the likeliest first
    std::uint32_t support_total = 0;    // how many were left to draw from; 0: none were asked for
    std::span<const RankedLogprob> logprobs;
    proto::Feedback feedback;
    DecisionPath path = DecisionPath::none;
    DecisionPath left_open = DecisionPath::none;  // what was tried before and could not tell
    Region region = Region::none;
    std::uint32_t candidates = 0;  // tokens that were looked at one by one
    std::uint32_t proposals = 0;   // of an untruncated draw, the accepted one included
    // How many block reads the row took; without summaries every block is read at least once.
    std::uint32_t blocks = 0;
    std::uint32_t blocks_read = 0;
    // For a partial row: a bit for each absent block that the decision needs. If not empty, all else is void,
    // and the decision is to be made again when those blocks are there.
    std::span<const std::uint64_t> missing;
};

// The weight of the whole row at a scale at which it was summed.
struct Weighed {
    double maximum = 0.0;
    double scale = 0.0;  // 0: it was not
    double total = 0.0;  // in units of the maximum's weight
};

class Workspace {
  private:
    struct Release {
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte[], Release> memory_;

  public:
    explicit Workspace(std::uint32_t vocab);
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    const Answer& answer() const { return answer_space; }

    const std::uint32_t vocab;

    std::span<BlockRun> runs;
    std::span<std::byte> tails;     // blocks that are put together from parts
    std::span<std::byte> gathered;  // a column that cannot be read in place
    LeanBlocks lean;                // of a column that is there in part
    std::span<float> block_max;
    std::span<float> ln_first_arrivals;  // of the blocks, as the race needs them
    std::span<float> race_bounds;
    std::span<float> replaced_max;  // of the blocks, where adaptive-p replaces logits
    std::span<Mass> block_mass;     // bounds, as proposals need them
    std::span<Mass> group_mass;
    std::span<Mass> head_mass;
    std::span<std::uint32_t> reached_blocks;
    std::span<Found> found;
    std::span<std::uint64_t> special;  // a bit a token: has a rule of its own; all zero between decisions
    std::span<std::uint64_t> banned;   // a bit a token: the rules forbid it; all zero between decisions
    std::span<std::uint64_t> listed;   // a bit a token: is among the candidates; all zero between searches
    std::span<std::uint64_t> taken;    // a bit a token: is weighed by itself; all zero between sums
    // Bits of classes, all zero between decisions.
    std::span<std::uint64_t> moved;    // a bit a token: it does not stand in its class as it was written
    std::span<std::uint64_t> dropped;  // a bit a token: a filter dropped it, and then it moved
    std::span<Candidate> candidates;
    std::span<Candidate> sort_buffer;
    std::span<Candidate> raised;  // of a search: what ends above where it stood
    std::span<Candidate> lifts;   // of a race
    std::span<ChangedToken> changed;
    std::span<TokenCounts::Counted> counted;  // of a history, those that are read
    std::span<std::uint32_t> contenders;      // of a draw by hashes
    std::span<EqualClass> classes;
    std::span<std::uint32_t> class_order;
    std::span<ValueClass> value_classes;
    std::span<std::uint32_t> rank_ends;     // of a sort, two lists of up to 2^16
    std::span<std::uint32_t> value_counts;  // a 16-bit code's; all zero between decisions
    std::span<Mass> code_masses;            // of the tokens whose codes begin with these 16 bits
    std::span<std::uint16_t> counted_codes;
    std::span<CountedValue> counted_values;
    std::span<std::uint16_t> first_bias;  // of a request's table of biases; all zero between decisions
    std::span<std::uint16_t> next_bias;
    std::span<Survivor> support;
    std::span<RankedLogprob> logprobs;
    std::array<Weighed, 2> weighed;  // a writer sums at 1 and at a scale of the column
    Answer answer_space;
};

}  // namespace croupier::sampler
