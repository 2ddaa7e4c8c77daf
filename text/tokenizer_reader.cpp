#include "text/tokenizer_reader.h"

#include <algorithm>
#include <utility>

#include "proto/geometry.h"
#include "text/shown_text.h"
#include "text/text_error.h"

namespace croupier::text {
namespace {

// More than any tokenizer has; limits memory for a file that consists of brackets.
constexpr std::size_t kDeepest = 64;
constexpr std::size_t kShownColumns = 40;

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

bool TokenizerReader::is_at(std::initializer_list<std::string_view> keys) const {
    if (levels_.size() != keys.size()) return false;
    return std::equal(
        keys.begin(), keys.end(), levels_.begin(), [](std::string_view key, const Level& level) {
            return key.empty() ? level.is_array : !level.is_array && (key == "*" || level.key == key);
        });
}

bool TokenizerReader::is_id() const {
    return is_at({"model", "vocab", "*"}) || is_at({"added_tokens", "", "id"});
}

void TokenizerReader::refuse(const std::string& what) const {
    throw TextError(path() + " " + what);
}

void TokenizerReader::begin_value(std::string_view kind) {
    const auto expect = [this, kind](std::string_view right, const char* described) {
        if (kind != right) refuse("is " + std::string(kind) + "; it should be " + described);
    };
    if (levels_.empty()) {
        if (kind != "an object") refuse("is " + std::string(kind) + ", not an object");
    } else if (is_at({"model"})) {
        expect("an object", "an object with a vocab");
    } else if (is_at({"model", "vocab"})) {
        if (kind != "a list") expect("an object", "an object of ids by token, or a list of [token, score]");
        if (has_vocabulary_) refuse("is there twice");
        has_vocabulary_ = true;
    } else if (is_at({"model", "vocab", ""})) {
        expect("a list", "a [token, score]");
    } else if (is_id()) {
        expect("a number", "the token's id");
    } else if (is_at({"added_tokens"})) {
        expect("a list", "a list");
    } else if (is_at({"added_tokens", ""})) {
        expect("an object", R"(an object as {"id": 0, "content": "<s>"})");
    } else if (is_at({"added_tokens", "", "content"})) {
        expect("a string", "the token's text");
    } else if (is_at({"added_tokens", "", "special"})) {
        expect("a boolean", "true or false");
    } else if (levels_.front().key == "decoder") {
        if (is_step() && !(is_at({"decoder"}) && kind == "null"))
            expect("an object", R"(an object as {"type": "ByteLevel"})");
        check_step_member(kind);
    }
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

// Ids may be there many times, which is known only at the end.
void TokenizerReader::check_count(std::size_t count) const {
    if (count >= proto::kMaxVocab)
        refuse("is one token too many; allowed: up to " + std::to_string(proto::kMaxVocab));
}

void TokenizerReader::add_piece(std::string piece, std::uint64_t id) {
    check_count(file_.vocabulary.size());
    file_.vocabulary.push_back({std::move(piece), id_of(id)});
}

bool TokenizerReader::null() {
    begin_value("null");
    end_value();
    return true;
}

bool TokenizerReader::boolean(bool value) {
    begin_value("a boolean");
    if (is_at({"added_tokens", "", "special"})) added_.is_special = value;
    if (DecoderStep* const found = step(); found != nullptr && levels_.back().key == "add_prefix_space")
        found->prepends = found->prepends && value;
    end_value();
    return true;
}

bool TokenizerReader::number_integer(number_integer_t value) {
    begin_value("a number");
    if (is_id()) refuse("is " + std::to_string(value) + "; ids are not negative");
    if (step() != nullptr) refuse("is " + std::to_string(value) + "; it should not be negative");
    end_value();
    return true;
}

bool TokenizerReader::number_unsigned(number_unsigned_t value) {
    begin_value("a number");
    if (is_at({"model", "vocab", "*"})) {
        add_piece(levels_[2].key, value);
    } else if (is_at({"added_tokens", "", "id"})) {
        added_.id = id_of(value);
        has_id_ = true;
    } else if (DecoderStep* const found = step()) {
        if (levels_.back().key == "start") found->start = value;
        if (levels_.back().key == "stop") found->stop = value;
    }
    end_value();
    return true;
}

bool TokenizerReader::number_float(number_float_t value, const string_t& /*text*/) {
    begin_value("a number");
    if (is_id()) refuse("is " + std::to_string(value) + "; ids are whole numbers");
    if (step() != nullptr) refuse("is " + std::to_string(value) + "; it should be a whole number");
    end_value();
    return true;
}

bool TokenizerReader::string(string_t& value) {
    begin_value("a string");
    if (is_at({"model", "vocab", "", ""}) && levels_.back().index == 0) {
        piece_ = std::move(value);
        has_piece_ = true;
    } else if (is_at({"added_tokens", "", "content"})) {
        added_.content = std::move(value);
        has_content_ = true;
    } else {
        read_step_text(value);
    }
    end_value();
    return true;
}

bool TokenizerReader::binary(binary_t& /*value*/) {
    return false;  // JSON has no binary values
}

bool TokenizerReader::start_object(std::size_t /*size*/) {
    begin_value("an object");
    if (is_at({"added_tokens", ""})) {
        added_ = {};
        has_content_ = has_id_ = false;
    }
    if (is_step()) begin_step();
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
        if (!has_content_ || !has_id_) refuse("has no id or no content");
        check_count(file_.added.size());
        file_.added.push_back(std::move(added_));
    }
    if (is_step()) end_step();
    end_value();
    return true;
}

bool TokenizerReader::start_array(std::size_t /*size*/) {
    begin_value("a list");
    if (is_at({"model", "vocab"})) file_.has_list = true;
    if (is_at({"model", "vocab", ""})) has_piece_ = false;
    enter(true);
    return true;
}

bool TokenizerReader::end_array() {
    levels_.pop_back();
    if (is_at({"model", "vocab", ""})) {
        if (!has_piece_) refuse("has no token; it should be a [token, score]");
        add_piece(std::move(piece_), levels_.back().index);
    }
    end_value();
    return true;
}

bool TokenizerReader::parse_error(std::size_t /*position*/, const std::string& /*token*/,
                                  const nlohmann::json::exception& error) const {
    std::string what = error.what();
    // Removes the library's prefix, and the text that was read last, which may be anything.
    what = what.substr(what.find("] ") + 2);
    throw TextError("the file is not valid JSON: " + what.substr(0, what.find("; last read")));
}

TokenizerFile TokenizerReader::finish() && {
    if (!has_vocabulary_) throw TextError("the file has no model.vocab: is it a tokenizer.json?");
    if (file_.vocabulary.empty()) throw TextError("model.vocab is empty");
    return std::move(file_);
}

TokenizerFile read_tokenizer_json(std::string_view file) {
    TokenizerReader reader;
    nlohmann::json::sax_parse(file.begin(), file.end(), &reader);
    return std::move(reader).finish();
}

}  // namespace croupier::text
