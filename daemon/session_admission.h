// May this session be opened? Quotas, shapes and vocabulary orders, each refusal naming what would be right.
#pragma once

#include "daemon/session_registry.h"

namespace croupier::daemon {

shm::Result<bool> check_request(const SessionRequest& request, const config::Sessions& quotas);
shm::Result<bool> check_room(const SessionRequest& request, const config::Sessions& quotas,
                             std::size_t sessions, std::uint64_t bytes_in_use);
// A resumed session is the one that was there: every field of its geometry must agree, and its hotness order.
shm::Result<bool> check_same_session(const shm::Segment& present, const SessionRequest& request);
// Cuts the hotness order into the ranks' slices.
void write_order(const shm::Segment& segment, const std::vector<std::int32_t>& order);

}  // namespace croupier::daemon
