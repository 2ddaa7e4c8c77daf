// What the supervisor asks of its samplers: the next decision of one sequence, with all that it was made of.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/decision.h"
#include "proto/dtype.h"
#include "proto/sampling.h"

namespace croupier::proto {

constexpr std::uint64_t kCaptureMagic = 0x3130455255545043ULL;
constexpr std::uint32_t kCaptureVersion = 2;

// One request at a time. Samplers look at `asked` once a look at a session, and nobody else writes it while
// it is 0.
struct CaptureExchange {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t bytes;
    // The request's number, stored after what it asks for, with release; 0: nothing is asked for.
    alignas(64) std::atomic<std::uint64_t> asked;
    std::atomic<std::uint64_t> session_id;
    std::atomic<std::uint64_t> uid;
    // The last request whose decision lies in the file, or could not be kept.
    alignas(64) std::atomic<std::uint64_t> given;
    std::atomic<std::uint64_t> failed;
    std::atomic<std::uint32_t> bell;  // counts both; the supervisor sleeps on it
};

// Heads the file of a captured decision. After it lie, one behind the other: the row's elements by id, and
// what the counts say, in their order.
struct CapturedHead {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t bytes;  // of this head
    std::uint64_t number;
    std::uint64_t session_id;
    std::uint64_t step;
    std::uint32_t column;
    Dtype dtype;
    std::uint32_t vocab;
    std::uint32_t max_length;
    std::uint32_t random;
    std::uint32_t randoms_supplied;  // 1: `random` is a writer's
    std::uint32_t mask_words;
    std::uint32_t prompt;
    std::uint32_t output;
    std::uint32_t biases;
    std::uint32_t stop_ids;
    std::uint32_t allowed_ids;
    std::uint32_t bad_words;  // words: each list's length, then its ids
    std::uint32_t breakers;   // likewise
    std::uint32_t hot_blocks;
    std::uint32_t stop_words;  // proto/stop_words.h
    Decision decision;
    Feedback feedback;  // that the decision began with
    SamplingParams params;
    char path[32];  // by which it was found
};
static_assert(sizeof(CapturedHead) == 392 && std::is_trivially_copyable_v<CapturedHead>,
              "CapturedHead crosses processes: a change bumps kCaptureVersion");

// Of what follows the head.
constexpr std::uint64_t captured_words(const CapturedHead& head) {
    return std::uint64_t{head.mask_words} + head.prompt + head.output + 2ULL * head.biases + head.stop_ids +
           head.allowed_ids + head.bad_words + head.breakers + head.hot_blocks + head.stop_words;
}
// The row's elements are padded to whole words.
constexpr std::uint64_t captured_row_bytes(const CapturedHead& head) {
    return (std::uint64_t{head.vocab} * element_bytes(head.dtype) + 3) / 4 * 4;
}

}  // namespace croupier::proto
