#include "proto/wire.h"

namespace croupier::wire {
namespace {

// The verifier checks where a vector's length lies, not its elements, which need eight bytes here.
bool decisions_aligned(const Message& message, const void* bytes) {
    const auto* step = message.body_as_StepDecisions();
    if (step == nullptr || step->decisions() == nullptr) return true;
    const auto offset = step->decisions()->Data() - static_cast<const std::uint8_t*>(bytes);
    return offset % static_cast<std::ptrdiff_t>(alignof(DecisionEntry)) == 0;
}

}  // namespace

std::variant<const Message*, WireFault> parse(const void* bytes, std::size_t size) {
    // The identifier lies in bytes 4 to 7: shorter than that is no message of ours.
    if (size < 8 || !MessageBufferHasIdentifier(bytes)) {
        return WireFault{
            "the frame is not a croupier message: it should begin with a flatbuffer that is "
            "identified as " +
            std::string(MessageIdentifier())};
    }
    flatbuffers::Verifier verifier(static_cast<const std::uint8_t*>(bytes), size);
    if (!VerifyMessageBuffer(verifier)) {
        return WireFault{"the frame of " + std::to_string(size) + " bytes is a damaged croupier message"};
    }
    const Message* message = GetMessage(bytes);
    if (message->version() != kWireVersion) {
        return WireFault{"the message speaks wire version " + std::to_string(message->version()) +
                         ", this build speaks " + std::to_string(kWireVersion)};
    }
    if (message->body() == nullptr) return WireFault{"the message has no body"};
    if (!decisions_aligned(*message, bytes)) {
        return WireFault{"the decisions of the message do not begin at a multiple of " +
                         std::to_string(alignof(DecisionEntry)) + " bytes"};
    }
    return message;
}

}  // namespace croupier::wire
