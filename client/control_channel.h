// Requests to the daemon. Each has one answer, or an error that says why none came.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/dealer.h"
#include "proto/wire.h"

namespace croupier::client {

shm::Error refusal_error(const wire::Refusal& refusal);

class Control {
  public:
    // `first_request`: the number of the first one, which no answer to an earlier user of the way has.
    explicit Control(std::uint64_t first_request) : next_request_(first_request) {}
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    Control(Control&&) = default;
    Control& operator=(Control&&) = default;
    virtual ~Control() = default;

    // Calls `read` with the daemon's answer, which is of the type `Answer` and valid during the call only.
    template <typename Answer, typename Question, typename Read>
    shm::Result<bool> ask(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Question> question,
                          Read&& read) {
        const std::uint64_t request = next_request_++;
        wire::finish(builder, request, question);
        CROUPIER_TRY_VALUE(bytes, exchange(builder, request, wire::BodyTraits<Answer>::enum_value));
        read(*wire::GetMessage(bytes.data())->template body_as<Answer>());
        return true;
    }

  private:
    // The bytes of the answer to `request`, whose body is `wanted`.
    virtual shm::Result<std::vector<std::uint8_t>> exchange(const flatbuffers::FlatBufferBuilder& builder,
                                                            std::uint64_t request, wire::Body wanted) = 0;

    std::uint64_t next_request_;
};

// Whether these bytes answer the request; an error if they do and are not as wanted. `who` has sent them.
shm::Result<bool> is_answer(std::span<const std::uint8_t> bytes, const std::string& who,
                            std::uint64_t request, wire::Body wanted);

// The daemon's control socket.
class ControlChannel final : public Control {
  public:
    static shm::Result<ControlChannel> connect(zmq::context_t& context, const std::string& endpoint,
                                               const CurveKeys& keys, std::chrono::milliseconds timeout);

  private:
    ControlChannel(Dealer dealer, std::chrono::milliseconds timeout)
        : Control(1), dealer_(std::move(dealer)), timeout_(timeout) {}
    shm::Result<std::vector<std::uint8_t>> exchange(const flatbuffers::FlatBufferBuilder& builder,
                                                    std::uint64_t request, wire::Body wanted) override;

    Dealer dealer_;
    std::chrono::milliseconds timeout_;
};

}  // namespace croupier::client
