// Any bytes are a tokenizer, whose texts act on nothing, or a fault that says something; and as a query of
// /explain likewise.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/observation/explain_query.h"
#include "explain/fields.h"
#include "explain/token_texts.h"
#include "proto/geometry.h"
#include "text/shown_text.h"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

bool acts_on_nothing(std::string_view shown) {
    for (const char c : shown) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    }
    return shown.find("\u202e") == std::string_view::npos && shown.find("\u009b") == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    require(acts_on_nothing(croupier::text::shown_text(text)));
    (void)croupier::text::cut_to(text, size / 2);
    try {
        const auto texts = croupier::explain::TokenTexts::parse(text, "fuzz.json");
        texts.check_fits(croupier::proto::kMaxVocab);
        for (std::int32_t id = 0; id < 64; ++id) require(acts_on_nothing(texts.shown(id)));
    } catch (const croupier::explain::RequestError& error) {
        require(error.what()[0] != '\0' && acts_on_nothing(error.what()));
    }
    const auto query = croupier::daemon::parse_explain_query(text);
    require(query || acts_on_nothing(query.error().message));
    return 0;
}
