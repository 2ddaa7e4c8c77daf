#include "daemon/decision_stream.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>
#include <zmq_addon.hpp>

#include "proto/wire.h"
#include "shm/step_window.h"

namespace croupier::daemon {

using proto::SessionCounter;

namespace {

constexpr int kSubscriptionsATurn = 64;

}  // namespace

DecisionStream::DecisionStream(zmq::context_t& context, std::uint32_t high_water_mark)
    : socket_(context, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::sndhwm, static_cast<int>(high_water_mark));
    // Without it a full or vanished peer's message would be dropped in silence.
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::maxmsgsize, std::int64_t{4096});
}

void DecisionStream::refuse(const zmq::message_t& peer, const std::string& why) {
    spdlog::warn("refused a message on the decision socket: {}", why);
    flatbuffers::FlatBufferBuilder builder;
    const auto body =
        wire::CreateRefusalDirect(builder, static_cast<std::uint32_t>(shm::Errc::bad_argument), why.c_str());
    wire::finish(builder, 0, body);
    try {
        const std::array<zmq::const_buffer, 2> frames = {
            zmq::buffer(peer.data(), peer.size()),
            zmq::buffer(builder.GetBufferPointer(), builder.GetSize())};
        zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait);
    } catch (const zmq::error_t& gone) {
        spdlog::debug("its sender is gone: {}", gone.what());
    }
}

void DecisionStream::serve(const SessionRegistry& registry) {
    for (int turn = 0; turn < kSubscriptionsATurn; ++turn) {
        std::vector<zmq::message_t> frames;
        if (!zmq::recv_multipart(socket_, std::back_inserter(frames), zmq::recv_flags::dontwait)) return;
        if (frames.size() != 2) {
            refuse(frames[0], "a subscription is one frame");
            continue;
        }
        // Copied: libzmq may hand out a frame in the middle of its buffer, and a flatbuffer is read aligned.
        const std::string frame = frames[1].to_string();
        const auto parsed = wire::parse(frame.data(), frame.size());
        if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
            refuse(frames[0], fault->message);
            continue;
        }
        const auto* subscribe = std::get<const wire::Message*>(parsed)->body_as_Subscribe();
        const shm::Segment* segment = subscribe != nullptr ? registry.find(subscribe->session_id()) : nullptr;
        if (segment == nullptr) {
            refuse(frames[0], subscribe == nullptr
                                  ? "only Subscribe is understood here"
                                  : "no session has the id " + std::to_string(subscribe->session_id()));
            continue;
        }
        subscribers_[subscribe->session_id()] = {frames[0].to_string(),
                                                 segment->header().taken.load(std::memory_order_acquire)};
    }
}

void DecisionStream::send_completed(const SessionRegistry& registry) {
    std::erase_if(subscribers_, [&](const auto& entry) { return registry.find(entry.first) == nullptr; });
    for (auto& [id, subscriber] : subscribers_) {
        const shm::Segment& segment = *registry.find(id);
        const shm::StepWindow window = shm::steps_in_flight(segment);
        if (!window.sound) continue;
        subscriber.next_step = std::max(subscriber.next_step, window.first);
        while (subscriber.next_step < window.end && send_step(segment, subscriber)) ++subscriber.next_step;
    }
}

bool DecisionStream::send_step(const shm::Segment& segment, Subscriber& subscriber) {
    const std::uint64_t step = subscriber.next_step;
    const std::uint32_t slot = segment.slot_of(step);
    const std::uint32_t columns = std::min(segment.schedule(slot).columns, segment.geometry().max_batch);
    if (!shm::step_complete(segment, slot, columns)) return false;
    flatbuffers::FlatBufferBuilder builder;
    std::vector<wire::DecisionEntry> entries;
    entries.reserve(columns);
    for (std::uint32_t column = 0; column < columns; ++column) {
        const auto& decision = segment.decisions(slot)[column];
        entries.emplace_back(decision.sequence_uid, decision.token, decision.logprob, decision.position,
                             decision.flags, static_cast<std::uint16_t>(decision.error));
    }
    const auto refused = shm::step_refusal(segment, slot);
    const auto body = wire::CreateStepDecisionsDirect(builder, segment.header().session_id, step,
                                                      static_cast<std::uint16_t>(refused), &entries);
    wire::finish(builder, 0, body);
    auto& header = segment.header();
    try {
        const std::array<zmq::const_buffer, 2> frames = {
            zmq::buffer(subscriber.identity), zmq::buffer(builder.GetBufferPointer(), builder.GetSize())};
        if (zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait)) {
            header.counter(SessionCounter::zmq_steps_sent).fetch_add(1, std::memory_order_relaxed);
            return true;
        }
    } catch (const zmq::error_t& gone) {
        spdlog::debug("the subscriber of session {} is not reachable: {}", header.session_id, gone.what());
    }
    header.counter(SessionCounter::zmq_send_deferred).fetch_add(1, std::memory_order_relaxed);
    return false;
}

}  // namespace croupier::daemon
