#include "text/stop_automaton.h"

#include <algorithm>

#include "text/text_error.h"
#include "text/utf8.h"

namespace croupier::text {
namespace {

void check(const std::string& stop, std::size_t index) {
    const auto refuse = [index](const std::string& what) {
        throw TextError("stop_strings[" + std::to_string(index) + "] " + what);
    };
    if (stop.empty()) refuse("is empty; a stop string has at least one byte");
    if (stop.size() > StopAutomaton::kMostBytes) {
        refuse("has " + std::to_string(stop.size()) + " bytes; allowed: up to " +
               std::to_string(StopAutomaton::kMostBytes));
    }
    // Text is UTF-8 always, so another string would never be found. And a match never splits a character.
    if (!is_utf8(stop)) refuse("is not UTF-8");
}

}  // namespace

StopAutomaton::StopAutomaton(std::span<const std::string> stops) : nodes_(1) {
    if (stops.size() > kMostStrings) {
        throw TextError("stop_strings has " + std::to_string(stops.size()) + " strings; allowed: up to " +
                        std::to_string(kMostStrings));
    }
    for (std::size_t i = 0; i < stops.size(); ++i) {
        check(stops[i], i);
        add(stops[i], static_cast<std::uint8_t>(i));
        lengths_.push_back(static_cast<std::uint16_t>(stops[i].size()));
    }
    link();
}

StopAutomaton::Node StopAutomaton::child_of(Node node, char byte) const {
    Node child = nodes_[node].child;
    while (child != kRoot && nodes_[child].byte != byte) child = nodes_[child].sibling;
    return child;
}

void StopAutomaton::add(const std::string& stop, std::uint8_t index) {
    Node node = kRoot;
    for (const char byte : stop) {
        Node child = child_of(node, byte);
        if (child == kRoot) {
            child = static_cast<Node>(nodes_.size());
            nodes_.push_back({kRoot, nodes_[node].child, kRoot, 0, byte, kNone});
            nodes_[node].child = child;
        }
        node = child;
    }
    nodes_[node].stop = std::min(nodes_[node].stop, index);
}

// Breadth first, since a node's fallback is shorter than it.
void StopAutomaton::link() {
    std::vector<Node> order;
    std::vector<std::uint16_t> lengths(nodes_.size(), 0);
    for (Node child = nodes_[kRoot].child; child != kRoot; child = nodes_[child].sibling) {
        from_root_[static_cast<std::uint8_t>(nodes_[child].byte)] = child;
        lengths[child] = 1;
        order.push_back(child);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
        const Node node = order[i];
        NodeData& data = nodes_[node];
        data.stop = std::min(data.stop, nodes_[data.fallback].stop);
        data.held = data.child != kRoot ? lengths[node] : nodes_[data.fallback].held;
        for (Node child = data.child; child != kRoot; child = nodes_[child].sibling) {
            nodes_[child].fallback = next(data.fallback, nodes_[child].byte);
            lengths[child] = static_cast<std::uint16_t>(lengths[node] + 1);
            order.push_back(child);
        }
    }
}

StopAutomaton::Node StopAutomaton::next(Node node, char byte) const {
    while (node != kRoot) {
        if (const Node child = child_of(node, byte); child != kRoot) return child;
        node = nodes_[node].fallback;
    }
    return from_root_[static_cast<std::uint8_t>(byte)];
}

std::optional<StopAutomaton::Match> StopAutomaton::find(Node& node, std::string_view text) const {
    for (std::size_t at = 0; at < text.size(); ++at) {
        node = next(node, text[at]);
        if (nodes_[node].stop != kNone) return Match{nodes_[node].stop, at + 1};
    }
    return std::nullopt;
}

}  // namespace croupier::text
