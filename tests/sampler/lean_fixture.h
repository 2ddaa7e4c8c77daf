// Rows of which the writers sent a part: the rest is poison until it is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "row_fixture.h"
#include "sampler/reference/decide.h"
#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler::test {

// What a draw is made by; at a temperature of 0 greedily.
struct DrawnBy {
    proto::race::Key key;
    float temperature = 0.0F;
};
DrawnBy drawn_by(const Request& request);

// What is sent of a row beside its maxima.
struct SentParts {
    std::uint32_t best = 0;            // blocks of the row, by their largest entry
    std::uint32_t random = 0;          // blocks of each rank
    std::vector<std::uint32_t> named;  // blocks of the row
    std::vector<std::uint32_t> ids;    // whose values are sent by themselves
    std::uint32_t listed = 0;          // of each rank's best entries, and those that are as good as the last
    bool all = false;
    bool sums = false;                // what the row weighs, at 1 and at `scale`
    double scale = 1.0;               // of the second sum
    double error = 0.0;               // which the sums are off, as a share of themselves
    bool spread = false;              // at `scale`, off by as much
    bool block_weights = false;       // what each block weighs at `scale`, at least
    std::optional<DrawnBy> drawn_by;  // each rank's ids
    // With a draw that races: so many of each rank's best, and before so many of those what stands at
    // `scale`, off by as much as sums.
    std::uint32_t racers = 0;
    std::uint32_t summed_before = 0;
    // What the writers know of the request's mask: maxima, sums and the best are under it. Empty: nothing.
    std::span<const std::uint32_t> mask;
    bool masks_every_second = false;  // of the ranks, from the first on; the others know nothing of it
};
// Those that the request names.
std::vector<std::uint32_t> named_ids(const Request& request);

class LeanRow {
  public:
    // As RowFixture, in tiles of 64 whatever the shape says. The ranks' lists name blocks too that there are
    // none of. The mask of `parts` is looked at in the constructor alone.
    LeanRow(const std::vector<float>& logits, RowShape shape, std::uint64_t order_seed,
            const SentParts& parts);

    RowView view() const;
    RowView whole() const { return whole_.view(); }
    // Lays the blocks whose bits are set at their places.
    void grant(std::span<const std::uint64_t> missing);
    // Whether every rank that has a part of the block says that it sent it, or laid it at its place.
    bool is_there(std::uint32_t block) const;
    std::uint32_t blocks() const { return static_cast<std::uint32_t>(maxima_.size()); }

    // For tests that say something else than the truth.
    LeanColumn& column(std::size_t rank) { return ranks_[rank]->column; }

  private:
    struct Rank {
        std::uint32_t first_block = 0;
        std::uint32_t blocks = 0;  // with ids of the vocabulary
        bool holds_nothing = false;
        std::vector<std::byte> elements;
        std::vector<std::byte> maxima;
        std::vector<std::uint16_t> sent;
        std::vector<std::byte> sent_elements;
        std::vector<std::uint8_t> weights;
        std::vector<proto::BestEntry> listed;
        std::vector<std::byte> named;
        LeanColumn column;
    };

    std::unique_ptr<Rank> rank_of(const Slice& slice, const std::vector<float>& logits,
                                  const SentParts& parts);
    // A rank's part under the mask: what is finite and hidden is -inf.
    std::vector<float> allowed_of(const std::vector<float>& logits, const SentParts& parts,
                                  std::size_t rank) const;
    std::vector<std::uint32_t> chosen(const Rank& rank, const SentParts& parts);
    const std::byte* truth(const Slice& slice, std::uint32_t block) const;
    void poison(std::vector<std::byte>& elements);
    void send(Rank& rank, const Slice& slice, const SentParts& parts);
    void give_maxima(Rank& rank, const Slice& slice, const std::vector<float>& logits) const;
    void give_sums(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                   const SentParts& parts) const;
    void give_spread(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                     const SentParts& parts) const;
    void give_block_weights(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                            const SentParts& parts);
    void give_named(Rank& rank, const Slice& slice, const SentParts& parts);
    void give_list(Rank& rank, const Slice& slice, const std::vector<float>& logits, const SentParts& parts);
    void give_draw(Rank& rank, const Slice& slice, const std::vector<float>& logits, const SentParts& parts);
    void give_racers(Rank& rank, std::span<const proto::Racer> all, std::span<const float> own,
                     std::uint32_t first_id, const SentParts& parts);
    std::size_t offset_of(const Slice& slice, std::uint32_t block) const;

    RowShape shape_;
    RowFixture whole_;
    std::mt19937_64 generator_;
    std::size_t bytes_;
    std::vector<float> maxima_;  // of the row's blocks
    std::vector<std::uint64_t> placed_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::vector<Slice> slices_;
};

// A decision that was made again until nothing was missing.
struct LeanDecision {
    reference::Outcome outcome;
    int tries = 0;
    std::uint32_t asked = 0;  // blocks
};
constexpr int kMostTries = 40;
LeanDecision decide_lean(LeanRow& row, const Request& request, Workspace& workspace,
                         const std::function<void()>& before_retry = {});

}  // namespace croupier::sampler::test
