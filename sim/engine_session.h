// The simulated engine's calls to the client library, retried as a real engine would.
#pragma once

#include <cstdint>
#include <optional>

#include "croupier/client.hpp"
#include "sim/world.h"

namespace croupier::sim {

// Resumes the session of a dead scheduler, or opens a new one.
client::Session open_session(const World& world);
// Retries if a restart of the daemon lost the request.
void close_session(client::Session& session, const World& world);

client::Sequence client_sequence(const World& world, const Request& request);

// The oldest step in flight if it is decided in time. Throws if the step was refused as a whole.
std::optional<client::Step> wait_step(client::Session& session, std::uint32_t timeout_ms);

}  // namespace croupier::sim
