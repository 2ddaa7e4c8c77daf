// Converts structs of the C ABI from callers of any version to this library's version.
#pragma once

#include <span>
#include <vector>

#include "croupier/client.h"
#include "shm/error.h"

namespace croupier::client {

// The least size of each struct that is accepted: it stays when the struct grows.
constexpr std::size_t kOpenOptionsAtFirst = 184;
constexpr std::size_t kChannelAtFirst = 40;
constexpr std::size_t kParamsAtFirst = 224;
constexpr std::size_t kSequenceAtFirst = 152;
constexpr std::size_t kColumnAtFirst = 24;
constexpr std::size_t kStepAtFirst = 40;
constexpr std::size_t kBeamsOptionsAtFirst = 48;
constexpr std::size_t kBeamNextAtFirst = 24;
constexpr std::size_t kHypothesisAtFirst = 48;

struct KnownSequence {
    croupier_sequence sequence;
    croupier_params params;
    // Of a record, which stores them differently.
    std::vector<croupier_bias> bias;
    std::vector<croupier_string> stop_strings;

    // The sequence with a pointer to the converted struct.
    const croupier_sequence& linked();
};

shm::Result<KnownSequence> known_sequence(const croupier_sequence& given);
// Copies into `room` only if the caller's structs have another size.
shm::Result<std::span<const croupier_column>> known_columns(const croupier_column* given, std::size_t count,
                                                            std::size_t size,
                                                            std::vector<croupier_column>& room);

}  // namespace croupier::client
