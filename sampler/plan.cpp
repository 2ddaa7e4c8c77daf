#include "sampler/plan.h"

namespace croupier::sampler {

request::Plan plan_of(const proto::SamplingParams& params, const Request& request,
                      std::uint32_t vocab) noexcept {
    const request::ListSizes lists{request.allowed_ids.size(), request.bias.size(), request.bad_words.size()};
    const request::Rules rules = request::rules_of(params, lists, request.output.size());
    return request::plan_of(params, {rules, request.wants_support, random_position(request), vocab});
}

}  // namespace croupier::sampler
