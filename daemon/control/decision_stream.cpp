#include "daemon/control/decision_stream.h"

#include <utility>

#include "proto/geometry.h"

namespace croupier::daemon {
namespace {

// One message may exceed it, because the largest is as large.
constexpr std::uint64_t kMostUnread = proto::kMostSentBeside;

struct CountedBytes {
    flatbuffers::DetachedBuffer bytes;
    std::shared_ptr<std::atomic<std::uint64_t>> unread;
};

// libzmq calls it, in its own thread, when the kernel has the message or the peer is gone.
void release(void* /*data*/, void* hint) {
    const std::unique_ptr<CountedBytes> message(static_cast<CountedBytes*>(hint));
    message->unread->fetch_sub(message->bytes.size(), std::memory_order_relaxed);
}

zmq::message_t counted(flatbuffers::DetachedBuffer bytes,
                       const std::shared_ptr<std::atomic<std::uint64_t>>& unread) {
    auto message = std::make_unique<CountedBytes>(CountedBytes{std::move(bytes), unread});
    unread->fetch_add(message->bytes.size(), std::memory_order_relaxed);
    std::uint8_t* data = message->bytes.data();
    const std::size_t size = message->bytes.size();
    return {data, size, release, message.release()};
}

}  // namespace

void DecisionStream::subscribe(const shm::Segment& segment, const Asker& asker) {
    const auto before = subscribers_.find(segment.id());
    const bool same = before != subscribers_.end() && before->second.frame == asker.frame &&
                      before->second.peer.identity == asker.peer.identity;
    if (same) return;
    std::erase_if(unread_, [](const auto& entry) { return entry.second.use_count() == 1; });
    Unread& unread = unread_[asker.peer.identity];
    if (!unread) unread = std::make_shared<std::atomic<std::uint64_t>>(0);
    subscribers_.insert_or_assign(segment.id(),
                                  Subscriber{asker.frame, asker.peer, unread, shm::DecisionSender(segment)});
}

void DecisionStream::drop_unadmitted(const Admitted& admitted) {
    std::erase_if(subscribers_, [&](const auto& entry) { return !admitted(entry.second.peer); });
}

void DecisionStream::send_decided(const SessionRegistry& registry, const Send& send) {
    std::erase_if(subscribers_, [&](const auto& entry) { return registry.find(entry.first) == nullptr; });
    for (auto& [id, subscriber] : subscribers_) {
        const shm::Segment& segment = *registry.find(id);
        while (subscriber.sender.has_next(segment)) {
            const bool sent = send_next(segment, subscriber, send);
            segment.header()
                .counter(sent ? proto::SessionCounter::zmq_steps_sent
                              : proto::SessionCounter::zmq_send_deferred)
                .fetch_add(1, std::memory_order_relaxed);
            if (!sent) break;
        }
    }
}

bool DecisionStream::send_next(const shm::Segment& segment, Subscriber& subscriber, const Send& send) {
    if (subscriber.unread->load(std::memory_order_relaxed) >= kMostUnread) return false;
    flatbuffers::FlatBufferBuilder builder;
    if (!subscriber.sender.pack(segment, 0, builder)) return false;
    if (!send(subscriber.frame, counted(builder.Release(), subscriber.unread))) return false;
    subscriber.sender.advance();
    return true;
}

}  // namespace croupier::daemon
