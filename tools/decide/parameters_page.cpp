#include "tools/decide/parameters_page.h"

#include <algorithm>
#include <sstream>

#include "explain/params.h"
#include "proto/sampling_fields.h"

namespace croupier::tools {
namespace {

using proto::Interval;

constexpr const char* kHead =
    R"(# Parameters

What a request may set, beside its lists of ids and its order of steps. The names are those of the members of `croupier_params`
(`include/croupier/types.h`), and of the keys of `params` in a request to `croupier decide` ([decide.md](decide.md)), where `logprob_mode` is written
`logprobs_mode`, `flags` are `ignore_eos`, `stops_only_ban`, `rank_counts_ties` and the lack of `logprobs`, and `logprobs` stands beside `params`. What each does exactly, and when, says
[semantics.md](semantics.md). A value outside its range is refused by name.

This page is what `croupier decide --parameters` prints, from the table in `proto/sampling_fields.h`; a test keeps it equal.

)";

constexpr const char* kFoot = R"(
Beyond each one's own range:

- `child` is 0 with `rng` `sglang` and `vllm`, whose children differ in their seed.
- `adaptive_target` is off where `mirostat` is on.
- `min_tokens` is at most `max_tokens`, where that is on.
- `eos_token_id` is an id of the vocabulary, and `logprobs` are at most 64 in a session.
)";

template <typename Number>
std::string text_of(Number number) {
    std::ostringstream text;
    text << +number;
    return text.str();
}
std::string text_of(proto::Rng rng) {
    return explain::rng_names()[static_cast<std::size_t>(rng)];
}
std::string text_of(proto::LogprobMode mode) {
    return explain::logprob_mode_names()[static_cast<std::size_t>(mode)];
}

// What is off, of the values that are allowed.
std::string off_text(const Interval& off, const Interval& allowed) {
    const double low = std::max(off.low, allowed.low);
    const double high = std::min(off.high, allowed.high);
    if (low > high) return "";
    if (low == high) return text_of(low);
    if (off.low < allowed.low) return off.has_high ? text_of(high) + " or less" : "below " + text_of(high);
    return off.has_low ? text_of(low) + " or more" : "above " + text_of(low);
}

}  // namespace

std::string parameters_page() {
    const proto::SamplingParams defaults;
    std::ostringstream page;
    page << kHead << "| parameter | allowed | default | off | meaning |\n| --- | --- | --- | --- | --- |\n";
    proto::for_each_sampling_field([&](const auto& field) {
        page << "| `" << field.name << "` | " << field.range << " | " << text_of(defaults.*field.member)
             << " | " << off_text(field.off, field.allowed) << " | " << field.meaning << " |\n";
    });
    page << kFoot;
    return page.str();
}

}  // namespace croupier::tools
