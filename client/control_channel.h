// Requests to the daemon: one question, one answer, or an error that says why there is none.
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

    // The daemon's answer of the type `Answer`, read by `read`, whose pointer is not valid afterwards.
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
