// Live sequences by uid: the place of each, and the steps in flight that it is in, in a window of rows each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proto/schedule_slot.h"
#include "shm/error.h"

namespace croupier::client {

// `Place`: what the owner of the list stores for a sequence.
template <typename Place>
class LiveUids {
  public:
    struct Entry {
        std::uint64_t uid = 0;
        Place place;
        std::uint32_t in_flight = 0;  // steps
        std::uint32_t pending = 0;    // of these, those that this client does not know to be void
        std::uint32_t rows = 0;       // in all of these
        std::uint32_t next_ticket = 0;
        std::uint64_t last_step = 0;  // the newest in flight, and its last row there
        std::uint32_t last_column = 0;
        std::uint32_t next_position = 0;  // after the pending ones, if each brings one token
        // Its columns in the steps from void_from up to void_below are void.
        std::uint64_t void_from = 0;
        std::uint64_t void_below = 0;
        bool finished = false;
        std::uint64_t asked_by = 0;  // the last submit that asked for it

        bool is_void_in(std::uint64_t step) const {
            return finished || (step >= void_from && step < void_below);
        }
    };

    std::size_t size() const { return by_uid_.size(); }

    shm::Result<bool> check_new(std::uint64_t uid) const {
        if (!by_uid_.contains(uid)) return true;
        return shm::fail(shm::Errc::bad_argument,
                         named(uid) + " is live already: finish it first, or choose another uid");
    }
    void insert(std::uint64_t uid, Place place) {
        auto& entry = by_uid_[uid];
        entry = std::make_unique<Entry>();
        entry->uid = uid;
        entry->place = std::move(place);
    }
    // A sequence that an earlier client finished. Steps in flight may still name it.
    Entry* insert_finished(std::uint64_t uid, Place place) {
        auto& entry = *finished_.emplace_back(std::make_unique<Entry>());
        entry.uid = uid;
        entry.place = std::move(place);
        entry.finished = true;
        return &entry;
    }

    shm::Result<Entry*> find(std::uint64_t uid) const {
        const auto found = by_uid_.find(uid);
        if (found == by_uid_.end()) return unknown(uid);
        return found->second.get();
    }

    // Call this once for each submit, then ask() for each window. ask() refuses a sequence that is in two.
    void begin_submit() { ++submits_; }
    shm::Result<Entry*> ask(std::uint64_t uid, std::uint32_t rows) {
        auto found = find(uid);
        if (!found) return found;
        Entry& entry = *found.value();
        if (entry.asked_by == submits_) {
            return shm::fail(shm::Errc::bad_argument,
                             named(uid) + " stands in two columns of one step: it may stand in one");
        }
        if (std::uint64_t{rows} + entry.rows > proto::kMaxWindowRows) {
            return shm::fail(shm::Errc::bad_argument, named(uid) + " asks for " + std::to_string(rows) +
                                                          " rows and has " + std::to_string(entry.rows) +
                                                          " in flight: together it may have " +
                                                          std::to_string(proto::kMaxWindowRows));
        }
        entry.asked_by = submits_;
        return found;
    }
    // Its window's head, then each other row.
    static void enter(Entry& entry, std::uint64_t step, std::uint32_t column, std::uint32_t position = 0) {
        ++entry.in_flight;
        ++entry.pending;
        entry.next_position = position + 1;
        entry.last_step = step;
        enter_row(entry, column);
    }
    static void enter_row(Entry& entry, std::uint32_t column) {
        ++entry.rows;
        ++entry.next_ticket;
        entry.last_column = column;
    }
    // All its columns in flight become void.
    static void make_void(Entry& entry) {
        entry.void_from = 0;
        if (entry.in_flight > 0) entry.void_below = entry.last_step + 1;
        entry.pending = 0;
    }
    // Replaces enter() for a step that an earlier client published.
    static void enter_void(Entry& entry, std::uint64_t step, std::uint32_t column) {
        const std::uint32_t pending = entry.pending;
        enter(entry, step, column);
        entry.pending = pending;
        // The void columns of a sequence follow one another: none comes after one that is not void.
        if (entry.void_below == 0) entry.void_from = step;
        entry.void_below = step + 1;
    }
    // All that have a place. Ended sequences keep theirs while steps in flight name them.
    std::size_t held() const { return by_uid_.size() + finished_.size(); }
    // The step was taken, of which the sequence had so many rows. Returns the place of a finished sequence
    // that is in no other step.
    std::optional<Place> leave(Entry& entry, std::uint64_t step, std::uint32_t rows) {
        if (!entry.is_void_in(step)) --entry.pending;
        --entry.in_flight;
        entry.rows -= rows;
        if (!entry.finished || entry.in_flight > 0) return std::nullopt;
        return forget(entry);
    }
    // Frees the uid at once. Returns the place when no step in flight names it.
    std::optional<Place> finish(Entry& entry) {
        make_void(entry);
        entry.finished = true;
        auto node = by_uid_.extract(entry.uid);
        finished_.push_back(std::move(node.mapped()));
        if (entry.in_flight > 0) return std::nullopt;
        return forget(entry);
    }
    // Removes the sequences that an earlier client finished and that are in no step in flight.
    std::vector<Place> forget_idle() {
        std::vector<Place> idle;
        for (std::size_t i = finished_.size(); i-- > 0;) {
            if (finished_[i]->in_flight == 0) idle.push_back(*forget(*finished_[i]));
        }
        return idle;
    }

    // Returns their number, and writes as many as `uids` has room for.
    std::size_t list(std::span<std::uint64_t> uids) const {
        std::size_t written = 0;
        for (const auto& [uid, entry] : by_uid_) {
            if (written == uids.size()) break;
            uids[written++] = uid;
        }
        return by_uid_.size();
    }

  private:
    std::optional<Place> forget(Entry& entry) {
        std::optional<Place> place = std::move(entry.place);
        finished_.erase(std::find_if(finished_.begin(), finished_.end(),
                                     [&](const auto& each) { return each.get() == &entry; }));
        return place;
    }
    static std::string named(std::uint64_t uid) { return "sequence " + std::to_string(uid); }
    shm::Error unknown(std::uint64_t uid) const {
        return {shm::Errc::unknown_sequence, named(uid) + " is not live in this session (" +
                                                 std::to_string(by_uid_.size()) + " are): add it first"};
    }

    std::unordered_map<std::uint64_t, std::unique_ptr<Entry>> by_uid_;
    std::vector<std::unique_ptr<Entry>> finished_;
    std::uint64_t submits_ = 0;
};

}  // namespace croupier::client
