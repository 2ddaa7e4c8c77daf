#include "explain/tokenizer_reader.h"

#include <algorithm>
#include <utility>

#include "explain/fields.h"
#include "explain/shown_text.h"
#include "proto/geometry.h"

namespace croupier::explain {
namespace {

// More than any tokenizer has; limits memory for a file that consists of brackets.
constexpr std::size_t kDeepest = 64;
constexpr std::size_t kShownColumns = 40;

std::string in_quotes(std::string_view text) {
    return "'" + cut_to(shown_text(text), kShownColumns) + "'";
}

}  // namespace

std::string TokenizerReader::path() const {
    std::string result;
    for (const Level& level : levels_) {
        if (level.is_array) {
            result += "[" + std::to_string(level.index) + "]";
        } else {
            result += (result.empty() ? "" : ".") + cut_to(shown_text(level.key), kShownColumns);
        }
    }
    return result.empty() ? "the file" : result;
}

bool TokenizerReader::is_at(std::initializer_list<const char*> keys) const {
    if (levels_.size() != keys.size()) return false;
    return std::equal(keys.begin(), keys.end(), levels_.begin(), [](const char* key, const Level& level) {
        return *key == '\0' ? level.is_array : !level.is_array && level.key == key;
    });
}

bool TokenizerReader::is_vocabulary_id() const {
    return levels_.size() == 3 && !levels_[2].is_array && levels_[0].key == "model" &&
           levels_[1].key == "vocab";
}

void TokenizerReader::refuse(const std::string& what) const {
    throw RequestError(path() + " " + what);
}

void TokenizerReader::begin_value(const char* what) {
    if (levels_.empty()) {
        if (std::string_view(what) != "an object") refuse(std::string("is ") + what + ", not an object");
        return;
    }
    const std::string_view kind = what;
    if (is_at({"model"}) && kind != "an object")
        refuse("is " + std::string(kind) + "; it should be an object with a vocab");
    if (is_at({"model", "vocab"}) && kind != "an object" && kind != "a list")
        refuse("is " + std::string(kind) +
               "; it should be an object of ids by token, or a list of [token, score]");
    if (is_at({"model", "vocab", ""}) && kind != "a list")
        refuse("is " + std::string(kind) + "; it should be a [token, score]");
    const bool is_id =
        levels_.size() == 3 && !levels_[2].is_array && levels_[0].key == "model" && levels_[1].key == "vocab";
    if (is_id && kind != "a number") refuse("is " + std::string(kind) + "; it should be the token's id");
    if (is_at({"added_tokens"}) && kind != "a list")
        refuse("is " + std::string(kind) + "; it should be a list");
    if (is_at({"added_tokens", ""}) && kind != "an object")
        refuse("is " + std::string(kind) + R"(; it should be an object as {"id": 0, "content": "<s>"})");
    if (is_at({"added_tokens", "", "id"}) && kind != "a number")
        refuse("is " + std::string(kind) + "; it should be the token's id");
    if (is_at({"added_tokens", "", "content"}) && kind != "a string")
        refuse("is " + std::string(kind) + "; it should be the token's text");
}

void TokenizerReader::end_value() {
    if (!levels_.empty() && levels_.back().is_array) ++levels_.back().index;
}

void TokenizerReader::enter(bool is_array) {
    if (levels_.size() >= kDeepest) refuse("is nested deeper than " + std::to_string(kDeepest));
    levels_.push_back({is_array, "", 0});
}

std::uint32_t TokenizerReader::id_of(std::uint64_t value) const {
    if (value >= proto::kMaxVocab) {
        refuse("is " + std::to_string(value) + "; allowed: the ids 0 to " +
               std::to_string(proto::kMaxVocab - 1));
    }
    return static_cast<std::uint32_t>(value);
}

void TokenizerReader::note_type(const std::string& type) {
    if (type == "ByteLevel") file_.byte_level = true;
    if (type == "Metaspace" || type == "ByteFallback" || type == "Unigram") file_.spaces_marked = true;
}

bool TokenizerReader::null() {
    begin_value("null");
    end_value();
    return true;
}

bool TokenizerReader::boolean(bool value) {
    begin_value("a boolean");
    if (value && is_at({"model", "byte_fallback"})) file_.spaces_marked = true;
    end_value();
    return true;
}

bool TokenizerReader::number_integer(number_integer_t value) {
    begin_value("a number");
    if (is_vocabulary_id() || is_at({"added_tokens", "", "id"}))
        refuse("is " + std::to_string(value) + "; ids are not negative");
    end_value();
    return true;
}

bool TokenizerReader::number_unsigned(number_unsigned_t value) {
    begin_value("a number");
    if (is_vocabulary_id()) file_.vocabulary.push_back({levels_[2].key, id_of(value)});
    if (is_at({"added_tokens", "", "id"})) id_ = id_of(value);
    end_value();
    return true;
}

bool TokenizerReader::number_float(number_float_t value, const string_t& /*text*/) {
    begin_value("a number");
    if (is_vocabulary_id() || is_at({"added_tokens", "", "id"}))
        refuse("is " + std::to_string(value) + "; ids are whole numbers");
    end_value();
    return true;
}

bool TokenizerReader::string(string_t& value) {
    begin_value("a string");
    const bool is_piece = levels_.size() == 4 && levels_[3].is_array && levels_[3].index == 0 &&
                          levels_[1].key == "vocab" && levels_[0].key == "model";
    if (is_piece || is_at({"added_tokens", "", "content"})) {
        content_ = std::move(value);
        has_content_ = true;
    } else if (!levels_.empty() && levels_.back().key == "type") {
        const std::string& part = levels_.front().key;
        if (part == "decoder" || part == "pre_tokenizer" || is_at({"model", "type"})) note_type(value);
    }
    end_value();
    return true;
}

bool TokenizerReader::binary(binary_t& /*value*/) {
    return false;  // JSON has no binary values
}

bool TokenizerReader::start_object(std::size_t /*size*/) {
    begin_value("an object");
    if (is_at({"model", "vocab"})) has_vocabulary_ = true;
    if (is_at({"added_tokens", ""})) {
        has_content_ = false;
        id_ = -1;
    }
    enter(false);
    return true;
}

bool TokenizerReader::key(string_t& name) {
    levels_.back().key = std::move(name);
    return true;
}

bool TokenizerReader::end_object() {
    levels_.pop_back();
    if (is_at({"added_tokens", ""})) {
        if (!has_content_ || id_ < 0) refuse("has no id or no content");
        file_.added.push_back({std::move(content_), static_cast<std::uint32_t>(id_)});
    }
    end_value();
    return true;
}

bool TokenizerReader::start_array(std::size_t /*size*/) {
    begin_value("a list");
    if (is_at({"model", "vocab"})) has_vocabulary_ = true;
    if (is_at({"model", "vocab", ""})) has_content_ = false;
    enter(true);
    return true;
}

bool TokenizerReader::end_array() {
    levels_.pop_back();
    if (is_at({"model", "vocab", ""})) {
        if (!has_content_) refuse("has no token; it should be a [token, score]");
        file_.vocabulary.push_back({std::move(content_), id_of(levels_.back().index)});
    }
    end_value();
    return true;
}

bool TokenizerReader::parse_error(std::size_t /*position*/, const std::string& /*token*/,
                                  const nlohmann::json::exception& error) const {
    std::string what = error.what();
    // Removes the library's prefix, and the text that was read last, which may be anything.
    what = what.substr(what.find("] ") + 2);
    throw RequestError("the file is not valid JSON: " + what.substr(0, what.find("; last read")));
}

TokenizerFile TokenizerReader::finish() && {
    if (!has_vocabulary_) throw RequestError("the file has no model.vocab: is it a tokenizer.json?");
    if (file_.vocabulary.empty()) throw RequestError("model.vocab is empty");
    const auto by_id = [](const TokenPiece& a, const TokenPiece& b) { return a.id < b.id; };
    std::stable_sort(file_.vocabulary.begin(), file_.vocabulary.end(), by_id);
    const auto twice =
        std::adjacent_find(file_.vocabulary.begin(), file_.vocabulary.end(),
                           [](const TokenPiece& a, const TokenPiece& b) { return a.id == b.id; });
    if (twice != file_.vocabulary.end()) {
        throw RequestError("model.vocab: " + in_quotes(twice->piece) + " and " +
                           in_quotes((twice + 1)->piece) + " both have the id " + std::to_string(twice->id));
    }
    return std::move(file_);
}

}  // namespace croupier::explain
