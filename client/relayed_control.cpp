#include "client/relayed_control.h"

#include <algorithm>

#include "shm/random_number.h"

namespace croupier::client {
namespace {

using shm::Errc;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A full queue is tried again this soon.
constexpr milliseconds kLook{20};
// Who closes a session has often ended the daemon, or its host, and has more to end.
constexpr milliseconds kClosing{2000};
constexpr const char* kRelay = "the relay";

}  // namespace

shm::Error channel_error(const croupier_error& error) {
    return {static_cast<Errc>(error.code), std::string("the channel to the relay: ") + error.text};
}

std::uint64_t fresh_number() {
    const auto now = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count());
    return shm::random_number().value_or(now) >> 8U;
}

shm::Result<bool> RelayedControl::send(const flatbuffers::FlatBufferBuilder& builder) {
    croupier_error error{};
    const int status = channel_.send(channel_.context, builder.GetBufferPointer(), builder.GetSize(), &error);
    if (status < 0) return channel_error(error);
    return status == 0;
}

shm::Result<std::vector<std::uint8_t>> RelayedControl::exchange(const flatbuffers::FlatBufferBuilder& builder,
                                                                std::uint64_t request, wire::Body wanted) {
    const auto patience = wanted == wire::Body::Closed ? std::min(timeout_, kClosing) : timeout_;
    const auto deadline = steady_clock::now() + patience;
    bool sent = false;
    while (true) {
        if (!sent) {
            CROUPIER_TRY_VALUE(done, send(builder));
            sent = done;
        }
        const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        if (left <= milliseconds::zero()) {
            return shm::fail(Errc::timed_out,
                             "the daemon behind the relay did not answer within " +
                                 std::to_string(patience.count()) +
                                 " ms; does croupierd run beside the relay, and answer at its --endpoint?");
        }
        const void* bytes = nullptr;
        std::size_t size = 0;
        croupier_error error{};
        const auto wait_ms = static_cast<std::uint32_t>((sent ? left : std::min(left, kLook)).count());
        const int status = channel_.receive(channel_.context, wait_ms, &bytes, &size, &error);
        if (status < 0) return channel_error(error);
        if (status == 0) continue;
        const auto* begin = static_cast<const std::uint8_t*>(bytes);
        std::vector<std::uint8_t> answer(begin, begin + size);
        CROUPIER_TRY_VALUE(answers, is_answer(answer, kRelay, request, wanted));
        if (answers) return answer;
    }
}

}  // namespace croupier::client
