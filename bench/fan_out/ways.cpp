#include "bench/fan_out/ways.h"

#include <stdexcept>
#include <thread>
#include <zmq.hpp>

#include "fan_out/fan_out.h"
#include "proto/curve.h"

namespace croupier::bench {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{20000};

template <typename T>
T need(shm::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

fan_out::FanOutOptions group_options(Way way, const Meeting& meeting, std::uint32_t member) {
    fan_out::FanOutOptions options;
    options.transport = way == Way::nccl ? fan_out::Transport::nccl : fan_out::Transport::zmq;
    options.endpoint = meeting.endpoint;
    options.keys = member == 0
                       ? fan_out::FanOutKeys{meeting.root_public, meeting.root_secret, meeting.leaf_public}
                       : fan_out::FanOutKeys{meeting.leaf_public, meeting.leaf_secret, meeting.root_public};
    options.members = meeting.leaves + 1;
    options.member = member;
    options.device = static_cast<std::int32_t>(member);
    options.join_timeout = kPatience;
    return options;
}

class GroupRoot final : public RootEnd {
  public:
    GroupRoot(Way way, const Meeting& meeting)
        : group_(need(fan_out::open_fan_out(group_options(way, meeting, 0)))) {}
    void send(std::span<const std::uint8_t> record) override {
        // Busy: the window is full until a receipt arrives; waiting for answers processes receipts.
        while (!need(group_->send(record))) {
            (void)need(group_->receive_answer(milliseconds(0)));
            std::this_thread::yield();
        }
    }

  private:
    std::unique_ptr<fan_out::FanOut> group_;
};

class GroupLeaf final : public LeafEnd {
  public:
    GroupLeaf(Way way, const Meeting& meeting, std::uint32_t leaf)
        : group_(need(fan_out::open_fan_out(group_options(way, meeting, leaf + 1)))) {}
    std::span<const std::uint8_t> receive() override {
        const auto record = need(group_->receive(kPatience));
        if (!record) throw std::runtime_error("no record arrived");
        return *record;
    }

  private:
    std::unique_ptr<fan_out::FanOut> group_;
};

bool over_tcp(const Meeting& meeting) {
    return meeting.endpoint.starts_with("tcp://");
}

class BareRoot final : public RootEnd {
  public:
    explicit BareRoot(const Meeting& meeting) : socket_(context_, zmq::socket_type::xpub) {
        socket_.set(zmq::sockopt::sndhwm, 0);
        socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(kPatience.count()));
        // Receive each leaf's subscription, not only the first of a topic.
        socket_.set(zmq::sockopt::xpub_verbose, true);
        if (over_tcp(meeting)) proto::serve_tcp(socket_, meeting.endpoint, meeting.root_secret);
        socket_.bind(meeting.endpoint);
        for (std::uint32_t leaf = 0; leaf < meeting.leaves; ++leaf) {
            zmq::message_t subscription;
            if (!socket_.recv(subscription)) throw std::runtime_error("no leaf subscribed");
        }
    }
    void send(std::span<const std::uint8_t> record) override {
        socket_.send(zmq::const_buffer(record.data(), record.size()), zmq::send_flags::none);
    }

  private:
    zmq::context_t context_;
    zmq::socket_t socket_;
};

class BareLeaf final : public LeafEnd {
  public:
    explicit BareLeaf(const Meeting& meeting) : socket_(context_, zmq::socket_type::sub) {
        socket_.set(zmq::sockopt::rcvhwm, 0);
        socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(kPatience.count()));
        if (over_tcp(meeting)) {
            proto::join_tcp(socket_, meeting.endpoint, meeting.root_public, meeting.leaf_public,
                            meeting.leaf_secret);
        }
        socket_.set(zmq::sockopt::subscribe, "");
        socket_.connect(meeting.endpoint);
    }
    std::span<const std::uint8_t> receive() override {
        if (!socket_.recv(message_)) throw std::runtime_error("no record arrived");
        return {message_.data<std::uint8_t>(), message_.size()};
    }

  private:
    zmq::context_t context_;
    zmq::socket_t socket_;
    zmq::message_t message_;
};

}  // namespace

const char* name_of(Way way) {
    switch (way) {
        case Way::bare:
            return "bare PUB/SUB";
        case Way::zmq:
            return "zmq";
        case Way::nccl:
            return "nccl";
    }
    return "";
}

std::unique_ptr<RootEnd> open_root(Way way, const Meeting& meeting) {
    if (way == Way::bare) return std::make_unique<BareRoot>(meeting);
    return std::make_unique<GroupRoot>(way, meeting);
}

std::unique_ptr<LeafEnd> open_leaf(Way way, const Meeting& meeting, std::uint32_t leaf) {
    if (way == Way::bare) return std::make_unique<BareLeaf>(meeting);
    return std::make_unique<GroupLeaf>(way, meeting, leaf);
}

}  // namespace croupier::bench
