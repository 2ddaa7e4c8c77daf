#include "client/control_forwarder.h"

#include <zmq.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <variant>

#include "client/unreachable.h"
#include "proto/curve.h"

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

// 64 bits of the key: nobody finds a pair of keys that has the same ones.
std::string suffix_of(const std::string& key) {
    if (key.empty()) return "";
    std::array<std::uint8_t, proto::kCurveKeyLength / 5 * 4> bytes{};
    if (key.size() != proto::kCurveKeyLength || zmq_z85_decode(bytes.data(), key.c_str()) == nullptr)
        throw std::runtime_error(
            "the scheduler's public key is no CURVE key, which has 40 characters of Z85");
    std::string text = "@";
    for (std::size_t at = 0; at < 8; ++at) {
        std::array<char, 3> digits{};
        (void)std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(bytes[at]));
        text += digits.data();
    }
    return text;
}

}  // namespace

ControlForwarder::ControlForwarder(std::string endpoint, const std::string& peer_key)
    : endpoint_(std::move(endpoint)), suffix_(suffix_of(peer_key)) {}

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
        CROUPIER_TRY_VALUE(dealer, Dealer::connect(context_, endpoint_, {}, Dealer::Watch::yes));
        dealer_.emplace(std::move(dealer));
    }
    (void)dealer_->was_cut_off();  // before this request
    dealer_->send(record.data(), record.size());
    asked_ = message.request();
    asked_bytes_ = record.size();
    return true;
}

// The offset of a string may be any: the longer name stands behind the rest of the message.
std::vector<std::uint8_t> ControlForwarder::under_own_name(const wire::Message& message,
                                                           std::span<const std::uint8_t> record) const {
    const wire::Open& open = *message.body_as_Open();
    std::vector<std::uint8_t> bytes(record.begin(), record.end());
    if (open.name() == nullptr) return bytes;  // the daemon refuses it
    const std::string name = open.name()->str() + suffix_;
    const auto* table = static_cast<const flatbuffers::Table*>(message.body());
    const auto field = static_cast<std::size_t>(table->GetAddressOf(wire::Open::VT_NAME) - record.data());
    bytes.resize((bytes.size() + 3) / 4 * 4);
    const std::size_t place = bytes.size();
    bytes.resize(place + sizeof(flatbuffers::uoffset_t));
    flatbuffers::WriteScalar(&bytes[field], static_cast<flatbuffers::uoffset_t>(place - field));
    flatbuffers::WriteScalar(&bytes[place], static_cast<flatbuffers::uoffset_t>(name.size()));
    bytes.insert(bytes.end(), name.c_str(), name.c_str() + name.size() + 1);
    return bytes;
}

std::optional<std::vector<std::uint8_t>> ControlForwarder::forward(std::span<const std::uint8_t> record) {
    const wire::Message& message = *message_in(record);
    const bool opens = message.body_type() == wire::Body::Open;
    const auto sent = opens ? send(message, under_own_name(message, record)) : send(message, record);
    if (sent) return std::nullopt;
    return refusal(message.request(), sent.error());
}

std::optional<std::vector<std::uint8_t>> ControlForwarder::news() {
    if (asked_bytes_ == 0) return std::nullopt;
    auto answer = dealer_->receive(std::chrono::milliseconds::zero());
    if (!answer) {
        if (!dealer_->was_cut_off()) return std::nullopt;
        // What came before the end of the connection is there now.
        answer = dealer_->receive(std::chrono::milliseconds::zero());
        if (!answer) return refusal(asked_, request_cut_off(endpoint_, std::exchange(asked_bytes_, 0)));
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
