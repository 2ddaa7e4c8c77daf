// The client in C++: a thin, header-only cover over the C ABI of include/croupier/client.h. Its classes grow
// with the C structs: the inline namespace has the ABI's version, so that binaries of several versions can be
// in one process. Do not hand such an object from one to the other, and include this header in place of
// declaring one.
#pragma once

// GCC 10 has std::span and a number of its own for -std=c++20.
#if __cplusplus <= 201703L
#error "croupier/client.hpp needs C++20: compile with -std=c++20 (in CMake, croupier::client does)"
#endif

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "croupier/client.h"

namespace croupier::client {
inline namespace abi_1_0 {
static_assert(CROUPIER_ABI_VERSION == 0x10000, "the namespace has its major and minor number");

class Failure : public std::runtime_error {
  public:
    explicit Failure(const croupier_error& error) : std::runtime_error(error.text), code_(error.code) {}
    std::uint32_t code() const { return code_; }
    std::string name() const { return croupier_error_name(code_); }

  private:
    std::uint32_t code_;
};

struct OpenOptions : croupier_open_options {
    OpenOptions() : croupier_open_options() { croupier_open_options_init(this); }
};

struct Params : croupier_params {
    Params() : croupier_params() { croupier_params_init(this); }
};

struct Sequence {
    std::uint64_t uid = 0;
    Params params;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<croupier_bias> bias;
    std::vector<std::int32_t> stop_ids;
    std::vector<std::int32_t> allowed_ids;
    std::vector<std::int32_t> bad_words;     // each list's length, then its ids
    std::vector<std::int32_t> dry_breakers;  // likewise
    std::vector<std::string> stop_strings;
};

struct TextStop {
    std::uint16_t flag = 0;         // CROUPIER_STOPPED_STRING or CROUPIER_STOPPED_JSON
    std::uint32_t stop_string = 0;  // which
    std::uint64_t begin = 0;        // the byte of the text
    bool operator==(const TextStop&) const = default;
};

// The decisions of a step's rows, valid until the next call on the session.
class Decisions {
  public:
    class Iterator {
      public:
        Iterator(const croupier_step* step, std::size_t row) : step_(step), row_(row) {}
        croupier_decision operator*() const { return croupier_step_decision(step_, row_); }
        Iterator& operator++() {
            ++row_;
            return *this;
        }
        bool operator!=(const Iterator& other) const { return row_ != other.row_; }

      private:
        const croupier_step* step_;
        std::size_t row_;
    };

    explicit Decisions(const croupier_step& step) : step_(step) {}
    std::size_t size() const { return step_.count; }
    bool empty() const { return step_.count == 0; }
    croupier_decision operator[](std::size_t row) const { return croupier_step_decision(&step_, row); }
    Iterator begin() const { return {&step_, 0}; }
    Iterator end() const { return {&step_, step_.count}; }

    // The best log-probs of one of them, and what its token was drawn from.
    std::vector<croupier_logprob> best(const croupier_decision& decision) const {
        return {decision.best, decision.best + decision.best_count};
    }
    std::vector<croupier_survivor> support(const croupier_decision& decision) const {
        return {decision.support, decision.support + decision.support_count};
    }

  private:
    croupier_step step_;
};

struct Step {
    std::uint64_t step = 0;
    std::uint16_t refused = 0;
    Decisions decisions;
};

// Its destructor detaches, as a process that dies would: close() ends the session.
class Session {
  public:
    explicit Session(const croupier_open_options& options) {
        croupier_error error{};
        croupier_session* opened = nullptr;
        if (croupier_open(&options, &opened, &error) != 0) throw Failure(error);
        session_.reset(opened);
    }

    // For other functions of the C ABI.
    croupier_session* plain() const { return session_.get(); }

    std::string segment_path() const { return croupier_segment_path(handle()); }
    bool resumed() const { return croupier_resumed(handle()) != 0; }

    void add(const Sequence& sequence) {
        croupier_sequence plain;
        croupier_sequence_init(&plain);
        plain.uid = sequence.uid;
        plain.params = &sequence.params;
        plain.prompt = sequence.prompt.data();
        plain.prompt_count = sequence.prompt.size();
        plain.output = sequence.output.data();
        plain.output_count = sequence.output.size();
        plain.bias = sequence.bias.data();
        plain.bias_count = sequence.bias.size();
        plain.stop_ids = sequence.stop_ids.data();
        plain.stop_count = sequence.stop_ids.size();
        plain.allowed_ids = sequence.allowed_ids.data();
        plain.allowed_count = sequence.allowed_ids.size();
        plain.bad_words = sequence.bad_words.data();
        plain.bad_words_count = sequence.bad_words.size();
        plain.dry_breakers = sequence.dry_breakers.data();
        plain.dry_breakers_count = sequence.dry_breakers.size();
        std::vector<croupier_string> stop_strings;
        for (const std::string& stop : sequence.stop_strings)
            stop_strings.push_back({stop.data(), stop.size()});
        plain.stop_strings = stop_strings.data();
        plain.stop_string_count = stop_strings.size();
        croupier_error error{};
        if (croupier_add(handle(), &plain, &error) != 0) throw Failure(error);
    }

    void fork(std::uint64_t parent, std::uint64_t uid, std::uint32_t outputs, std::uint32_t child) {
        croupier_error error{};
        if (croupier_fork(handle(), parent, uid, outputs, child, &error) != 0) throw Failure(error);
    }

    void finish(std::uint64_t uid) {
        croupier_error error{};
        if (croupier_finish(handle(), uid, &error) != 0) throw Failure(error);
    }

    void truncate(std::uint64_t uid, std::uint32_t outputs) {
        croupier_error error{};
        if (croupier_truncate(handle(), uid, outputs, &error) != 0) throw Failure(error);
    }

    void append(std::uint64_t uid, std::span<const std::int32_t> tokens) {
        croupier_error error{};
        if (croupier_append(handle(), uid, tokens.data(), tokens.size(), &error) != 0) throw Failure(error);
    }

    std::vector<std::uint64_t> live() const {
        croupier_error error{};
        const std::int64_t count = croupier_list(handle(), nullptr, 0, &error);
        if (count < 0) throw Failure(error);
        std::vector<std::uint64_t> uids(static_cast<std::size_t>(count));
        croupier_list(handle(), uids.data(), uids.size(), nullptr);
        return uids;
    }

    std::vector<std::int32_t> output(std::uint64_t uid) const {
        croupier_error error{};
        const std::int64_t length = croupier_output(handle(), uid, nullptr, 0, &error);
        if (length < 0) throw Failure(error);
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
        croupier_output(handle(), uid, tokens.data(), tokens.size(), nullptr);
        return tokens;
    }

    // The released text from this byte on.
    std::string text(std::uint64_t uid, std::uint64_t from = 0) const {
        croupier_error error{};
        std::string text;
        while (true) {
            const std::int64_t there = croupier_text(handle(), uid, from, text.data(), text.size(), &error);
            if (there < 0) throw Failure(error);
            const bool is_whole = static_cast<std::size_t>(there) == text.size();
            text.resize(static_cast<std::size_t>(there));
            if (is_whole) return text;
        }
    }

    // What of its text the last token of its output completes.
    std::optional<TextStop> text_stop(std::uint64_t uid) const {
        croupier_error error{};
        TextStop found;
        const int flag = croupier_text_stop(handle(), uid, &found.stop_string, &found.begin, &error);
        if (flag < 0) throw Failure(error);
        if (flag == 0) return std::nullopt;
        found.flag = static_cast<std::uint16_t>(flag);
        return found;
    }

    std::uint64_t submit(std::span<const croupier_column> columns) {
        croupier_error error{};
        std::uint64_t step = 0;
        if (croupier_submit(handle(), columns.data(), columns.size(), &step, &error) != 0) {
            throw Failure(error);
        }
        return step;
    }

    void give_up(std::uint64_t step) {
        croupier_error error{};
        if (croupier_give_up(handle(), step, &error) != 0) throw Failure(error);
    }

    // For poll(): croupier_event_fd() says how.
    int event_fd() {
        croupier_error error{};
        const int descriptor = croupier_event_fd(handle(), &error);
        if (descriptor < 0) throw Failure(error);
        return descriptor;
    }

    std::uint32_t in_flight() const { return croupier_in_flight(handle()); }

    [[nodiscard]] std::optional<Step> wait(std::uint32_t timeout_ms) {
        croupier_error error{};
        croupier_step step;
        croupier_step_init(&step);
        const int got = croupier_wait(handle(), timeout_ms, &step, &error);
        if (got < 0) throw Failure(error);
        if (got == 0) return std::nullopt;
        return Step{step.step, step.refused, Decisions(step)};
    }

    void close() {
        croupier_error error{};
        handle();
        if (croupier_close(session_.release(), &error) != 0) throw Failure(error);
    }

  private:
    croupier_session* handle() const {
        if (session_ == nullptr) {
            throw Failure({CROUPIER_ERROR_SESSION_CLOSED,
                           "this session was closed, or moved to another object: open a new one"});
        }
        return session_.get();
    }

    struct Detach {
        void operator()(croupier_session* session) const { croupier_detach(session); }
    };
    std::unique_ptr<croupier_session, Detach> session_;
};

}  // namespace abi_1_0
}  // namespace croupier::client
