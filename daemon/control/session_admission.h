// May this session be opened? Quotas, shapes and vocabulary orders, each refusal naming what would be right.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/control/session_registry.h"

namespace croupier::daemon {

// As its segment will have it.
proto::Geometry geometry_of(const SessionRequest& request);
shm::Result<bool> check_request(const SessionRequest& request, const config::Sessions& quotas);
shm::Result<bool> check_room(const SessionRequest& request, const config::Sessions& quotas,
                             std::size_t sessions, std::uint64_t bytes_in_use);
// A resumed session is the one that was there: every field of its geometry must agree, its hotness order and
// its tokenizer.
shm::Result<bool> check_same_session(const shm::Segment& present, const SessionRequest& request);
// What a peer is told who asks for a session that another opened.
shm::Error not_yours(const std::string& name);
// The model's order of blocks, and what it is in each rank's slice.
void write_order(const shm::Segment& segment, std::span<const std::uint32_t> order);

}  // namespace croupier::daemon
