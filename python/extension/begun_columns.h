// How many columns a writer's steps have, as far as they were told of.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace croupier::python {

// Of steps that were begun and not enqueued, and of those whose tokens may be asked for; by step.
class BegunColumns {
  public:
    void begin(std::uint64_t step, std::optional<std::uint32_t> columns, std::uint32_t slots) {
        known_[step] = columns;
        waiting_[step] = columns;
        while (known_.size() > slots) known_.erase(known_.begin());
        while (waiting_.size() > slots) waiting_.erase(waiting_.begin());
    }
    void enqueue() {
        if (!waiting_.empty()) waiting_.erase(waiting_.begin());
        was_refused_ = false;
    }
    // Rows that come next, for a later step, would be taken for those of its step.
    void refuse() { was_refused_ = true; }
    bool was_refused() const { return was_refused_ && !waiting_.empty(); }
    std::size_t count() const { return waiting_.size(); }
    void abandon() {
        waiting_.clear();
        was_refused_ = false;
    }

    std::optional<std::uint32_t> of_next() const {
        return waiting_.empty() ? std::nullopt : waiting_.begin()->second;
    }
    std::optional<std::uint32_t> of(std::uint64_t step) const {
        const auto found = known_.find(step);
        return found == known_.end() ? std::nullopt : found->second;
    }

  private:
    std::map<std::uint64_t, std::optional<std::uint32_t>> known_, waiting_;
    std::atomic<bool> was_refused_ = false;  // told without the writer's turn, too
};

}  // namespace croupier::python
