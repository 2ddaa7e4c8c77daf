// Live sequences by uid: where each stands, and which step in flight it is in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "shm/error.h"

namespace croupier::client {

// `Place`: what the one who keeps the list needs to know of a sequence.
template <typename Place>
class LiveUids {
  public:
    std::size_t size() const { return by_uid_.size(); }

    shm::Result<bool> check_new(std::uint64_t uid) const {
        if (!by_uid_.contains(uid)) return true;
        return shm::fail(shm::Errc::bad_argument,
                         named(uid) + " is live already: finish it first, or choose another uid");
    }
    void insert(std::uint64_t uid, Place place) { by_uid_.emplace(uid, Entry{std::move(place), {}}); }

    shm::Result<Place*> find(std::uint64_t uid) {
        const auto found = by_uid_.find(uid);
        if (found == by_uid_.end()) return unknown(uid);
        return &found->second.place;
    }
    shm::Result<const Place*> find(std::uint64_t uid) const {
        const auto found = by_uid_.find(uid);
        if (found == by_uid_.end()) return unknown(uid);
        return &found->second.place;
    }

    shm::Result<bool> check_finish(std::uint64_t uid) const {
        const auto found = by_uid_.find(uid);
        if (found == by_uid_.end()) return unknown(uid);
        const std::optional<std::uint64_t> step = found->second.step;
        if (!step) return true;
        return shm::fail(shm::Errc::bad_argument,
                         named(uid) + " is in step " + std::to_string(*step) +
                             ", which is in flight: wait for that step before finishing it");
    }
    void erase(std::uint64_t uid) { by_uid_.erase(uid); }

    // Puts the sequence into the step; refused while it is in one already.
    shm::Result<Place*> enter(std::uint64_t uid, std::uint64_t step) {
        const auto found = by_uid_.find(uid);
        if (found == by_uid_.end()) return unknown(uid);
        Entry& entry = found->second;
        if (entry.step == step) {
            return shm::fail(shm::Errc::bad_argument,
                             named(uid) + " stands in two columns of one step: it may stand in one");
        }
        if (entry.step) {
            return shm::fail(shm::Errc::bad_argument, named(uid) + " is still in step " +
                                                          std::to_string(*entry.step) +
                                                          ", which is in flight: wait for that step first");
        }
        entry.step = step;
        return &entry.place;
    }
    void leave(std::uint64_t uid, std::uint64_t step) {
        const auto found = by_uid_.find(uid);
        if (found != by_uid_.end() && found->second.step == step) found->second.step.reset();
    }

    // How many there are; writes as many as there is room for.
    std::size_t list(std::span<std::uint64_t> uids) const {
        std::size_t written = 0;
        for (const auto& [uid, entry] : by_uid_) {
            if (written == uids.size()) break;
            uids[written++] = uid;
        }
        return by_uid_.size();
    }

  private:
    struct Entry {
        Place place;
        std::optional<std::uint64_t> step;
    };

    static std::string named(std::uint64_t uid) { return "sequence " + std::to_string(uid); }
    shm::Error unknown(std::uint64_t uid) const {
        return {shm::Errc::unknown_sequence, named(uid) + " is not live in this session (" +
                                                 std::to_string(by_uid_.size()) + " are): add it first"};
    }

    std::unordered_map<std::uint64_t, Entry> by_uid_;
};

}  // namespace croupier::client
