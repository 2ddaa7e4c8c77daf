#include "client/decision_stream.h"

#include <variant>

namespace croupier::client {
namespace {

constexpr std::chrono::milliseconds kLongestSilence{500};

}  // namespace

// Subscribes again when the daemon has restarted, or when the awaited step does not come: a message that was
// in flight when the daemon died is lost. The daemon then sends every step that was not taken.
void DecisionStream::keep_subscribed() {
    const auto now = std::chrono::steady_clock::now();
    const std::uint32_t generation = ring_->daemon_generation();
    const bool is_late = awaited_ == ring_->next_to_take() && now - quiet_since_ >= kLongestSilence;
    if (awaited_ != ring_->next_to_take()) quiet_since_ = now;
    awaited_ = ring_->next_to_take();
    if (generation_ == generation && !is_late) return;
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
        // The client has taken an earlier step already. A later one comes again after the next subscription.
        if (step->step() == ring_->next_to_take()) next = read_step(*step);
    }
    return next;
}

}  // namespace croupier::client
