// Finds stop strings in text that comes in parts: an Aho-Corasick automaton.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/sampling.h"

namespace croupier::text {

class StopAutomaton {
  public:
    static constexpr std::size_t kMostStrings = proto::kMaxStopStrings;
    static constexpr std::size_t kMostBytes = proto::kMaxStopStringBytes;

    // A beginning of a stop string: the longest one with which the text so far ends.
    using Node = std::uint16_t;
    static constexpr Node kRoot = 0;

    // Throws TextError, beginning with the string's index, for one that is empty, too long or not UTF-8.
    explicit StopAutomaton(std::span<const std::string> stops);

    struct Match {
        std::size_t stop;  // the index of the stop string
        std::size_t end;   // the bytes of the text up to the string's end
    };
    // Goes on with `text` up to the end of the first stop string that ends in it. If several end there, the
    // first of the list counts, as in vLLM. Without one, goes on to the end of the text.
    std::optional<Match> find(Node& node, std::string_view text) const;

    // How many of the last bytes may still become a stop string.
    std::size_t held(Node node) const { return nodes_[node].held; }
    std::size_t length(std::size_t stop) const { return lengths_[stop]; }
    bool empty() const { return lengths_.empty(); }
    std::size_t allocated() const {
        return nodes_.capacity() * sizeof(NodeData) + lengths_.capacity() * sizeof(std::uint16_t);
    }

  private:
    // Ten bytes, so that a sequence with 16 strings of 256 bytes has 40 KiB, and common ones one or two.
    struct NodeData {
        Node child = kRoot;     // the first of its children; the root if it has none
        Node sibling = kRoot;   // the next child of its parent
        Node fallback = kRoot;  // the longest other node that is an end of this one
        std::uint16_t held = 0;
        char byte = 0;
        std::uint8_t stop = kNone;
    };
    static constexpr std::uint8_t kNone = 0xFF;

    void add(const std::string& stop, std::uint8_t index);
    void link();
    Node child_of(Node node, char byte) const;
    Node next(Node node, char byte) const;

    std::vector<NodeData> nodes_;
    std::array<Node, 256> from_root_{};
    std::vector<std::uint16_t> lengths_;
};

}  // namespace croupier::text
