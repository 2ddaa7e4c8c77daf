#include "client/control_forwarder.h"

#include <chrono>
#include <utility>
#include <variant>

#include "client/unreachable.h"

namespace croupier::client {
namespace {

using shm::Errc;

const wire::Message* message_in(std::span<const std::uint8_t> bytes) {
    const auto parsed = wire::parse(bytes.data(), bytes.size());
    const auto* const* message = std::get_if<const wire::Message*>(&parsed);
    return message == nullptr ? nullptr : *message;
}

std::vector<std::uint8_t> refusal(std::uint64_t request, const shm::Error& error) {
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(
        builder, request,
        wire::CreateRefusalDirect(builder, static_cast<std::uint32_t>(error.code), error.message.c_str()));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace

bool ControlForwarder::is_request(std::span<const std::uint8_t> record) {
    const wire::Message* message = message_in(record);
    if (message == nullptr) return false;
    const wire::Body body = message->body_type();
    return body == wire::Body::Open || body == wire::Body::Configure || body == wire::Body::Close;
}

shm::Result<bool> ControlForwarder::check_session(std::uint64_t id) const {
    if (id == opened_.id) return true;
    return shm::fail(Errc::refused, "session " + std::to_string(id) +
                                        " was not opened through this relay in this group: open it first");
}

shm::Result<bool> ControlForwarder::send(const wire::Message& message, std::span<const std::uint8_t> record) {
    if (const auto* close = message.body_as_Close()) {
        CROUPIER_TRY(check_session(close->session_id()));
    } else if (const auto* configure = message.body_as_Configure()) {
        CROUPIER_TRY(check_session(configure->session_id()));
    }
    if (auto forbidden = endpoint_forbidden(endpoint_)) return *std::move(forbidden);
    if (!dealer_) {
        CROUPIER_TRY_VALUE(dealer, Dealer::connect(context_, endpoint_, {}));
        dealer.watch(context_);
        dealer_.emplace(std::move(dealer));
    }
    (void)dealer_->was_cut_off();  // before this request
    dealer_->send(record.data(), record.size());
    asked_ = message.request();
    asked_bytes_ = record.size();
    return true;
}

std::optional<std::vector<std::uint8_t>> ControlForwarder::forward(std::span<const std::uint8_t> record) {
    const wire::Message& message = *message_in(record);
    const auto sent = send(message, record);
    if (sent) return std::nullopt;
    return refusal(message.request(), sent.error());
}

std::optional<std::vector<std::uint8_t>> ControlForwarder::news() {
    if (asked_bytes_ == 0) return std::nullopt;
    auto answer = dealer_->receive(std::chrono::milliseconds::zero());
    if (!answer) {
        if (!dealer_->was_cut_off()) return std::nullopt;
        return refusal(asked_, request_cut_off(endpoint_, std::exchange(asked_bytes_, 0)));
    }
    const wire::Message* message = message_in(*answer);
    if (message == nullptr || message->request() != asked_) return answer;
    asked_bytes_ = 0;
    if (const auto* opened = message->body_as_SessionInfo()) {
        const auto* path = opened->segment_path();
        opened_ = {opened->session_id(), path == nullptr ? std::string() : path->str()};
    }
    return answer;
}

}  // namespace croupier::client
