#include "client/session_texts.h"

#include <algorithm>
#include <utility>

#include "text/text_error.h"

namespace croupier::client {
namespace {

constexpr std::uint16_t kEndsWithToken = CROUPIER_STOPPED_EOS | CROUPIER_STOPPED_TOKEN;
constexpr std::uint16_t kEndsWithText = CROUPIER_STOPPED_STRING | CROUPIER_STOPPED_JSON;

text::TextRules rules_of(std::vector<std::string> stops, std::uint32_t min_tokens, std::uint32_t flags) {
    return {std::move(stops), min_tokens, (flags & CROUPIER_INCLUDE_STOP) != 0,
            (flags & CROUPIER_KEEP_SPECIAL) == 0, (flags & CROUPIER_STOP_AT_JSON) != 0};
}

std::vector<std::string> stops_of(const croupier_sequence& sequence) {
    std::vector<std::string> stops;
    for (std::size_t i = 0; i < sequence.stop_string_count; ++i)
        stops.emplace_back(sequence.stop_strings[i].bytes, sequence.stop_strings[i].count);
    return stops;
}

shm::Error refused(std::uint64_t uid, const text::TextError& error) {
    return {shm::Errc::bad_argument, "sequence " + std::to_string(uid) + ": " + error.what()};
}

}  // namespace

std::uint16_t flag_of(const text::FoundStop& stop) {
    return stop.kind == text::FoundStop::Kind::json ? CROUPIER_STOPPED_JSON : CROUPIER_STOPPED_STRING;
}

SessionTexts::Text::Text(const text::TokenTable& table, const text::TextRules& rules,
                         std::span<const std::int32_t> prompt, std::span<const std::int32_t> output)
    : sequence_(table, rules, prompt), includes_stop_(rules.include_stop) {
    append(output);
}

void SessionTexts::Text::append(std::span<const std::int32_t> tokens) {
    recalled_.clear();
    for (const std::int32_t token : tokens) shown_ = add(token).released;
}

text::TextProgress SessionTexts::Text::add(std::int32_t token) {
    tail_.clear();
    const text::TextProgress progress = sequence_.add(token, text_);
    stop_ = progress.stop;
    return progress;
}

bool SessionTexts::Text::take(croupier_decision& decision) {
    if (decision.output_index < recalled_.size()) go_back(decision.output_index, recalled_);
    if (decision.output_index != sequence_.tokens()) return false;
    if (decision.output_index >= recalled_.size()) recalled_.clear();
    // The text of a token that ends a sequence by its id is no part of the sequence's.
    if ((decision.flags & kEndsWithToken) != 0 && !includes_stop_) {
        std::string tail;
        const std::uint64_t bytes = sequence_.bytes();
        (void)sequence_.finish(tail);
        (void)add(decision.token);
        shown_ = bytes;
        tail_ = std::move(tail);
    } else {
        const text::TextProgress progress = add(decision.token);
        const std::uint16_t found = progress.stop ? flag_of(*progress.stop) : std::uint16_t{0};
        const auto by_text = static_cast<std::uint16_t>(decision.flags & kEndsWithText);
        const bool ends = (decision.flags & CROUPIER_STOPPED) != 0;
        // Whatever else ends it comes before the text.
        if (by_text != found && (by_text != 0 || !ends)) return false;
        shown_ = progress.released;
        if (by_text != 0) {
            decision.stop_string = progress.stop->index;
            decision.stop_begin = progress.stop->begin;
        } else if (ends) {
            shown_ = sequence_.bytes();
            (void)sequence_.finish(tail_);
        }
    }
    decision.text_bytes = released();
    return true;
}

void SessionTexts::Text::truncate(std::size_t tokens, std::span<const std::int32_t> output) {
    recalled_.clear();
    go_back(tokens, output);
}

void SessionTexts::Text::go_back(std::size_t tokens, std::span<const std::int32_t> output) {
    // The text ends where it ended: steps ahead may be all that goes.
    if (tokens == sequence_.tokens()) return;
    text_.resize(sequence_.truncate(tokens, output));
    tail_.clear();
    stop_.reset();
    shown_ = sequence_.released();
}

void SessionTexts::Text::copy(std::uint64_t from, std::span<char> to) const {
    std::size_t done = 0;
    if (from < shown_) {
        done = std::min<std::uint64_t>(to.size(), shown_ - from);
        std::copy_n(text_.data() + from, done, to.data());
    }
    const std::uint64_t behind = from + done - shown_;
    if (done < to.size() && behind < tail_.size())
        std::copy_n(tail_.data() + behind, std::min<std::uint64_t>(to.size() - done, tail_.size() - behind),
                    to.data() + done);
}

shm::Result<bool> check_stop_strings(const croupier_sequence& sequence) {
    try {
        (void)text::StopAutomaton(stops_of(sequence));
        return true;
    } catch (const text::TextError& error) {
        return refused(sequence.uid, error);
    }
}

shm::Result<SessionTexts::Text> SessionTexts::make(const croupier_sequence& sequence) const {
    try {
        return Text(table_, rules_of(stops_of(sequence), sequence.params->min_tokens, sequence.params->flags),
                    {sequence.prompt, sequence.prompt_count}, {sequence.output, sequence.output_count});
    } catch (const text::TextError& error) {
        return refused(sequence.uid, error);
    }
}

shm::Result<bool> SessionTexts::recall(const FoundText& found) {
    try {
        Text text(table_, rules_of(found.stop_strings, found.min_tokens, found.flags), found.prompt,
                  found.output);
        text.may_be_taken_again(found.output);
        texts_.insert_or_assign(found.uid, std::move(text));
    } catch (const text::TextError& error) {
        return shm::fail(shm::Errc::corrupt_header,
                         "sequence " + std::to_string(found.uid) + " of the session: " + error.what());
    }
    return true;
}

void SessionTexts::fork(const shm::Fork& fork, std::span<const std::int32_t> output) {
    const auto parent = texts_.find(fork.parent);
    if (parent == texts_.end()) return;
    Text child = parent->second;
    child.truncate(fork.outputs, output);
    texts_.insert_or_assign(fork.uid, std::move(child));
}

void SessionTexts::truncate(std::uint64_t uid, std::span<const std::int32_t> output) {
    const auto found = texts_.find(uid);
    if (found != texts_.end()) found->second.truncate(output.size(), output);
}

void SessionTexts::append(std::uint64_t uid, std::span<const std::int32_t> tokens) {
    const auto found = texts_.find(uid);
    if (found != texts_.end()) found->second.append(tokens);
}

shm::Result<bool> SessionTexts::take(std::span<croupier_decision> decisions) {
    for (croupier_decision& decision : decisions) {
        if (decision.error != 0) continue;
        const auto found = texts_.find(decision.uid);
        if (found == texts_.end() || found->second.take(decision)) continue;
        return shm::fail(shm::Errc::corrupt_header,
                         "the decision of position " + std::to_string(decision.output_index) +
                             " of sequence " + std::to_string(decision.uid) +
                             " contradicts the sequence's text: open a new session");
    }
    return true;
}

const SessionTexts::Text* SessionTexts::find(std::uint64_t uid) const {
    const auto found = texts_.find(uid);
    return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace croupier::client
