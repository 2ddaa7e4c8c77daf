// Writes the records of messages.fbs for a scheduler, and reads them for its relay.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/known_structs.h"
#include "client/session_texts.h"
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

// Reads a sequence that points into the bytes of `record`; `bias` owns the biases, which a record stores
// differently. Returns the fault, if the record has one.
std::optional<std::string> read_sequence(const wire::AddSequence& record, KnownSequence& known);
// Likewise reads the columns of a step, in a session of `vocab` ids.
std::optional<std::string> read_columns(const wire::SubmitStep& record, std::uint32_t vocab,
                                        std::vector<croupier_column>& columns);

// Of a live sequence of a session with a tokenizer.
FoundText read_found_text(const wire::LiveSequenceInfo& live);
flatbuffers::Offset<wire::LiveSequenceInfo> live_message(flatbuffers::FlatBufferBuilder& builder,
                                                         const FoundText& live, std::uint32_t slot,
                                                         std::uint32_t prompt_length, proto::Rng rng);

// Structs that travel as bytes between builds of one segment version.
flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> geometry_bytes(flatbuffers::FlatBufferBuilder& builder,
                                                                      const proto::Geometry& geometry);
std::optional<std::string> read_geometry(const flatbuffers::Vector<std::uint8_t>* bytes,
                                         proto::Geometry& geometry);

}  // namespace croupier::client
