#include "tools/decide/parameters_page.h"

#include <algorithm>
#include <sstream>

#include "explain/params.h"
#include "proto/sampling.h"

namespace croupier::tools {
namespace {

using proto::Interval;

constexpr const char* kHead =
    R"(# Parameters

These are the sampling parameters of a request, apart from lists of ids and the order of
steps. [semantics.md](semantics.md) defines them.

The names are those of `croupier_params` (`include/croupier/types.h`), of `croupier.Params`, and of the
keys of `params` in a request to `croupier decide` ([decide.md](decide.md)). There, `logprob_mode` is
`logprobs_mode`, `logprobs` and `support` stand outside `params`, and `flags` are the keys `ignore_eos`,
`stops_only_ban`, `rank_counts_ties` and the absence of `logprobs`. Python names
each flag, and draws a missing `seed`.

`croupier decide --parameters` prints this page.

)";

constexpr const char* kFoot = R"(
Further restrictions:

- With `rng` `sglang` or `vllm`, `child` must be 0, because their children differ in the seed.
- `rng` `vllm` draws the random numbers of vLLM 0.33's model runner V2. Those of vLLM 0.26 are others,
  and no `rng` draws them.
- With `mirostat`, `adaptive_target` must be off.
- `min_tokens` must be at most `max_tokens`, unless that is off.
- `loop_max_period` times `loop_count` must be at most 4096.
- `eos_token_id` must be an id of the vocabulary, and `logprobs` at most 64 in a session.
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
