// Any stop strings, and any text in parts: what the automaton finds and holds back is what a search in all of
// the text so far finds. The input is lines: stop strings, an empty line, and parts of the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/stop_automaton.h"
#include "text/text_error.h"

namespace {

using croupier::text::StopAutomaton;

void require(bool condition) {
    if (!condition) std::abort();
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

// The length of the longest end of the text that begins one of the strings, and is not all of it.
std::size_t held_of(std::string_view text, const std::vector<std::string>& stops) {
    std::size_t held = 0;
    for (const std::string& stop : stops) {
        for (std::size_t size = 1; size < stop.size(); ++size) {
            if (text.ends_with(std::string_view(stop).substr(0, size))) held = std::max(held, size);
        }
    }
    return held;
}

// The first string of the list with which the text ends.
std::size_t stop_of(std::string_view text, const std::vector<std::string>& stops) {
    const auto ends = [text](const std::string& stop) { return text.ends_with(stop); };
    return static_cast<std::size_t>(std::find_if(stops.begin(), stops.end(), ends) - stops.begin());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size > 4096) return 0;  // the search takes the square of it
    const auto lines = lines_of({reinterpret_cast<const char*>(data), size});
    const auto blank = std::find(lines.begin(), lines.end(), "");
    const std::vector<std::string> stops(lines.begin(), blank);
    try {
        const StopAutomaton automaton(stops);
        StopAutomaton::Node node = StopAutomaton::kRoot;
        std::string text;
        for (auto part = blank; part != lines.end(); ++part) {
            std::string_view rest = *part;
            while (!rest.empty()) {
                const auto match = automaton.find(node, rest);
                const std::size_t taken = match ? match->end : rest.size();
                for (std::size_t i = 0; i < taken; ++i) {
                    text += rest[i];
                    const bool is_end = match && i + 1 == taken;
                    require(stop_of(text, stops) == (is_end ? match->stop : stops.size()));
                }
                rest.remove_prefix(taken);
                require(automaton.held(node) == held_of(text, stops));
            }
        }
    } catch (const croupier::text::TextError& error) {
        require(std::string_view(error.what()).starts_with("stop"));
    }
    return 0;
}
