// The texts of a session's live sequences, decoded as the client takes their tokens. Samplers decide where a
// text ends; what ended it, and how much is released, follows from the same tokens here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "croupier/client.h"
#include "shm/error.h"
#include "shm/sequence_table.h"
#include "text/sequence_text.h"
#include "text/token_table.h"

namespace croupier::client {

// A live sequence that an earlier client of the session added.
struct FoundText {
    std::uint64_t uid = 0;
    std::vector<std::int32_t> prompt;  // what its text depends on of it
    std::vector<std::int32_t> output;
    std::vector<std::string> stop_strings;
    std::uint32_t min_tokens = 0;
    std::uint32_t flags = 0;
};

// CROUPIER_STOPPED_...
std::uint16_t flag_of(const text::FoundStop& stop);

// Of a client that keeps no texts, which would refuse the same ones.
shm::Result<bool> check_stop_strings(const croupier_sequence& sequence);

class SessionTexts {
  public:
    explicit SessionTexts(text::TokenTable table) : table_(std::move(table)) {}
    SessionTexts(const SessionTexts&) = delete;
    SessionTexts& operator=(const SessionTexts&) = delete;

    // Of one sequence.
    class Text {
      public:
        // Throws TextError for stop strings that cannot be.
        Text(const text::TokenTable& table, const text::TextRules& rules,
             std::span<const std::int32_t> prompt, std::span<const std::int32_t> output);

        // Tokens that nobody decided.
        void append(std::span<const std::int32_t> tokens);
        // The client before may have died within a step that it took: what ended the text is told once more.
        void may_be_taken_again(std::vector<std::int32_t> output) { recalled_ = std::move(output); }
        // Fills in what the decision says of the text. False: it contradicts what this process finds.
        bool take(croupier_decision& decision);
        void truncate(std::size_t tokens, std::span<const std::int32_t> output);
        std::uint64_t released() const { return shown_ + tail_.size(); }
        // What the last token completes.
        const std::optional<text::FoundStop>& stop() const { return stop_; }
        // Writes what is released from byte `from` on, as far as there is room.
        void copy(std::uint64_t from, std::span<char> to) const;

      private:
        text::TextProgress add(std::int32_t token);
        void go_back(std::size_t tokens, std::span<const std::int32_t> output);

        text::SequenceText sequence_;
        bool includes_stop_;
        std::string text_;
        std::uint64_t shown_ = 0;  // so many of its bytes
        std::optional<text::FoundStop> stop_;
        std::string tail_;  // an unfinished character's replacement, when the sequence has ended
        std::vector<std::int32_t> recalled_;
    };

    shm::Result<Text> make(const croupier_sequence& sequence) const;
    void add(std::uint64_t uid, Text text) { texts_.insert_or_assign(uid, std::move(text)); }
    shm::Result<bool> recall(const FoundText& found);
    void fork(const shm::Fork& fork, std::span<const std::int32_t> output);
    void finish(std::uint64_t uid) { texts_.erase(uid); }
    void truncate(std::uint64_t uid, std::span<const std::int32_t> output);
    void append(std::uint64_t uid, std::span<const std::int32_t> tokens);
    // The decisions of a step, in the order of its columns.
    shm::Result<bool> take(std::span<croupier_decision> decisions);
    // Null: the sequence is not live.
    const Text* find(std::uint64_t uid) const;

  private:
    text::TokenTable table_;
    std::unordered_map<std::uint64_t, Text> texts_;
};

}  // namespace croupier::client
