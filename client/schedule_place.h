// Where a scheduler's records go: the session's ring on this host, or the relay on the ring's host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/session_texts.h"
#include "croupier/client.h"
#include "proto/geometry.h"
#include "shm/error.h"
#include "shm/sequence_table.h"

namespace croupier::client {

class SchedulePlace {
  public:
    virtual ~SchedulePlace() = default;

    virtual const std::string& segment_path() const = 0;  // on the ring's host
    virtual const proto::Geometry& geometry() const = 0;

    virtual shm::Result<bool> add(const croupier_sequence& sequence) = 0;
    virtual shm::Result<bool> fork(const shm::Fork& fork) = 0;
    virtual shm::Result<bool> finish(std::uint64_t uid) = 0;
    virtual shm::Result<bool> truncate(std::uint64_t uid, std::uint32_t outputs) = 0;
    // Whether append() of so many tokens of the vocabulary would be done.
    virtual shm::Result<bool> check_append(std::uint64_t uid, std::size_t count) = 0;
    virtual shm::Result<bool> append(std::uint64_t uid, std::span<const std::int32_t> tokens) = 0;
    // Sequences that have a place: live, or finished and in flight.
    virtual std::size_t held() const = 0;
    virtual std::size_t list(std::span<std::uint64_t> uids) const = 0;
    virtual shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const = 0;
    // What the texts of the live sequences depend on that an earlier client of a session with a tokenizer
    // added.
    virtual shm::Result<std::vector<FoundText>> found_texts() const = 0;

    virtual shm::Result<std::uint64_t> submit(std::span<const croupier_column> columns) = 0;
    // The steps from next_to_take() up to next_to_publish() are in flight.
    virtual std::uint64_t next_to_publish() const = 0;
    virtual std::uint64_t next_to_take() const = 0;
    virtual std::span<const std::uint64_t> uids_of_next() const = 0;
    // Whether the column's sequence was truncated or finished, or ended by an earlier decision, while the
    // step was in flight.
    virtual bool next_is_void(std::size_t column) const = 0;
    // The undecided columns of a step in flight get the error given_up.
    virtual shm::Result<bool> give_up(std::uint64_t step) = 0;
    // The step next_to_take() was decided as `decisions` and is taken.
    virtual shm::Result<bool> take(std::span<const croupier_decision> decisions) = 0;

    // Whether the step next_to_take() can still come.
    virtual shm::Result<bool> check_usable() = 0;
    virtual bool daemon_alive() = 0;
    // Whether a daemon that starts later finds the session.
    virtual bool can_be_found() const = 0;
};

constexpr std::uint32_t rows_of(const croupier_column& column) {
    return column.rows == 0 ? 1 : column.rows;
}
// Of all columns of a step.
std::size_t count_rows(std::span<const croupier_column> columns);
// Checks that the session has room for a step's windows and grammar masks.
shm::Result<bool> check_room(std::span<const croupier_column> columns, const proto::Geometry& geometry);
constexpr std::size_t mask_words(std::uint32_t vocab) {
    return (std::size_t{vocab} + 31) / 32;
}

}  // namespace croupier::client
