// Checked access to the ZMQ messages of messages.fbs: bytes from a socket in, a verified message out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "messages_generated.h"

namespace croupier::wire {

constexpr std::uint32_t kWireVersion = 1;

struct WireFault {
    std::string message;
};

// The message points into `bytes`. Nothing of it is read before the verifier has walked all of it.
std::variant<const Message*, WireFault> parse(const void* bytes, std::size_t size);

// Finishes `builder` as a message around `body`; its buffer is then ready to send.
template <typename Table>
void finish(flatbuffers::FlatBufferBuilder& builder, std::uint64_t request, flatbuffers::Offset<Table> body) {
    FinishMessageBuffer(
        builder, CreateMessage(builder, kWireVersion, request, BodyTraits<Table>::enum_value, body.Union()));
}

}  // namespace croupier::wire
