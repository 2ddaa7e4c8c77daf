#include "bench/cliffs/drawn_request.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "bench/cliffs/controls.h"
#include "proto/sampling.h"

namespace croupier::bench {
namespace {

// How many controls a request has: most often one or two.
std::uint32_t draw_count(Draws& draws) {
    const std::uint32_t kind = draws.below(20);
    if (kind == 0) return 0;
    if (kind < 8) return 1;
    if (kind < 14) return 2;
    return kind < 17 ? 3 + draws.below(2) : 5 + draws.below(4);
}

double draw_temperature(Draws& draws) {
    constexpr double kLowest = 0.2;
    constexpr double kHighest = 1.8;
    if (draws.one_in(12)) return 0.0;
    draws.choose_place();
    return draws.from(kLowest, kHighest);
}

proto::Dtype draw_dtype(Draws& draws) {
    constexpr proto::Dtype kDtypes[] = {proto::Dtype::bf16, proto::Dtype::bf16, proto::Dtype::fp16,
                                        proto::Dtype::fp32};
    return kDtypes[draws.below(4)];
}

std::vector<std::uint32_t> chosen_controls(std::size_t all, Draws& draws) {
    std::vector<std::uint32_t> chosen(all);
    std::iota(chosen.begin(), chosen.end(), 0U);
    const std::uint32_t count = draw_count(draws);
    for (std::uint32_t i = 0; i < count; ++i)
        std::swap(chosen[i], chosen[i + draws.below(static_cast<std::uint32_t>(all) - i)]);
    chosen.resize(count);
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

std::string shown_order(const proto::StepOrder& order) {
    std::string text;
    for (const proto::Step step : order) {
        if (step == proto::Step::end) break;
        text += (text.empty() ? "" : " ") + std::string(proto::facts_of(step).name);
    }
    return text;
}

std::uint64_t allowed_by(const std::vector<std::uint32_t>& mask) {
    std::uint64_t ids = 0;
    for (const std::uint32_t word : mask) ids += static_cast<std::uint32_t>(std::popcount(word));
    return ids;
}

std::string shown_lists(const CaseRequest& request) {
    std::string text;
    const auto add = [&text](const char* what, std::uint64_t count) {
        if (count > 0) text += fmt::format(", {} {}", what, count);
    };
    add("mask of", allowed_by(request.mask));
    add("allowed ids", request.allowed.size());
    add("biases", request.bias.size());
    add("stop ids", request.stop_ids.size());
    add("words of bad words", request.bad_words.size());
    add("words of DRY breakers", request.dry_breakers.size());
    return text;
}

}  // namespace

DrawnRequest drawn_request(const RequestSpace& space, std::uint32_t number) {
    Draws draws(space.seed, number);
    DrawnRequest drawn;
    drawn.number = number;
    drawn.request.name = fmt::format("seed {}, request {}", space.seed, number);
    drawn.request.params.flags = proto::kNoLogprob;
    drawn.request.params.seed = draws.next();
    drawn.request.params.temperature = draw_temperature(draws);
    drawn.dtype = draw_dtype(draws);
    draws.choose_place();
    constexpr std::uint32_t kShortest = 100;
    drawn.history = draws.count(std::min(kShortest, space.longest_history), space.longest_history);
    drawn.repeats = draws.one_in(8);
    const std::span<const Control> controls = all_controls();
    Drawing drawing{space, draws, drawn, draws.token(space)};
    std::set<Excludes> taken;
    for (const std::uint32_t which : chosen_controls(controls.size(), draws)) {
        const Excludes excludes = controls[which].excludes;
        if (excludes != Excludes::none && !taken.insert(excludes).second) continue;
        draws.choose_place();
        controls[which].draw(drawing);
        drawn.controls.emplace_back(controls[which].name);
    }
    return drawn;
}

std::vector<std::string> control_names() {
    std::vector<std::string> names;
    for (const Control& each : all_controls()) names.emplace_back(each.name);
    return names;
}

std::string describe(const DrawnRequest& drawn) {
    const proto::SamplingParams& params = drawn.request.params;
    const proto::SamplingParams usual;
    std::string text = fmt::format("{}, T {:.3g}", proto::name_of(drawn.dtype), params.temperature);
    proto::for_each_sampling_field([&](const auto& field) {
        const bool said = field.member == nullptr || params.*field.member == usual.*field.member;
        const std::string name = field.name;
        if (said || name == "seed" || name == "temperature") return;
        if (name == "flags" && params.flags == proto::kNoLogprob) return;
        text += fmt::format(", {} {:.6g}", name, field.number(params));
    });
    if (params.order[0] != proto::Step::end) text += ", order " + shown_order(params.order);
    text += shown_lists(drawn.request);
    return text + fmt::format(", history {}{}", drawn.history, drawn.repeats ? " that repeats" : "");
}

}  // namespace croupier::bench
