#include <zmq.h>

#include <utility>

#include "croupier/fan_out.h"
#include "fan_out/fan_out.h"
#include "proto/curve.h"
#include "proto/fan_out_frame.h"
#include "shm/c_abi.h"
#include "shm/caller_struct.h"
#include "shm/home_process.h"

namespace fan_out = croupier::fan_out;
namespace shm = croupier::shm;
using shm::guarded;
using shm::missing;

struct croupier_fan_out {
    std::unique_ptr<fan_out::FanOut> group;
    fan_out::Answer answer;  // the last one, which the caller reads
    shm::HomeProcess home;
};

static_assert(CROUPIER_FAN_OUT_ZMQ == static_cast<int>(fan_out::Transport::zmq) &&
              CROUPIER_FAN_OUT_NCCL == static_cast<int>(fan_out::Transport::nccl));
static_assert(CROUPIER_FAN_OUT_KEY_BYTES == croupier::proto::kCurveKeyLength + 1);
static_assert(CROUPIER_FAN_OUT_MAX_RECORD == croupier::proto::kMaxRecordBytes);

namespace {

shm::Result<int> sent(const shm::Result<bool>& result) {
    if (!result) return result.error();
    return result.value() ? 0 : CROUPIER_FAN_OUT_BUSY;
}

std::string text_of(const char* text) {
    return text == nullptr ? std::string() : std::string(text);
}

std::span<const std::uint8_t> bytes_of(const void* begin, std::size_t size) {
    return {static_cast<const std::uint8_t*>(begin), size};
}

// The sizes in the oldest headers that are kept (tests/abi).
constexpr std::size_t kOptionsAtFirst = 64;
constexpr std::size_t kChannelAtFirst = 40;

shm::Result<fan_out::FanOutOptions> checked(const croupier_fan_out_options& given) {
    CROUPIER_TRY_VALUE(known, shm::read_struct(given, "croupier_fan_out_options", kOptionsAtFirst));
    const croupier_fan_out_options& options = known;
    if (options.transport > CROUPIER_FAN_OUT_NCCL) {
        return shm::fail(shm::Errc::bad_argument, "transport is " + std::to_string(options.transport) +
                                                      ", allowed: 0 (ZMQ) or 1 (NCCL)");
    }
    return fan_out::FanOutOptions{
        static_cast<fan_out::Transport>(options.transport),
        text_of(options.endpoint),
        {text_of(options.own_public_key), text_of(options.own_secret_key), text_of(options.peer_public_key)},
        options.members,
        options.member,
        options.device,
        std::chrono::milliseconds(options.join_timeout_ms),
        options.window};
}

template <typename Body>
int guarded_group(const croupier_fan_out* fan_out, croupier_error* error, Body&& body) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (fan_out == nullptr) return missing("fan_out");
        CROUPIER_TRY(fan_out->home.check("this group"));
        return body();
    });
}

int channel_send(void* context, const void* record, size_t size, croupier_error* error) {
    return croupier_fan_out_send(static_cast<croupier_fan_out*>(context), record, size, error);
}

int channel_receive(void* context, uint32_t timeout_ms, const void** answer, size_t* size,
                    croupier_error* error) {
    uint32_t member = 0;
    return croupier_fan_out_receive_answer(static_cast<croupier_fan_out*>(context), timeout_ms, &member,
                                           answer, size, error);
}

int channel_descriptor(void* context) {
    const auto* fan_out = static_cast<croupier_fan_out*>(context);
    return fan_out->home.is_here() ? fan_out->group->descriptor() : -1;
}

}  // namespace

extern "C" {

const char* croupier_fan_out_version(void) {
    return CROUPIER_VERSION;
}

int croupier_fan_out_make_keys(croupier_fan_out_keys* keys, croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (keys == nullptr) return missing("keys");
        if (zmq_curve_keypair(keys->public_key, keys->secret_key) == 0) return 0;
        return shm::fail(shm::Errc::system_error, "this build's libzmq has no CURVE");
    });
}

int croupier_fan_out_open(const croupier_fan_out_options* options, croupier_fan_out** fan_out,
                          croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (options == nullptr) return missing("options");
        if (fan_out == nullptr) return missing("fan_out");
        CROUPIER_TRY_VALUE(asked, checked(*options));
        CROUPIER_TRY_VALUE(group, fan_out::open_fan_out(asked));
        *fan_out = new croupier_fan_out{std::move(group), {}, {}};
        return 0;
    });
}

void croupier_fan_out_close(croupier_fan_out* fan_out) {
    // A forked child has the sockets without libzmq's threads, for which their end would wait for ever.
    if (fan_out != nullptr && fan_out->home.is_here()) delete fan_out;
}

int croupier_fan_out_send(croupier_fan_out* fan_out, const void* record, size_t size, croupier_error* error) {
    return guarded_group(fan_out, error, [&]() -> shm::Result<int> {
        if (record == nullptr && size > 0) return missing("record");
        return sent(fan_out->group->send(bytes_of(record, size)));
    });
}

int croupier_fan_out_receive_answer(croupier_fan_out* fan_out, uint32_t timeout_ms, uint32_t* member,
                                    const void** answer, size_t* size, croupier_error* error) {
    return guarded_group(fan_out, error, [&]() -> shm::Result<int> {
        if (member == nullptr || answer == nullptr || size == nullptr) {
            return missing("member, answer or size");
        }
        CROUPIER_TRY_VALUE(received, fan_out->group->receive_answer(std::chrono::milliseconds(timeout_ms)));
        if (!received) return 0;
        fan_out->answer = *std::move(received);
        *member = fan_out->answer.member;
        *answer = fan_out->answer.bytes.data();
        *size = fan_out->answer.bytes.size();
        return 1;
    });
}

int croupier_fan_out_receive(croupier_fan_out* fan_out, uint32_t timeout_ms, const void** record,
                             size_t* size, croupier_error* error) {
    return guarded_group(fan_out, error, [&]() -> shm::Result<int> {
        if (record == nullptr || size == nullptr) return missing("record or size");
        CROUPIER_TRY_VALUE(received, fan_out->group->receive(std::chrono::milliseconds(timeout_ms)));
        if (!received) return 0;
        *record = received->data();
        *size = received->size();
        return 1;
    });
}

int croupier_fan_out_answer(croupier_fan_out* fan_out, const void* answer, size_t size,
                            croupier_error* error) {
    return guarded_group(fan_out, error, [&]() -> shm::Result<int> {
        if (answer == nullptr && size > 0) return missing("answer");
        return sent(fan_out->group->answer(bytes_of(answer, size)));
    });
}

int croupier_fan_out_channel(croupier_fan_out* fan_out, croupier_record_channel* channel,
                             croupier_error* error) {
    return guarded_group(fan_out, error, [&]() -> shm::Result<int> {
        if (channel == nullptr) return missing("channel");
        croupier_record_channel ours{};
        ours.context = fan_out;
        ours.send = channel_send;
        ours.receive = channel_receive;
        ours.descriptor = channel_descriptor;
        return done(shm::write_struct(ours, *channel, "croupier_record_channel", kChannelAtFirst));
    });
}

const char* croupier_fan_out_error_name(uint32_t code) {
    return shm::errc_name(static_cast<shm::Errc>(code));
}

}  // extern "C"
