#include "client/control_channel.h"

#include <utility>
#include <variant>

#include "client/unreachable.h"

namespace croupier::client {
namespace {

using shm::Errc;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Of control.max_message_bytes: shorter messages are accepted by every daemon.
constexpr std::size_t kLeastLimit = 4096;
constexpr auto kLastErrc = static_cast<std::uint32_t>(Errc::peer_gone);

}  // namespace

shm::Error refusal_error(const wire::Refusal& refusal) {
    // A newer daemon may have error codes that this build does not know.
    const bool known = refusal.code() >= 1 && refusal.code() <= kLastErrc;
    const std::string text = refusal.message() != nullptr ? refusal.message()->str() : "no reason given";
    return {known ? static_cast<Errc>(refusal.code()) : Errc::refused, text};
}

shm::Result<bool> is_answer(std::span<const std::uint8_t> bytes, const std::string& who,
                            std::uint64_t request, wire::Body wanted) {
    const auto parsed = wire::parse(bytes.data(), bytes.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        return shm::fail(Errc::wrong_version, who + " answered, but " + fault->message);
    }
    const wire::Message& answer = *std::get<const wire::Message*>(parsed);
    // A late answer to a request that timed out, or a streamed step.
    if (answer.request() != request) return false;
    if (const auto* refusal = answer.body_as_Refusal()) return refusal_error(*refusal);
    if (answer.body_type() == wanted) return true;
    return shm::fail(Errc::refused, who + " answered with a " + wire::EnumNameBody(answer.body_type()) +
                                        " where a " + wire::EnumNameBody(wanted) + " was due");
}

shm::Result<ControlChannel> ControlChannel::connect(zmq::context_t& context, const std::string& endpoint,
                                                    const CurveKeys& keys, milliseconds timeout) {
    if (auto forbidden = endpoint_forbidden(endpoint)) return *std::move(forbidden);
    CROUPIER_TRY_VALUE(dealer, Dealer::connect(context, endpoint, keys, Dealer::Watch::yes));
    return ControlChannel(std::move(dealer), timeout);
}

shm::Result<std::vector<std::uint8_t>> ControlChannel::exchange(const flatbuffers::FlatBufferBuilder& builder,
                                                                std::uint64_t request, wire::Body wanted) {
    (void)dealer_.was_cut_off();  // before this request
    dealer_.send(builder.GetBufferPointer(), builder.GetSize());
    const auto deadline = steady_clock::now() + timeout_;
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        if (left <= milliseconds::zero())
            return endpoint_silent(dealer_.endpoint(), static_cast<long>(timeout_.count()));
        auto bytes = dealer_.receive(left);
        const bool cut_off = !bytes && dealer_.was_cut_off();
        // What came before the end of the connection is there now.
        if (cut_off) bytes = dealer_.receive(milliseconds::zero());
        if (!bytes) {
            const bool may_be_too_large = builder.GetSize() > kLeastLimit;
            if (cut_off && may_be_too_large) return request_cut_off(dealer_.endpoint(), builder.GetSize());
            continue;
        }
        CROUPIER_TRY_VALUE(answers, is_answer(*bytes, dealer_.endpoint(), request, wanted));
        if (answers) return *std::move(bytes);
    }
}

}  // namespace croupier::client
