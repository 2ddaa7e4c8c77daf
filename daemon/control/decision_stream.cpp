#include "daemon/control/decision_stream.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>
#include <zmq_addon.hpp>

#include "daemon/control/endpoint.h"
#include "event_log/event_log.h"
#include "proto/wire.h"
#include "shm/step_window.h"

namespace croupier::daemon {

using event_log::Event;

using proto::SessionCounter;

namespace {

constexpr int kSubscriptionsATurn = 64;

// The ranked log-probs of a step, as they are sent.
struct Ranked {
    std::vector<wire::LogprobEntry> entries;
    std::vector<std::uint8_t> counts;

    using Column = proto::StoredArray<const proto::RankedLogprob>;
    void add(Column column) {
        for (const auto& [token, logprob, rank] : column) entries.emplace_back(token, logprob, rank);
        counts.push_back(static_cast<std::uint8_t>(column.size()));
    }
};

// And what the tokens were drawn from.
struct Supports {
    std::vector<wire::SurvivorEntry> entries;
    std::vector<std::uint32_t> counts;
    std::vector<std::uint32_t> totals;

    void add(const shm::AnsweredSupport& column) {
        for (const auto& [token, reserved, probability] : column.survivors)
            entries.emplace_back(token, reserved, probability);
        counts.push_back(static_cast<std::uint32_t>(column.survivors.size()));
        totals.push_back(column.total);
    }
};

}  // namespace

DecisionStream::DecisionStream(zmq::context_t& context, std::uint32_t high_water_mark)
    : socket_(context, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::sndhwm, static_cast<int>(high_water_mark));
    // Without it a full or vanished peer's message would be dropped in silence.
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::maxmsgsize, std::int64_t{4096});
    socket_.set(zmq::sockopt::rcvhwm, kUnreadMessages);
}

void DecisionStream::refuse(const zmq::message_t& peer, const shm::Error& why) {
    event_log::write(Event::message_refused, {{"socket", "decisions"}, {"error", shm::errc_name(why.code)}},
                     "refused a message on the decision socket: {}", why.message);
    flatbuffers::FlatBufferBuilder builder;
    const auto body =
        wire::CreateRefusalDirect(builder, static_cast<std::uint32_t>(why.code), why.message.c_str());
    wire::finish(builder, 0, body);
    try {
        const std::array<zmq::const_buffer, 2> frames = {
            zmq::buffer(peer.data(), peer.size()),
            zmq::buffer(builder.GetBufferPointer(), builder.GetSize())};
        zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait);
    } catch (const zmq::error_t& gone) {
        event_log::write(Event::peer_unreachable, {{"socket", "decisions"}},
                         "a refused message's sender is gone: {}", gone.what());
    }
}

shm::Result<std::uint64_t> DecisionStream::read_subscription(zmq::message_t& frame,
                                                             const SessionRegistry& registry,
                                                             const Peer& peer) const {
    // Copied: libzmq may hand out a frame in the middle of its buffer, and a flatbuffer is read aligned.
    const std::string copy = frame.to_string();
    const auto parsed = wire::parse(copy.data(), copy.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        return shm::fail(shm::Errc::bad_argument, fault->message);
    }
    const auto* subscribe = std::get<const wire::Message*>(parsed)->body_as_Subscribe();
    if (subscribe == nullptr) {
        return shm::fail(shm::Errc::bad_argument, "only Subscribe is understood here");
    }
    CROUPIER_TRY(registry.find_for(subscribe->session_id(), peer));
    return subscribe->session_id();
}

void DecisionStream::serve(const SessionRegistry& registry, const std::string& endpoint,
                           const Admitted& admitted) {
    for (int turn = 0; turn < kSubscriptionsATurn; ++turn) {
        std::vector<zmq::message_t> frames;
        if (!zmq::recv_multipart(socket_, std::back_inserter(frames), zmq::recv_flags::dontwait)) return;
        if (frames.size() != 2) {
            refuse(frames[0], {shm::Errc::bad_argument, "a subscription is one frame"});
            continue;
        }
        auto peer = peer_of(frames[1], endpoint);
        if (!peer || !admitted(peer.value())) {
            refuse(frames[0], peer ? shm::Error{shm::Errc::permission_denied,
                                                "the CURVE key is not among the authorized ones any more"}
                                   : peer.error());
            continue;
        }
        const auto session = read_subscription(frames[1], registry, peer.value());
        if (!session) {
            refuse(frames[0], session.error());
            continue;
        }
        const auto& header = registry.find(session.value())->header();
        subscribers_[session.value()] = {frames[0].to_string(), std::move(peer).value(),
                                         header.taken.load(std::memory_order_acquire)};
    }
}

void DecisionStream::drop_unadmitted(const Admitted& admitted) {
    std::erase_if(subscribers_, [&](const auto& entry) { return !admitted(entry.second.peer); });
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
        const proto::Decision decision = segment.decisions(slot)[column];
        entries.emplace_back(decision.sequence_uid, decision.token, decision.logprob, decision.position,
                             decision.flags, static_cast<std::uint16_t>(decision.error));
    }
    const auto refused = shm::step_refusal(segment, slot);
    const bool ranks = segment.geometry().max_logprobs > 0;
    const bool supports = segment.geometry().max_support > 0;
    Ranked ranked;
    Supports supported;
    for (std::uint32_t column = 0; column < columns; ++column) {
        const bool decided = segment.decisions(slot)[column].load().error == proto::DecisionError::none;
        if (ranks)
            ranked.add(decided ? shm::asked_logprobs(segment.logprobs(slot, column)) : Ranked::Column());
        if (supports)
            supported.add(decided ? shm::answered_support(segment, slot, column) : shm::AnsweredSupport());
    }
    const auto body = wire::CreateStepDecisionsDirect(
        builder, segment.id(), step, static_cast<std::uint16_t>(refused), &entries,
        ranks ? &ranked.entries : nullptr, ranks ? &ranked.counts : nullptr,
        supports ? &supported.entries : nullptr, supports ? &supported.counts : nullptr,
        supports ? &supported.totals : nullptr);
    wire::finish(builder, 0, body);
    auto& header = segment.header();
    try {
        const std::array<zmq::const_buffer, 2> frames = {
            zmq::buffer(subscriber.frame), zmq::buffer(builder.GetBufferPointer(), builder.GetSize())};
        if (zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait)) {
            header.counter(SessionCounter::zmq_steps_sent).fetch_add(1, std::memory_order_relaxed);
            return true;
        }
    } catch (const zmq::error_t& gone) {
        event_log::write(Event::peer_unreachable, {{"socket", "decisions"}, {"session_id", segment.id()}},
                         "the subscriber of session {} is not reachable: {}", segment.id(), gone.what());
    }
    header.counter(SessionCounter::zmq_send_deferred).fetch_add(1, std::memory_order_relaxed);
    return false;
}

}  // namespace croupier::daemon
