#include "client/record_messages.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "client/abi_fields.h"
#include "client/schedule_place.h"
#include "proto/segment_header.h"

namespace croupier::client {
namespace {

using Bytes = flatbuffers::Vector<std::uint8_t>;
using Ids = flatbuffers::Vector<std::int32_t>;

template <typename T>
flatbuffers::Offset<Bytes> bytes_of(flatbuffers::FlatBufferBuilder& builder, const T& plain) {
    static_assert(std::is_trivially_copyable_v<T>);
    return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(&plain), sizeof(plain));
}

// The other build has the same major version. As in a segment, the bytes that this build does not know must
// be zero, and the bytes that the other build does not know are zero.
template <typename T>
std::optional<std::string> read_bytes(const char* what, const Bytes* bytes, std::size_t least, T& plain) {
    const std::size_t size = bytes == nullptr ? 0 : bytes->size();
    if (size < least) {
        return std::string(what) + " of the record have " + std::to_string(size) +
               " bytes, those of version " + std::to_string(proto::kSegmentVersion) + " have " +
               std::to_string(least) + " and more";
    }
    const std::size_t known = std::min(size, sizeof(T));
    if (std::any_of(bytes->data() + known, bytes->data() + size,
                    [](std::uint8_t byte) { return byte != 0; })) {
        return std::string(what) + " of the record set what this build does not know of: it has " +
               std::to_string(sizeof(T)) + " bytes, the record " + std::to_string(size) +
               "; update the relay";
    }
    plain = T{};
    std::memcpy(&plain, bytes->data(), known);
    return std::nullopt;
}

flatbuffers::Offset<Ids> ids_of(flatbuffers::FlatBufferBuilder& builder, const std::int32_t* ids,
                                std::size_t count) {
    if (count == 0) return {};
    return builder.CreateVector(ids, count);
}

void read_ids(const Ids* from, const std::int32_t*& ids, std::size_t& count) {
    count = from == nullptr ? 0 : from->size();
    ids = count == 0 ? nullptr : from->data();
}

}  // namespace

flatbuffers::Offset<wire::AddSequence> add_message(flatbuffers::FlatBufferBuilder& builder,
                                                   const croupier_sequence& sequence) {
    std::vector<wire::BiasEntry> entries;
    entries.reserve(sequence.bias_count);
    for (std::size_t i = 0; i < sequence.bias_count; ++i) {
        entries.emplace_back(sequence.bias[i].token, sequence.bias[i].bias);
    }
    const auto params = bytes_of(builder, params_from_abi(*sequence.params));
    const auto prompt = ids_of(builder, sequence.prompt, sequence.prompt_count);
    const auto output = ids_of(builder, sequence.output, sequence.output_count);
    const auto bias = builder.CreateVectorOfStructs(entries);
    const auto stop_ids = ids_of(builder, sequence.stop_ids, sequence.stop_count);
    const auto allowed = ids_of(builder, sequence.allowed_ids, sequence.allowed_count);
    const auto bad_words = ids_of(builder, sequence.bad_words, sequence.bad_words_count);
    const auto breakers = ids_of(builder, sequence.dry_breakers, sequence.dry_breakers_count);
    std::vector<flatbuffers::Offset<flatbuffers::String>> strings;
    for (std::size_t i = 0; i < sequence.stop_string_count; ++i)
        strings.push_back(
            builder.CreateString(sequence.stop_strings[i].bytes, sequence.stop_strings[i].count));
    const auto stop_strings = builder.CreateVector(strings);
    return wire::CreateAddSequence(builder, sequence.uid, params, prompt, output, bias, stop_ids, allowed,
                                   bad_words, breakers, stop_strings);
}

