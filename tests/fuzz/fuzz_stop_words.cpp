// Any words where a sequence's stop strings should be, which a client writes and a sampler reads: they are
// none, or strings that are these words, of which a search is made or which are refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "proto/stop_words.h"
#include "text/stop_automaton.h"
#include "text/text_error.h"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<std::int32_t> words(size / sizeof(std::int32_t));
    if (!words.empty()) std::memcpy(words.data(), data, words.size() * sizeof(std::int32_t));
    const auto stops = croupier::proto::read_stop_words(words);
    if (!stops) return 0;
    require(stops->size() <= croupier::proto::kMaxStopStrings);
    std::vector<std::int32_t> again;
    for (const auto& stop : *stops) {
        require(stop.size() <= croupier::proto::kMaxStopStringBytes);
        const std::size_t first = again.size();
        croupier::proto::append_stop_words(stop, again);
        require(again.size() <= words.size() && again[first] == words[first]);
        require(std::memcmp(&words[first] + 1, stop.data(), stop.size()) == 0);
    }
    require(again.size() == words.size());
    try {
        const croupier::text::StopAutomaton automaton(*stops);
        auto node = croupier::text::StopAutomaton::kRoot;
        for (const auto& stop : *stops) require(automaton.find(node, stop).has_value());
    } catch (const croupier::text::TextError&) {
        require(std::any_of(stops->begin(), stops->end(), [](const auto& stop) {
            return stop.empty() || std::any_of(stop.begin(), stop.end(), [](char byte) { return byte < 0; });
        }));
    }
    return 0;
}
