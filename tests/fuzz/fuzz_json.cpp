// Any text in parts: JSON values end where a parser of the whole text finds their ends. The first byte of the
// input says how the rest is cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "testing/json_reference.h"
#include "text/json_automaton.h"

using croupier::testing::JsonValue;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t most = 1 + data[0] % 16U;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::vector<JsonValue> values;
    croupier::text::JsonAutomaton automaton;
    for (std::size_t at = 0; at < text.size();) {
        const auto value = automaton.find(std::string_view(text).substr(at, most));
        if (value) {
            const std::size_t end = at + value->end;
            values.push_back({end - value->bytes, end, at + value->complete});
        }
        at += value ? value->complete : most;
    }
    if (values != croupier::testing::json_values(text)) std::abort();
    return 0;
}
