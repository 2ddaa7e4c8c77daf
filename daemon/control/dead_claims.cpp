#include "daemon/control/dead_claims.h"

#include <unistd.h>

#include "shm/step_claims.h"
#include "shm/step_window.h"

namespace croupier::daemon {

void reopen_claims(std::span<const shm::Segment* const> sessions, std::uint32_t dead_incarnation,
                   const proto::PreparedColumn& at) {
    std::uint32_t claimed = 0;
    for (const shm::Segment* session : sessions) {
        shm::for_each_step(*session, [&](std::uint64_t step, std::uint32_t columns) {
            claimed += shm::StepClaims(*session, step).claimed_by(dead_incarnation, columns);
        });
    }
    const std::uint64_t prepared = at.session_id.load(std::memory_order_relaxed);
    for (const shm::Segment* session : sessions) {
        shm::for_each_step(*session, [&](std::uint64_t step, std::uint32_t columns) {
            const shm::StepClaims claims(*session, step);
            claims.reopen(dead_incarnation, columns, claimed == 1);
            const std::uint32_t column = at.column.load(std::memory_order_relaxed);
            const bool was_at = prepared == session->id() && at.step.load(std::memory_order_relaxed) == step;
            if (was_at && column < columns) claims.suspect(column, columns);
        });
    }
}

void begin_generation(proto::SegmentHeader& header) {
    const std::uint32_t next = header.daemon_generation.load(std::memory_order_relaxed) + 1;
    header.daemon_pid.store(::getpid(), std::memory_order_relaxed);
    // SYNC: release; who sees the generation sees the words before it.
    header.daemon_generation.store(next, std::memory_order_release);
}

std::uint32_t reopen_all_claims(const shm::Segment& session) {
    std::uint32_t freed = 0;
    shm::for_each_step(session, [&](std::uint64_t step, std::uint32_t columns) {
        freed += shm::StepClaims(session, step).reopen_all(columns);
    });
    return freed;
}

}  // namespace croupier::daemon
