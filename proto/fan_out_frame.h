// What crosses between the members of a fan-out: a checked header, then the payload, in one ZMQ frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace croupier::proto {

constexpr std::uint64_t kFanOutMagic = 0x31304E4146505243ULL;  // "CRPFAN01"
constexpr std::uint32_t kFanOutVersion = 2;
constexpr std::uint32_t kMaxFanOutMembers = 1024;
// A full batch of 256 grammar masks for a vocabulary of a million is half of it.
constexpr std::uint64_t kMaxRecordBytes = 64U << 20U;
// An answer may be a step's decisions beside kMostSentBeside bytes of log-probs and supports.
constexpr std::uint64_t kMaxAnswerBytes = kMaxRecordBytes + (1U << 20U);

enum class FanOutKind : std::uint32_t {
    hello = 1,  // a member to the root: takes its place
    welcome,    // the root to all, when all are there
    refusal,    // the root to a peer that has no place here; a text
    record,     // the root to all
    beat,       // the root to all: finds out who is gone
    received,   // a member to the root: its caller has the record of this number
    answer,     // a member to the root
    farewell,   // the root to all, numbered as a record: it closes the group
    count_
};

// Magic, version and the header's size stand where they are in every version.
struct FanOutHeader {
    std::uint64_t magic = kFanOutMagic;
    std::uint32_t version = kFanOutVersion;
    std::uint32_t header_bytes = 64;
    std::uint64_t session = 0;  // chosen by the root at random
    std::uint64_t number = 0;   // of records: 1, 2, 3 …
    FanOutKind kind = FanOutKind::beat;
    std::uint32_t member = 0;  // that sends
    std::uint32_t members = 0;
    std::uint32_t reserved = 0;
    std::uint64_t length = 0;  // of what follows
    std::uint64_t checksum = 0;
};
static_assert(sizeof(FanOutHeader) == 64 && std::is_trivially_copyable_v<FanOutHeader>);

using FanOutBytes = std::vector<std::uint8_t>;

// The frame: `header` with its length and checksum filled in, then the payload.
FanOutBytes fan_out_frame(FanOutHeader header, std::span<const std::uint8_t> payload);

std::uint64_t fan_out_checksum(std::span<const std::uint8_t> bytes);

// Goes as a record where the record's bytes go by NCCL.
struct FanOutAnnouncement {
    std::uint64_t length = 0;
    std::uint64_t checksum = 0;
};
static_assert(sizeof(FanOutAnnouncement) == 16);

// Heads every answer there: ZMQ's own receipts are for announcements.
struct FanOutReceipt {
    std::uint64_t received = 0;  // records, their bytes too
    std::uint64_t answers = 0;   // 1: an answer follows
};
static_assert(sizeof(FanOutReceipt) == 16);

struct FanOutFrame {
    FanOutHeader header;
    std::span<const std::uint8_t> payload;  // within the bytes that were read
};

// Reads a frame into `frame`; a sentence when it is none of ours, of another version, cut short or damaged.
std::optional<std::string> read_fan_out_frame(std::span<const std::uint8_t> bytes, FanOutFrame& frame);

}  // namespace croupier::proto
