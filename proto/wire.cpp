#include "proto/wire.h"

#include <optional>

namespace croupier::wire {
namespace {

// The verifier checks where a vector's length lies, not its elements, which may need eight bytes.
template <typename Vector>
std::optional<WireFault> misplaced(const char* what, const Vector* vector, const void* bytes,
                                   std::size_t alignment) {
    if (vector == nullptr) return std::nullopt;
    const auto offset = vector->Data() - static_cast<const std::uint8_t*>(bytes);
    if (offset % static_cast<std::ptrdiff_t>(alignment) == 0) return std::nullopt;
    return WireFault{std::string("the ") + what + " of the message do not begin at a multiple of " +
                     std::to_string(alignment) + " bytes"};
}

std::optional<WireFault> misplaced(const Message& message, const void* bytes) {
    if (const auto* step = message.body_as_StepDecisions()) {
        if (auto fault = misplaced("decisions", step->decisions(), bytes, alignof(DecisionEntry)))
            return fault;
        return misplaced("survivors", step->support(), bytes, alignof(SurvivorEntry));
    }
    if (const auto* step = message.body_as_SubmitStep()) {
        return misplaced("columns", step->columns(), bytes, alignof(ColumnEntry));
    }
    const auto* attached = message.body_as_SessionAttached();
    if (attached == nullptr || attached->steps() == nullptr) return std::nullopt;
    for (const StepInFlight* step : *attached->steps()) {
        if (auto fault = misplaced("uids", step->uids(), bytes, alignof(std::uint64_t))) return fault;
    }
    return std::nullopt;
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
    if (auto fault = misplaced(*message, bytes)) return *std::move(fault);
    return message;
}

}  // namespace croupier::wire
