#include "client/decision_stream.h"

#include <variant>

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
        const auto* step = std::get<const wire::Message*>(parsed)->body_as_StepDecisions();
        if (step == nullptr || step->session_id() != session_id_) continue;
        quiet_since_ = std::chrono::steady_clock::now();
        // The client has taken an earlier step already.
        if (step->step() == ring_->next_to_take()) next = read_step(*step);
    }
    return next;
}

}  // namespace croupier::client
