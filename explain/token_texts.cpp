#include "explain/token_texts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "explain/fields.h"
#include "text/shown_text.h"
#include "text/text_error.h"

namespace croupier::explain {
namespace {

// The largest tokenizers in use have tens of megabytes.
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

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

}  // namespace

TokenTexts TokenTexts::load(const std::string& path) {
    try {
        return parse(OpenFile(path).read(), path);
    } catch (const RequestError& error) {
        throw RequestError("tokenizer '" + path + "': " + error.what());
    }
}

TokenTexts TokenTexts::parse(std::string_view text, const std::string& path) {
    try {
        return {path, text::TokenTable::parse(text)};
    } catch (const text::TextError& error) {
        throw RequestError(error.what());
    }
}

std::optional<std::string_view> TokenTexts::bytes(std::int32_t token) const {
    const auto found = table_.find(token);
    if (!found) return std::nullopt;
    return found->bytes;
}

std::string TokenTexts::shown(std::int32_t token) const {
    const auto text = bytes(token);
    return text ? "\"" + text::shown_text(*text) + "\"" : "";
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
        result += text::shown_text(run) + "[" + std::to_string(token) + "]";
        run.clear();
    }
    return result + text::shown_text(run);
}

void TokenTexts::check_fits(std::uint32_t vocab) const {
    if (table_.size() <= vocab) return;
    const auto last = static_cast<std::int32_t>(table_.size() - 1);
    throw RequestError("tokenizer '" + path_ + "': the token " + shown(last) + " has the id " +
                       std::to_string(last) + ", and the vocabulary has " + std::to_string(vocab) +
                       " ids: does the tokenizer belong to another model?");
}

}  // namespace croupier::explain
