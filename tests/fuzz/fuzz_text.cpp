// Any bytes are a tokenizer's file, or a fault that says something. Whatever it holds, its text is UTF-8,
// grows in whole characters, and is the same after going back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/geometry.h"
#include "text/sequence_text.h"
#include "text/text_error.h"

namespace {

using croupier::text::SequenceText;

void require(bool condition) {
    if (!condition) std::abort();
}

void decode(const croupier::text::TokenTable& table, std::string_view seed) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t byte = seed.empty() ? i : static_cast<std::uint8_t>(seed[i % seed.size()]);
        ids.push_back(static_cast<std::int32_t>((byte + 7 * i) % (table.size() + 3)) - 1);
    }
    SequenceText sequence(table, {{}, 0, false, seed.size() % 2 == 0}, std::span(ids).first(seed.size() % 5));
    std::string text;
    for (const std::int32_t id : ids) {
        require(sequence.add(id, text).released == text.size());
        require(croupier::text::is_utf8(text));
    }
    const std::size_t kept = seed.size() % ids.size();
    std::string again = text.substr(0, sequence.truncate(kept, ids));
    for (std::size_t i = kept; i < ids.size(); ++i) sequence.add(ids[i], again);
    require(again == text);
    require(sequence.finish(text).released == text.size() && croupier::text::is_utf8(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view file(reinterpret_cast<const char*>(data), size);
    try {
        const auto table = croupier::text::TokenTable::parse(file);
        require(table.size() <= croupier::proto::kMaxVocab);
        // Decoders may lengthen every token, which would only take long.
        if (table.fault().empty() && table.size() < 1000) decode(table, file.substr(size / 2));
    } catch (const croupier::text::TextError& error) {
        require(error.what()[0] != '\0' && croupier::text::is_utf8(error.what()));
    }
    return 0;
}
