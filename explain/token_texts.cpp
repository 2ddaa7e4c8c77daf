#include "explain/token_texts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <system_error>

#include "explain/fields.h"
#include "explain/shown_text.h"
#include "explain/tokenizer_reader.h"

namespace croupier::explain {
namespace {

// The largest tokenizers in use have tens of megabytes.
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
constexpr const char* kSpaceMark = "\u2581";

class OpenFile {
  public:
    // O_NONBLOCK, because opening a FIFO would wait for its writer.
    explicit OpenFile(const std::string& path)
        : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~OpenFile() {
        if (file_ >= 0) ::close(file_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    std::string read() const {
        struct stat status {};
        if (file_ < 0 || ::fstat(file_, &status) != 0)
            throw RequestError(std::generic_category().message(errno));
        if (!S_ISREG(status.st_mode)) throw RequestError("is not a regular file");
        if (status.st_size > kMostBytes) {
            throw RequestError("has " + std::to_string(status.st_size) + " bytes; allowed: up to " +
                               std::to_string(kMostBytes));
        }
        std::string text(static_cast<std::size_t>(status.st_size), '\0');
        std::size_t done = 0;
        while (done < text.size()) {
            const auto got = ::read(file_, text.data() + done, text.size() - done);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throw RequestError(std::generic_category().message(errno));
            if (got == 0) break;  // it was truncated meanwhile
            done += static_cast<std::size_t>(got);
        }
        text.resize(done);
        return text;
    }

  private:
    int file_;
};

void append_utf8(std::string& to, std::uint32_t code) {
    if (code < 0x80) {
        to += static_cast<char>(code);
    } else {  // below U+0800
        to += static_cast<char>(0xC0U | code >> 6U);
        to += static_cast<char>(0x80U | (code & 0x3FU));
    }
}

// GPT-2 encodes bytes as printable characters: printable Latin-1 as itself, other bytes from U+0100 on.
std::map<std::string, char, std::less<>> byte_alphabet() {
    std::map<std::string, char, std::less<>> alphabet;
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 0x100; ++byte) {
        const bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        std::string character;
        append_utf8(character, is_itself ? byte : next++);
        alphabet[character] = static_cast<char>(byte);
    }
    return alphabet;
}

// A piece with any other character is used as it is.
std::string from_byte_level(const std::string& piece) {
    static const auto alphabet = byte_alphabet();
    std::string bytes;
    for (std::size_t at = 0; at < piece.size();) {
        const std::size_t size = static_cast<unsigned char>(piece[at]) < 0x80 ? 1 : 2;
        const auto found = alphabet.find(std::string_view(piece).substr(at, size));
        if (found == alphabet.end()) return piece;
        bytes += found->second;
        at += size;
    }
    return bytes;
}

std::string from_marked_spaces(const std::string& piece) {
    if (piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>') {
        std::uint8_t byte = 0;
        const char* const end = piece.data() + 5;
        const auto read = std::from_chars(piece.data() + 3, end, byte, 16);
        if (read.ec == std::errc{} && read.ptr == end) return {static_cast<char>(byte)};
    }
    std::string text = piece;
    const std::string_view mark = kSpaceMark;
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
        text.replace(at, mark.size(), " ");
    return text;
}

std::string bytes_of(const std::string& piece, const TokenizerFile& file) {
    if (file.byte_level) return from_byte_level(piece);
    return file.spaces_marked ? from_marked_spaces(piece) : piece;
}

std::vector<std::optional<std::string>> texts_of(const TokenizerFile& file) {
    std::vector<std::optional<std::string>> texts;
    const auto place = [&texts](std::uint32_t id) -> std::optional<std::string>& {
        if (id >= texts.size()) texts.resize(std::size_t{id} + 1);
        return texts[id];
    };
    for (const TokenPiece& each : file.vocabulary) place(each.id) = bytes_of(each.piece, file);
    std::vector<bool> is_added;
    for (const TokenPiece& each : file.added) {
        std::optional<std::string>& text = place(each.id);
        is_added.resize(texts.size());
        const bool is_another = text && *text != each.piece && *text != bytes_of(each.piece, file);
        if (is_another) {
            throw RequestError("added_tokens: '" + shown_text(each.piece) + "' has the id " +
                               std::to_string(each.id) + ", which " +
                               (is_added[each.id] ? "another one of them" : "model.vocab") + " gives to '" +
                               shown_text(*text) + "'");
        }
        text = each.piece;
        is_added[each.id] = true;
    }
    return texts;
}

}  // namespace

TokenTexts TokenTexts::load(const std::string& path) {
    try {
        return parse(OpenFile(path).read(), path);
    } catch (const RequestError& error) {
        throw RequestError("tokenizer '" + path + "': " + error.what());
    }
}

TokenTexts TokenTexts::parse(std::string_view text, const std::string& path) {
    TokenizerReader reader;
    nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
    return {path, texts_of(std::move(reader).finish())};
}

std::optional<std::string_view> TokenTexts::bytes(std::int32_t token) const {
    const auto id = static_cast<std::size_t>(token);
    if (token < 0 || id >= texts_.size() || !texts_[id]) return std::nullopt;
    return *texts_[id];
}

std::string TokenTexts::shown(std::int32_t token) const {
    const auto text = bytes(token);
    return text ? "\"" + shown_text(*text) + "\"" : "";
}

std::string TokenTexts::shown(std::span<const std::int32_t> tokens, std::size_t most) const {
    const bool is_cut = tokens.size() > most;
    if (is_cut) tokens = tokens.last(most);
    std::string result = is_cut ? "\u2026" : "";
    std::string run;
    for (const std::int32_t token : tokens) {
        if (const auto text = bytes(token)) {
            run += *text;
            continue;
        }
        result += shown_text(run) + "[" + std::to_string(token) + "]";
        run.clear();
    }
    return result + shown_text(run);
}

void TokenTexts::check_fits(std::uint32_t vocab) const {
    if (texts_.size() <= vocab) return;
    const auto last = static_cast<std::int32_t>(texts_.size() - 1);
    throw RequestError("tokenizer '" + path_ + "': the token " + shown(last) + " has the id " +
                       std::to_string(last) + ", and the vocabulary has " + std::to_string(vocab) +
                       " ids: does the tokenizer belong to another model?");
}

}  // namespace croupier::explain
