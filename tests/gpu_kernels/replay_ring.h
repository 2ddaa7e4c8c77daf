// What a writer leaves for the replays of a CUDA graph, in this process' memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu_writer/lean_replay.h"

namespace croupier::testing {

class ReplayRing {
  public:
    ReplayRing(std::uint32_t places, std::uint32_t max_batch)
        : records_(places),
          wants_(std::size_t{places} * max_batch),
          sent_(places * gpu_writer::room_for_places(max_batch)),
          told_(places),
          rows_(places),
          rows_of_(std::size_t{places} * max_batch),
          found_(1),
          found_wants_(max_batch),
          counts_(gpu_writer::kFoundCounts),
          whole_(max_batch),
          spreads_(max_batch),
          found_sent_(gpu_writer::room_for_places(max_batch)) {
        ring_.records = records_.data();
        ring_.wants = wants_.data();
        ring_.sent = sent_.data();
        ring_.next = &next_;
        ring_.empty_launches = &empty_;
        ring_.told = told_.data();
        ring_.rows = rows_.data();
        ring_.rows_of = rows_of_.data();
        ring_.step = {found_.data(), found_wants_.data(), counts_.data(),
                      whole_.data(), spreads_.data(),     found_sent_.data()};
        ring_.places = places;
        ring_.max_batch = max_batch;
    }
    ReplayRing(const ReplayRing&) = delete;
    ReplayRing& operator=(const ReplayRing&) = delete;

    void begin(const gpu_writer::LeanRecord& record, std::span<const gpu_writer::LeanWant> wants,
               std::span<const gpu_writer::SentPlace> sent = {}) {
        const std::size_t place = record.ticket % ring_.places;
        records_[place] = record;
        std::copy(wants.begin(), wants.end(), wants_.data() + place * ring_.max_batch);
        std::copy(sent.begin(), sent.end(),
                  sent_.data() + place * gpu_writer::room_for_places(ring_.max_batch));
    }
    const gpu_writer::ReplayRing& get() const { return ring_; }
    std::uint64_t* next() { return &next_; }
    std::uint64_t empty_launches() const { return empty_; }
    void tell(std::uint32_t slot, std::uint64_t value) { told_[slot] = value; }
    const gpu_writer::FoundRows& rows_of(std::uint32_t slot) const { return rows_[slot]; }
    const gpu_writer::LeanRecord& found() const { return found_[0]; }

  private:
    std::vector<gpu_writer::LeanRecord> records_;
    std::vector<gpu_writer::LeanWant> wants_;
    std::vector<gpu_writer::SentPlace> sent_;
    std::vector<std::uint64_t> told_;
    std::vector<gpu_writer::FoundRows> rows_;
    std::vector<std::int32_t> rows_of_;
    std::vector<gpu_writer::LeanRecord> found_;
    std::vector<gpu_writer::LeanWant> found_wants_;
    std::vector<std::uint32_t> counts_, whole_, spreads_;
    std::vector<gpu_writer::SentPlace> found_sent_;
    std::uint64_t next_ = 0;
    std::uint64_t empty_ = 0;
    gpu_writer::ReplayRing ring_;
};

}  // namespace croupier::testing
