#include "daemon/control/decision_stream.h"

namespace croupier::daemon {

void DecisionStream::subscribe(const shm::Segment& segment, const Asker& asker) {
    subscribers_.insert_or_assign(segment.id(),
                                  Subscriber{asker.frame, asker.peer, shm::DecisionSender(segment)});
}

void DecisionStream::drop_unadmitted(const Admitted& admitted) {
    std::erase_if(subscribers_, [&](const auto& entry) { return !admitted(entry.second.peer); });
}

void DecisionStream::send_decided(const SessionRegistry& registry, const Send& send) {
    std::erase_if(subscribers_, [&](const auto& entry) { return registry.find(entry.first) == nullptr; });
    flatbuffers::FlatBufferBuilder message;
    for (auto& [id, subscriber] : subscribers_) {
        const shm::Segment& segment = *registry.find(id);
        while (subscriber.sender.pack(segment, 0, message)) {
            if (!send(subscriber.frame, message)) {
                segment.header()
                    .counter(proto::SessionCounter::zmq_send_deferred)
                    .fetch_add(1, std::memory_order_relaxed);
                break;
            }
            subscriber.sender.advance();
            segment.header()
                .counter(proto::SessionCounter::zmq_steps_sent)
                .fetch_add(1, std::memory_order_relaxed);
        }
    }
}

}  // namespace croupier::daemon
