// The part of TokenizerReader that reads the decoder.
#include <algorithm>
#include <utility>

#include "text/shown_text.h"
#include "text/tokenizer_reader.h"
#include "text/utf8.h"

namespace croupier::text {
namespace {

// Tokenizers have four at most, with a few characters each.
constexpr std::size_t kMostSteps = 32;
constexpr std::size_t kMostBytes = 256;

bool is_one_character(std::string_view text) {
    return !text.empty() && std::count_if(text.begin(), text.end(), [](char byte) {
                                return (static_cast<std::uint8_t>(byte) & 0xC0U) != 0x80U;
                            }) == 1;
}

}  // namespace

// The decoder itself, or a member of a Sequence's list.
bool TokenizerReader::is_step() const {
    if (levels_.size() % 2 == 0 || levels_.front().key != "decoder") return false;
    for (std::size_t i = 1; i < levels_.size(); i += 2) {
        if (levels_[i].key != "decoders" || !levels_[i + 1].is_array) return false;
    }
    return true;
}

DecoderStep* TokenizerReader::step() {
    if (open_steps_.empty() || levels_.size() != open_steps_.back().levels) return nullptr;
    return &(*file_.decoder)[open_steps_.back().index];
}

void TokenizerReader::check_step_member(std::string_view kind) {
    static constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
        {"type", "a string"},           {"content", "a string"}, {"replacement", "a string"},
        {"prepend_scheme", "a string"}, {"start", "a number"},   {"stop", "a number"},
        {"pattern", "an object"},       {"decoders", "a list"},
    };
    if (step() == nullptr) return;
    for (const auto& [key, right] : kKinds) {
        if (levels_.back().key == key && kind != right)
            refuse("is " + std::string(kind) + "; it should be " + std::string(right));
    }
}

void TokenizerReader::read_step_text(std::string& value) {
    if (open_steps_.empty()) return;
    const auto [index, levels] = open_steps_.back();
    const bool is_pattern = levels_.size() == levels + 1 && levels_[levels - 1].key == "pattern";
    if (levels_.size() != levels && !is_pattern) return;
    if (value.size() > kMostBytes)
        refuse("has " + std::to_string(value.size()) + " bytes; allowed: up to " +
               std::to_string(kMostBytes));
    DecoderStep& step = (*file_.decoder)[index];
    const std::string& key = levels_.back().key;
    if (is_pattern) {
        step.is_regex = key == "Regex";
        step.pattern = std::move(value);
    } else if (key == "type") {
        step.type = std::move(value);
    } else if (key == "content") {
        step.content = std::move(value);
    } else if (key == "replacement") {
        step.replacement = std::move(value);
    } else if (key == "prepend_scheme") {
        if (value != "always" && value != "first" && value != "never")
            refuse("is '" + shown_text(value) + "'; it should be always, first or never");
        step.prepends = step.prepends && value != "never";
    }
}

void TokenizerReader::begin_step() {
    if (levels_.size() == 1 && file_.decoder) refuse("is there twice");
    if (!file_.decoder) file_.decoder.emplace();
    if (file_.decoder->size() >= kMostSteps)
        refuse("is one too many: at most " + std::to_string(kMostSteps) + " are allowed");
    open_steps_.push_back({file_.decoder->size(), levels_.size() + 1});
    file_.decoder->emplace_back().place = path();
}

void TokenizerReader::end_step() {
    const DecoderStep& ended = (*file_.decoder)[open_steps_.back().index];
    open_steps_.pop_back();
    if (ended.type.empty()) refuse("has no type");
    if (ended.type == "Metaspace" && !is_one_character(ended.replacement))
        refuse("has no character as replacement");
    if (ended.type == "Strip" && !is_one_character(ended.content)) refuse("has no character as content");
}

}  // namespace croupier::text
