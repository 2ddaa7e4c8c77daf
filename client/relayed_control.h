// Requests to the daemon of another host, over the channel to the relay there.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/control_channel.h"
#include "croupier/record_channel.h"

namespace croupier::client {

shm::Error channel_error(const croupier_error& error);
// Answers to an earlier session over the same channel have other numbers.
std::uint64_t fresh_number();

class RelayedControl final : public Control {
  public:
    RelayedControl(const croupier_record_channel& channel, std::chrono::milliseconds timeout)
        : Control(fresh_number()), channel_(channel), timeout_(timeout) {}

  private:
    // What comes meanwhile for the session itself is dropped: none is open yet, or it is being closed.
    shm::Result<std::vector<std::uint8_t>> exchange(const flatbuffers::FlatBufferBuilder& builder,
                                                    std::uint64_t request, wire::Body wanted) override;
    shm::Result<bool> send(const flatbuffers::FlatBufferBuilder& builder);

    croupier_record_channel channel_;
    std::chrono::milliseconds timeout_;
};

}  // namespace croupier::client
