// The decoder of a tokenizer.json, as far as it works token by token.
//
// Hugging Face's decoders turn a list of pieces into a list of pieces, and the text is all of them joined.
// Most do something to each piece alone. These can be applied once, when the file is read. Others join the
// pieces, and what follows them sees the whole text. A chain is usable here if a token's text depends only on
// what came before it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace croupier::text {

// The longest tokens in use have a few hundred. What a sampler does for a token is bounded by it.
constexpr std::size_t kMostTokenBytes = 1024;

// One decoder as the file has it. Members that its type does not have keep their defaults.
struct DecoderStep {
    std::string place;        // in the file, as "decoder.decoders[2]"
    std::string type;         // "Replace"
    std::string pattern;      // of Replace
    bool is_regex = false;    // of Replace
    std::string content;      // of Replace, and of Strip one character
    std::uint64_t start = 0;  // of Strip
    std::uint64_t stop = 0;
    std::string replacement = "\u2581";  // of Metaspace: one character
    bool prepends = true;                // of Metaspace: the first piece loses its marks
};

// How the pieces become text.
enum class Joining : std::uint8_t {
    kPlain,         // pieces are text
    kBytes,         // pieces are bytes, in a tokenizer.json written in GPT-2's alphabet
    kByteFallback,  // pieces are text, but "<0xE2>" is a byte
};

class DecoderChain {
  public:
    // Without a decoder. Hugging Face's format then puts a space between any two pieces, which no model in
    // use means.
    DecoderChain();
    explicit DecoderChain(const std::vector<DecoderStep>& steps);
    // Pieces that are bytes already.
    static DecoderChain of_bytes();

    // Why there is no text, beginning with the decoder's place; empty if there is one.
    const std::string& fault() const { return fault_; }
    Joining joining() const { return joining_; }
    // Whether the first piece of a text is decoded in another way than the same piece elsewhere.
    bool treats_first() const;
    // The text begins without up to this many of this character.
    std::uint8_t stripped_count() const { return stripped_count_; }
    const std::string& stripped() const { return stripped_; }

    struct Decoded {
        std::string bytes;
        bool is_byte = false;  // of a byte fallback
    };
    // Throws TextError if the piece is too long. Adds to `work` about how many bytes were looked at.
    Decoded decode(std::string_view piece, bool is_first, std::uint64_t& work) const;

  private:
    void add(const DecoderStep& step);
    void add_to_pieces(const DecoderStep& step);
    void add_to_text(const DecoderStep& step);

    std::string fault_;
    std::vector<DecoderStep> on_pieces_;
    Joining joining_ = Joining::kPlain;
    bool has_alphabet_ = false;
    std::string joined_by_;  // the type of the step after which the pieces are no longer separate
    bool is_one_piece_ = false;
    std::string stripped_;
    std::uint8_t stripped_count_ = 0;
};

}  // namespace croupier::text
