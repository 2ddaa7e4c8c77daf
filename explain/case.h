// A request to `croupier decide` or `croupier explain`, with all files that it names loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explain/fields.h"
#include "explain/params.h"
#include "explain/row.h"
#include "explain/row_files.h"
#include "proto/decision.h"
#include "proto/dtype.h"
#include "proto/sampling.h"
#include "sampler/request.h"

namespace croupier::explain {

enum class Impl { fast, reference };

// The daemon's decision, if the request was captured from it.
struct Decided {
    std::uint64_t step = 0;
    std::int32_t token = -1;  // -1: an error
    std::string path;
};

struct Case {
    Row row;
    Params params;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<std::uint32_t> mask;
    std::vector<std::uint32_t> hot_blocks;  // empty: each row chooses its own
    proto::Feedback feedback;
    std::uint32_t position = 0;
    std::uint32_t max_length = 0;
    std::optional<std::uint32_t> random;  // the first word of randoms, if a writer supplied it
    // The sequence ends where its text has one of these, or a JSON value; `keep_special`: special tokens are
    // in the text.
    std::vector<std::string> stop_strings;
    bool stop_at_json = false;
    bool keep_special = false;
    std::optional<Decided> decided;
    std::uint32_t draws = 1;
    bool wants_support = false;
    bool wants_logprobs = false;
    Impl impl = Impl::fast;
    std::optional<std::int64_t> target;  // the instruction set to use (explain/target.h)
};

const std::vector<std::string>& dtype_names();  // in the order of proto::Dtype

// Both throw RequestError.
Json parse_json(std::string_view text);
Case read_case(const Json& request, RowFiles& files);

// The sampler's request for one draw of one child. It points into the case and into itself.
class Asked {
  public:
    Asked(const Case& of, std::uint32_t child, std::uint32_t draw);
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

    const sampler::Request& request() const { return request_; }

  private:
    proto::SamplingParams params_;
    sampler::Request request_;
};

}  // namespace croupier::explain
