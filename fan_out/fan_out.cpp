#include "fan_out/fan_out.h"

#include "fan_out/nccl_fan_out.h"
#include "fan_out/zmq_fan_out.h"
#include "proto/curve.h"
#include "proto/endpoint.h"
#include "proto/fan_out_frame.h"

namespace croupier::fan_out {
namespace {

using shm::Errc;

shm::Error only(const char* who, const char* what) {
    return {Errc::bad_argument, std::string("only ") + who + " of a fan-out may " + what};
}

shm::Result<bool> check_keys(const FanOutOptions& options) {
    const auto fault =
        proto::key_length_fault(options.endpoint, {{"own_public_key", options.keys.own_public},
                                                   {"own_secret_key", options.keys.own_secret},
                                                   {"peer_public_key", options.keys.peer_public}});
    if (fault) return shm::fail(Errc::bad_argument, *fault);
    return true;
}

shm::Result<bool> check(const FanOutOptions& options) {
    if (const auto fault = proto::endpoint_fault(options.endpoint))
        return shm::fail(Errc::bad_argument, *fault);
    if (options.members < 2 || options.members > proto::kMaxFanOutMembers) {
        return shm::fail(Errc::bad_argument, "members is " + std::to_string(options.members) +
                                                 ", allowed is 2 to " +
                                                 std::to_string(proto::kMaxFanOutMembers));
    }
    if (options.member >= options.members) {
        return shm::fail(Errc::bad_argument, "member is " + std::to_string(options.member) +
                                                 ", allowed is 0 (the root) to " +
                                                 std::to_string(options.members - 1));
    }
    if (options.window < 1) return shm::fail(Errc::bad_argument, "window is 0, allowed is at least 1");
    if (options.endpoint.starts_with("tcp://")) return check_keys(options);
    return true;
}

}  // namespace

shm::Result<bool> FanOut::send(std::span<const std::uint8_t> /*record*/) {
    return only("the root", "send records");
}

shm::Result<std::optional<Answer>> FanOut::receive_answer(std::chrono::milliseconds /*timeout*/) {
    return only("the root", "receive answers");
}

shm::Result<std::optional<std::span<const std::uint8_t>>> FanOut::receive(
    std::chrono::milliseconds /*timeout*/, int /*wake*/) {
    return only("a member other than the root", "receive records");
}

shm::Result<bool> FanOut::answer(std::span<const std::uint8_t> /*bytes*/) {
    return only("a member other than the root", "answer");
}

shm::Result<std::unique_ptr<FanOut>> open_fan_out(const FanOutOptions& options) {
    CROUPIER_TRY(check(options));
    return options.transport == Transport::nccl ? open_nccl_fan_out(options) : open_zmq_fan_out(options);
}

}  // namespace croupier::fan_out
