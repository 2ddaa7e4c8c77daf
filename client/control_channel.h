// Requests to the daemon. Each has one answer, or an error that says why none came.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/dealer.h"
#include "proto/wire.h"

namespace croupier::client {

shm::Error refusal_error(const wire::Refusal& refusal);

class ControlChannel {
  public:
    static shm::Result<ControlChannel> connect(zmq::context_t& context, const std::string& endpoint,
                                               const CurveKeys& keys, std::chrono::milliseconds timeout);

    // Calls `read` with the daemon's answer, which is of the type `Answer` and valid during the call only.
    template <typename Answer, typename Question, typename Read>
    shm::Result<bool> ask(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Question> question,
                          Read&& read) {
        const std::uint64_t request = ++last_request_;
        wire::finish(builder, request, question);
        CROUPIER_TRY_VALUE(bytes, exchange(builder, request, wire::BodyTraits<Answer>::enum_value));
        read(*wire::GetMessage(bytes.data())->template body_as<Answer>());
        return true;
    }

  private:
    ControlChannel(Dealer dealer, std::chrono::milliseconds timeout)
        : dealer_(std::move(dealer)), timeout_(timeout) {}
    shm::Result<std::vector<std::uint8_t>> exchange(const flatbuffers::FlatBufferBuilder& builder,
                                                    std::uint64_t request, wire::Body wanted);

    Dealer dealer_;
    std::chrono::milliseconds timeout_;
    std::uint64_t last_request_ = 0;
};

}  // namespace croupier::client
