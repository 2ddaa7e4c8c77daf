// The simulated engine's calls of the client library, with the patience that an engine would have.
#pragma once

#include <cstdint>
#include <optional>

#include "croupier/client.hpp"
#include "sim/world.h"

namespace croupier::sim {

// Goes on with the session of a scheduler that died, or begins it.
client::Session open_session(const World& world);
// Asks again when the daemon was restarting and the request was lost with it.
void close_session(client::Session& session, const World& world);

client::Sequence client_sequence(const World& world, const Request& request);

// The oldest step in flight, if it is decided in time. A step that was refused as a whole is a failure.
std::optional<client::Step> wait_step(client::Session& session, std::uint32_t timeout_ms);

}  // namespace croupier::sim
