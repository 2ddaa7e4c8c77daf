// A sequence's biases and ids as this process believes them: copied once, so that what the sampler checks is
// what it uses, whatever their author writes meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/sequence_entry.h"
#include "sampler/request.h"
#include "shm/segment.h"

namespace croupier::daemon {

struct ListCounts {
    explicit ListCounts(const proto::SequenceEntry& entry);
    bool fit(const proto::Geometry& geometry) const;

    std::uint32_t bias;
    std::uint32_t stops;
    std::uint32_t allowed;
    std::uint32_t bad_words;
    std::uint32_t breakers;
    std::uint32_t stop_words;
};

class SequenceLists {
  public:
    // Takes all room at once: a copy allocates nothing.
    explicit SequenceLists(const proto::Geometry& geometry);

    // The counts must fit the segment's geometry.
    void copy(const shm::Segment& segment, std::uint32_t slot, const ListCounts& counts);
    // The request's spans are valid until the next copy.
    void lend(sampler::Request& request) const;
    // Of the stop strings (proto/stop_words.h), likewise.
    std::span<const std::int32_t> stop_words() const { return std::span(lists_).subspan(stop_words_from_); }

  private:
    std::vector<proto::TokenBias> bias_;
    std::vector<std::int32_t> stops_;
    std::vector<std::int32_t> lists_;  // allowed ids, bad words, breakers, stop words
    std::size_t allowed_ = 0;
    std::size_t bad_words_ = 0;
    std::size_t stop_words_from_ = 0;
};

}  // namespace croupier::daemon
