#include "client/decision_stream.h"

#include <variant>

#include "client/control_channel.h"

namespace croupier::client {
namespace {

constexpr std::chrono::milliseconds kLongestSilence{500};

}  // namespace

// Subscribes again when the daemon has restarted, or when no step comes: the daemon does not know this socket
// after it has connected again. It then sends every step that was not taken.
void DecisionStream::keep_subscribed() {
    const auto now = std::chrono::steady_clock::now();
    const std::uint32_t generation = ring_->daemon_generation();
    if (generation_ == generation && now - quiet_since_ < kLongestSilence) return;
    generation_ = generation;
    quiet_since_ = now;
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 0, wire::CreateConfigure(builder, session_id_, true));
    dealer_.send(builder.GetBufferPointer(), builder.GetSize());
}

shm::Result<std::optional<StreamedStep>> DecisionStream::receive(std::chrono::milliseconds timeout) {
    std::optional<StreamedStep> next;
    keep_subscribed();
    while (!next) {
        const auto bytes = dealer_.receive(timeout);
        if (!bytes) return next;
        const auto parsed = wire::parse(bytes->data(), bytes->size());
        if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
            return shm::fail(shm::Errc::wrong_version,
                             dealer_.endpoint() + " sent no decisions: " + fault->message);
        }
        const wire::Message& message = *std::get<const wire::Message*>(parsed);
        if (const auto* refusal = message.body_as_Refusal()) {
            const shm::Error error = refusal_error(*refusal);
            // A daemon does not know a session that it has not taken back from a stand-in yet.
            if (error.code != shm::Errc::not_found) return error;
        }
        const auto* step = message.body_as_StepDecisions();
        if (step == nullptr || step->session_id() != session_id_) continue;
        quiet_since_ = std::chrono::steady_clock::now();
        // The client has taken an earlier step already.
        if (step->step() == ring_->next_to_take()) next = read_step(*step);
    }
    return next;
}

}  // namespace croupier::client
