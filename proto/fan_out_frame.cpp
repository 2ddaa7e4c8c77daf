#include "proto/fan_out_frame.h"

#include <cstring>

#include "proto/checksum.h"

namespace croupier::proto {
namespace {

std::uint64_t checksum_of(FanOutHeader header, std::span<const std::uint8_t> payload) {
    header.checksum = 0;
    WordChecksum sum;
    sum.add(&header, sizeof(header));
    sum.add(payload.data(), payload.size());
    return sum.value();
}

std::string hex(std::uint64_t value) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text = "0x";
    for (unsigned shift = 64; shift > 0; shift -= 4) text += kDigits[(value >> (shift - 4)) & 15U];
    return text;
}

}  // namespace

FanOutBytes fan_out_frame(FanOutHeader header, std::span<const std::uint8_t> payload) {
    header.length = payload.size();
    header.checksum = checksum_of(header, payload);
    FanOutBytes bytes(sizeof(header) + payload.size());
    std::memcpy(bytes.data(), &header, sizeof(header));
    if (!payload.empty()) std::memcpy(bytes.data() + sizeof(header), payload.data(), payload.size());
    return bytes;
}

std::uint64_t fan_out_checksum(std::span<const std::uint8_t> bytes) {
    WordChecksum sum;
    sum.add(bytes.data(), bytes.size());
    return sum.value();
}

std::optional<std::string> read_fan_out_frame(std::span<const std::uint8_t> bytes, FanOutFrame& frame) {
    FanOutHeader& header = frame.header;
    if (bytes.size() < sizeof(header)) {
        return "a frame has " + std::to_string(bytes.size()) + " bytes, its header alone has " +
               std::to_string(sizeof(header));
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.magic != kFanOutMagic) {
        return "a frame begins with " + hex(header.magic) + ", a fan-out's with " + hex(kFanOutMagic);
    }
    if (header.version != kFanOutVersion) {
        return "the peer speaks fan-out version " + std::to_string(header.version) + ", this build speaks " +
               std::to_string(kFanOutVersion);
    }
    frame.payload = bytes.subspan(sizeof(header));
    if (header.header_bytes != sizeof(header) || header.length != frame.payload.size()) {
        return "a frame announces " + std::to_string(header.length) + " bytes after a header of " +
               std::to_string(header.header_bytes) + ", and has " + std::to_string(frame.payload.size()) +
               " after one of " + std::to_string(sizeof(header));
    }
    if (header.checksum != checksum_of(header, frame.payload)) {
        return "a frame of " + std::to_string(bytes.size()) + " bytes is damaged: its checksum is " +
               hex(header.checksum) + ", its bytes give " + hex(checksum_of(header, frame.payload));
    }
    if (header.kind < FanOutKind::hello || header.kind >= FanOutKind::count_) {
        return "a frame is of kind " + std::to_string(static_cast<std::uint32_t>(header.kind)) +
               ", which version " + std::to_string(kFanOutVersion) + " does not know";
    }
    return std::nullopt;
}

}  // namespace croupier::proto