std::optional<std::string> read_sequence(const wire::AddSequence& record, KnownSequence& known) {
    proto::SamplingParams params;
    if (auto fault = read_bytes("the parameters", record.params(), proto::kLeastElementBytes.params, params))
        return fault;
    croupier_sequence& sequence = known.sequence;
    croupier_sequence_init(&sequence);
    sequence.uid = record.uid();
    known.params = params_to_abi(params);
    read_ids(record.prompt(), sequence.prompt, sequence.prompt_count);
    read_ids(record.output(), sequence.output, sequence.output_count);
    read_ids(record.stop_ids(), sequence.stop_ids, sequence.stop_count);
    read_ids(record.allowed_ids(), sequence.allowed_ids, sequence.allowed_count);
    read_ids(record.bad_words(), sequence.bad_words, sequence.bad_words_count);
    read_ids(record.dry_breakers(), sequence.dry_breakers, sequence.dry_breakers_count);
    known.stop_strings.clear();
    if (record.stop_strings() != nullptr) {
        for (const auto* stop : *record.stop_strings())
            known.stop_strings.push_back({stop->data(), stop->size()});
    }
    sequence.stop_strings = known.stop_strings.data();
    sequence.stop_string_count = known.stop_strings.size();
    known.bias.clear();
    if (record.bias() != nullptr) {
        for (const wire::BiasEntry* entry : *record.bias()) {
            known.bias.push_back({entry->token(), entry->bias()});
        }
    }
    sequence.bias = known.bias.data();
    sequence.bias_count = known.bias.size();
    return std::nullopt;
}

flatbuffers::Offset<wire::SubmitStep> submit_message(flatbuffers::FlatBufferBuilder& builder,
                                                     std::uint64_t step,
                                                     std::span<const croupier_column> columns,
                                                     std::uint32_t vocab) {
    const std::size_t words = mask_words(vocab);
    std::vector<wire::ColumnEntry> entries;
    std::vector<std::uint32_t> masks;
    entries.reserve(columns.size());
    for (const croupier_column& column : columns) {
        entries.emplace_back(column.uid, column.mask != nullptr ? 1 : 0, rows_of(column));
        if (column.mask != nullptr)
            masks.insert(masks.end(), column.mask, column.mask + words * rows_of(column));
    }
    return wire::CreateSubmitStepDirect(builder, step, &entries, masks.empty() ? nullptr : &masks);
}

std::optional<std::string> read_columns(const wire::SubmitStep& record, std::uint32_t vocab,
                                        std::vector<croupier_column>& columns) {
    const std::size_t words = mask_words(vocab);
    const std::size_t have = record.masks() == nullptr ? 0 : record.masks()->size();
    std::size_t used = 0;
    columns.clear();
    if (record.columns() != nullptr) {
        for (const wire::ColumnEntry* entry : *record.columns()) {
            croupier_column& column = columns.emplace_back();
            column.uid = entry->uid();
            column.rows = entry->rows();
            if (entry->masked() == 0) continue;
            const std::size_t needs = words * rows_of(column);
            if (used + needs <= have) column.mask = record.masks()->data() + used;
            used += needs;
        }
    }
    if (used == have) return std::nullopt;
    return "the masks of the record have " + std::to_string(have) + " words, its masked columns need " +
           std::to_string(used);
}

FoundText read_found_text(const wire::LiveSequenceInfo& live) {
    FoundText found;
    found.uid = live.uid();
    if (live.prompt_tokens() != nullptr)
        found.prompt.assign(live.prompt_tokens()->begin(), live.prompt_tokens()->end());
    if (live.output() != nullptr) found.output.assign(live.output()->begin(), live.output()->end());
    if (live.stop_strings() != nullptr) {
        for (const auto* stop : *live.stop_strings()) found.stop_strings.push_back(stop->str());
    }
    found.min_tokens = live.min_tokens();
    found.flags = live.flags();
    return found;
}

flatbuffers::Offset<wire::LiveSequenceInfo> live_message(flatbuffers::FlatBufferBuilder& builder,
                                                         const FoundText& live, std::uint32_t slot,
                                                         std::uint32_t prompt_length, proto::Rng rng) {
    return wire::CreateLiveSequenceInfo(
        builder, live.uid, builder.CreateVector(live.output), slot, prompt_length,
        static_cast<std::uint32_t>(rng), builder.CreateVector(live.prompt),
        builder.CreateVectorOfStrings(live.stop_strings), live.min_tokens, live.flags);
}

flatbuffers::Offset<Bytes> geometry_bytes(flatbuffers::FlatBufferBuilder& builder,
                                          const proto::Geometry& geometry) {
    return bytes_of(builder, geometry);
}

std::optional<std::string> read_geometry(const Bytes* bytes, proto::Geometry& geometry) {
    if (auto fault = read_bytes("the geometry", bytes, sizeof(geometry), geometry)) return fault;
    return proto::geometry_fault(geometry);
}

}  // namespace croupier::client
