// The records of messages.fbs and what they stand for: written by a scheduler, read by its relay.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/known_structs.h"
#include "croupier/client.h"
#include "proto/geometry.h"
#include "proto/wire.h"

namespace croupier::client {

flatbuffers::Offset<wire::AddSequence> add_message(flatbuffers::FlatBufferBuilder& builder,
                                                   const croupier_sequence& sequence);
flatbuffers::Offset<wire::SubmitStep> submit_message(flatbuffers::FlatBufferBuilder& builder,
                                                     std::uint64_t step,
                                                     std::span<const croupier_column> columns,
                                                     std::uint32_t vocab);

// A sequence as it stands in a record, whose bytes it points into; `bias` holds what a record words
// otherwise. A sentence when the record cannot be one.
std::optional<std::string> read_sequence(const wire::AddSequence& record, KnownSequence& known);
// Likewise the columns of a step in a session of so many ids.
std::optional<std::string> read_columns(const wire::SubmitStep& record, std::uint32_t vocab,
                                        std::vector<croupier_column>& columns);

// Structs that cross as their bytes, between builds of one segment version.
flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> geometry_bytes(flatbuffers::FlatBufferBuilder& builder,
                                                                      const proto::Geometry& geometry);
std::optional<std::string> read_geometry(const flatbuffers::Vector<std::uint8_t>* bytes,
                                         proto::Geometry& geometry);

}  // namespace croupier::client
