// Typed errors of everything that touches shared memory, and the result that carries them.
#pragma once

#include <boost/outcome/result.hpp>
#include <boost/outcome/try.hpp>
#include <cstdint>
#include <string>
#include <utility>

namespace croupier::shm {

enum class Errc : std::uint32_t {
    not_found = 1,  // no such segment, session or endpoint
    permission_denied,
    no_memory,  // /dev/shm or a quota is full
    bad_magic,  // not a file of ours
    wrong_version,
    wrong_size,
    corrupt_header,
    bad_geometry,
    already_held,  // a live process holds this role
    stale_epoch,   // the caller was fenced while it was away
    session_closed,
    draining,  // no new steps are taken
    ring_full,
    bad_argument,
    unknown_sequence,
    table_full,
    daemon_gone,
    timed_out,
    refused,  // the daemon refused the request; the text says why
    system_error,
    peer_gone,  // of a fan-out: the relay, the scheduler, another member
    forked,     // the caller is a forked child of the process that attached
};

const char* errc_name(Errc code);

struct Error {
    Errc code;
    std::string message;
};

template <typename T>
using Result = boost::outcome_v2::unchecked<T, Error>;

inline auto fail(Errc code, std::string message) {
    return boost::outcome_v2::failure(Error{code, std::move(message)});
}

// Both return the call's error, if it has one, from the function around them; the second declares what the
// call gave otherwise.
#define CROUPIER_TRY(...) BOOST_OUTCOME_TRYV(__VA_ARGS__)
#define CROUPIER_TRY_VALUE(name, ...) BOOST_OUTCOME_TRYA(name, __VA_ARGS__)

// The error for a failed system call on a path, "permission" said as such and never as a time-out.
Error system_failure(const std::string& what, const std::string& path, int error_number);

}  // namespace croupier::shm
