#include "tests/text/random_tokenizer.h"

#include <set>

namespace croupier::text {
namespace {

using Json = nlohmann::json;

Json step(const char* text) {
    return Json::parse(text);
}

Json sequence(const std::vector<const char*>& steps) {
    Json decoders = Json::array();
    for (const char* each : steps) decoders.push_back(step(each));
    return {{"type", "Sequence"}, {"decoders", decoders}};
}

std::vector<std::string> fallback_bytes() {
    std::vector<std::string> pieces;
    for (const char* byte : {"41", "0A", "00", "20", "C3", "A9", "E2", "82", "AC", "96", "81", "F0", "9F",
                             "8E", "89", "FF", "C0", "ED", "A0", "80", "F4", "90", "EF", "BF", "BD"})
        pieces.push_back("<0x" + std::string(byte) + ">");
    return pieces;
}

}  // namespace

std::vector<TokenizerKind> tokenizer_kinds() {
    constexpr const char* kByteLevel = R"({"type": "ByteLevel"})";
    constexpr const char* kReplace = R"({"type": "Replace", "pattern": {"String": "▁"}, "content": " "})";
    constexpr const char* kFallback = R"({"type": "ByteFallback"})";
    constexpr const char* kFuse = R"({"type": "Fuse"})";
    constexpr const char* kStrip = R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})";
    constexpr const char* kStripTwo = R"({"type": "Strip", "content": "é", "start": 2, "stop": 0})";
    constexpr const char* kMetaspace =
        R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})";
    constexpr const char* kMetaspaceNever =
        R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})";
    // Of bytes: "a", " ", "é" and its halves, thirds of "€", quarters of an emoji, a byte order mark, a NUL,
    // bytes of no character, and U+FFFD.
    const std::vector<std::string> bytes = {"a", "Ġ", "Ã©",  "Ã", "©", "âĤ¬", "âĤ", "â",  "¬",   "ðŁ",
                                            "İ", "ī", "ï»¿", "Ā", "ÿ", "À",   "í",  "łĢ", "ï¿½", "日"};
    const std::vector<std::string> marks = {"a", "▁", "é", " ", "€", "<", "\u2581\u2581", "b"};
    const std::vector<std::string> odd = {
        "<0xZZ>", "<0x4>", "<0x414>", "�", "\xEF\xBB\xBF", std::string(300, 'x'), ""};
    std::vector<std::string> fallback = fallback_bytes();
    fallback.insert(fallback.end(), odd.begin(), odd.end());
    return {
        {"byte-level", step(kByteLevel), bytes, odd},
        {"Llama 2", sequence({kReplace, kFallback, kFuse, kStrip}), marks, fallback},
        {"Gemma", sequence({kReplace, kFallback, kFuse}), marks, fallback},
        {"Metaspace", step(kMetaspace), marks, odd},
        {"Metaspace without a prefix", step(kMetaspaceNever), marks, odd},
        {"Metaspace before ByteFallback", sequence({kMetaspace, kFallback, kFuse, kStripTwo}), marks,
         fallback},
        {"Strip after ByteLevel", sequence({kByteLevel, kStrip}), bytes, odd},
        {"Fuse alone", step(kFuse), marks, odd},
    };
}

Json random_tokenizer(const TokenizerKind& kind, std::uint32_t size, std::mt19937_64& random) {
    std::vector<std::string> pieces(kind.whole.begin(), kind.whole.end());
    std::set<std::string> known(pieces.begin(), pieces.end());
    const std::set<std::uint32_t> holes = {3, size / 2, size - 2};
    while (pieces.size() + holes.size() + 4 < size) {
        std::string piece;
        for (std::uint64_t parts = 1 + random() % 4; parts > 0; --parts)
            piece += kind.parts[random() % kind.parts.size()];
        if (known.insert(piece).second) pieces.push_back(piece);
    }
    Json vocabulary = Json::object();
    std::uint32_t id = 0;
    const auto next_id = [&] {
        while (holes.count(id) != 0) ++id;
        return id++;
    };
    for (const std::string& piece : pieces) vocabulary[piece] = next_id();
    Json added = Json::array();
    for (const char* content : {"<|end|>", "<tool>", "▁▁<x é>", "<0x41>é"})
        added.push_back({{"id", next_id()}, {"content", content}, {"special", added.size() % 2 == 0}});
    return {{"added_tokens", added},
            {"decoder", kind.decoder},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}}}};
}

std::vector<std::int32_t> random_ids(std::size_t count, std::uint32_t size, std::mt19937_64& random) {
    std::vector<std::int32_t> ids(count);
    for (std::int32_t& id : ids) {
        id = static_cast<std::int32_t>(random() % (size + 3));
        if (random() % 200 == 0) id = random() % 2 == 0 ? -1 : INT32_MAX;
    }
    return ids;
}

}  // namespace croupier::text
