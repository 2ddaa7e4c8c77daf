#include <algorithm>
#include <stdexcept>

#include "bench/decide/bench_cases.h"

namespace croupier::bench {
namespace {

using proto::SamplingParams;

SamplingParams plain() {
    SamplingParams params;
    params.temperature = 0.8;
    params.flags = proto::kNoLogprob;
    return params;
}

template <typename Change>
BenchCase changed(std::string name, std::string what, Change change) {
    BenchCase made{std::move(name), std::move(what), plain()};
    change(made.params);
    return made;
}

// A request with a single control, which determines its path.
std::vector<BenchCase> single_controls() {
    return {
        changed("greedy", "the first maximum", [](auto& it) { it.temperature = 0.0; }),
        changed("temperature", "no filter", [](auto&) {}),
        changed("topk", "top-k 50", [](auto& it) { it.top_k = 50; }),
        changed("minp", "min-p 0.05", [](auto& it) { it.min_p = 0.05; }),
        changed("topp", "top-p 0.95", [](auto& it) { it.top_p = 0.95; }),
        changed("sigma", "top-n-sigma 1", [](auto& it) { it.top_n_sigma = 1.0; }),
        changed("xtc", "XTC, probability 1, threshold 0.1", [](auto& it) { it.xtc_probability = 1.0; }),
        changed("typical", "typical-p 0.9", [](auto& it) { it.typical_p = 0.9; }),
        changed("mirostat1", "mirostat 1, tau 5", [](auto& it) { it.mirostat = 1; }),
        changed("mirostat2", "mirostat 2, tau 5", [](auto& it) { it.mirostat = 2; }),
        changed("dynatemp", "dynamic temperature, range 0.5", [](auto& it) { it.dynatemp_range = 0.5; }),
        changed("adaptive", "adaptive-p, target 0.3", [](auto& it) { it.adaptive_target = 0.3; }),
    };
}

BenchCase beside(const BenchCase& alone, const std::string& name, const std::string& what) {
    BenchCase made = alone;
    made.name += "+" + name;
    made.what += ", " + what;
    return made;
}

void add_masked(const BenchCase& alone, std::vector<BenchCase>& cases) {
    cases.push_back(beside(alone, "few", "a mask that allows 200 ids"));
    cases.back().mask = CaseMask::few;
    cases.push_back(beside(alone, "half", "a mask that allows half of the ids"));
    cases.back().mask = CaseMask::half;
}

void add_with_company(const BenchCase& alone, std::vector<BenchCase>& cases) {
    cases.push_back(alone);
    BenchCase penalised = beside(alone, "penalties", "penalties 1.1/0.1/0.1");
    penalised.params.repetition_penalty = 1.1;
    penalised.params.frequency_penalty = 0.1;
    penalised.params.presence_penalty = 0.1;
    cases.push_back(penalised);
    add_masked(alone, cases);
    if (alone.name == "topp") add_masked(penalised, cases);
    cases.push_back(beside(alone, "logprob", "the drawn token's log-prob"));
    cases.back().params.flags = 0;
}

void add_prepared(const BenchCase& alone, std::vector<BenchCase>& cases) {
    cases.push_back(beside(alone, "prepared", "first arrivals computed in advance"));
    cases.back().prepared = true;
}

void add_others(std::vector<BenchCase>& cases) {
    cases.push_back(changed("repetition0.9", "repetition penalty 0.9, which raises logits",
                            [](auto& it) { it.repetition_penalty = 0.9; }));
    cases.push_back(changed("repetition0.9+topk", "the same, top-k 50", [](auto& it) {
        it.repetition_penalty = 0.9;
        it.top_k = 50;
    }));
    cases.push_back(changed("biases", "bias of 5 for 20 ids", [](auto&) {}));
    cases.back().biased = true;
    cases.push_back(changed("listed", "only 40 ids allowed", [](auto&) {}));
    cases.back().listed = 40;
    cases.push_back(changed("listed1k", "only 1,000 ids allowed, unsorted", [](auto&) {}));
    cases.back().listed = 1000;
    cases.push_back(changed("dynatemp+minp", "dynamic temperature, range 0.5, then min-p 0.02", [](auto& it) {
        it.temperature = 1.0;
        it.dynatemp_range = 0.5;
        it.min_p = 0.02;
    }));
    cases.push_back(changed("topk500", "top-k 500", [](auto& it) { it.top_k = 500; }));
    cases.push_back(changed("listed50k", "only 50,000 ids allowed, unsorted", [](auto&) {}));
    cases.back().listed = 50000;
    cases.push_back(changed("listed50k+topp", "the same, top-p 0.95", [](auto& it) { it.top_p = 0.95; }));
    cases.back().listed = 50000;
    cases.push_back(changed("shvs", "rng shvs, no filter", [](auto& it) { it.rng = proto::Rng::shvs; }));
    cases.push_back(
        changed("sglang", "rng sglang, no filter", [](auto& it) { it.rng = proto::Rng::sglang; }));
    cases.push_back(changed("vllm", "rng vllm, no filter", [](auto& it) { it.rng = proto::Rng::vllm; }));
    cases.push_back(changed("processed", "no filter, processed log-prob of the drawn token", [](auto& it) {
        it.flags = 0;
        it.logprob_mode = proto::LogprobMode::processed;
    }));
    cases.push_back(changed("processed+topp", "the same, top-p 0.95", [](auto& it) {
        it.flags = 0;
        it.logprob_mode = proto::LogprobMode::processed;
        it.top_p = 0.95;
    }));
    cases.push_back(changed("late", "top-p 0.95 before penalties 1.1/0.1/0.1", [](auto& it) {
        using proto::Step;
        it.top_p = 0.95;
        it.repetition_penalty = 1.1;
        it.frequency_penalty = it.presence_penalty = 0.1;
        it.order = {Step::temperature, Step::top_p, Step::penalties};
    }));
    cases.push_back(changed("topk50k", "top-k 50,000", [](auto& it) { it.top_k = 50000; }));
    cases.push_back(changed("topp+typical", "top-p 0.95, typical-p 0.9", [](auto& it) {
        it.top_p = 0.95;
        it.typical_p = 0.9;
    }));
    cases.push_back(
        changed("dynatemp+typical", "dynamic temperature, range 0.5, typical-p 0.9", [](auto& it) {
            it.dynatemp_range = 0.5;
            it.typical_p = 0.9;
        }));
    cases.push_back(changed("support", "no filter, support of 64 tokens", [](auto& it) { it.support = 64; }));
    cases.push_back(
        changed("support64k", "no filter, support of 65,536 tokens", [](auto& it) { it.support = 65536; }));
    cases.push_back(changed("support64k+typical", "the same, typical-p 0.95", [](auto& it) {
        it.support = 65536;
        it.typical_p = 0.95;
    }));
    cases.push_back(changed("logprobs1", "greedy, log-probs of the drawn token and the best", [](auto& it) {
        it.temperature = 0.0;
        it.flags = 0;
        it.logprobs = 1;
    }));
}

std::string names_of(const std::vector<BenchCase>& cases) {
    std::string names;
    for (const BenchCase& each : cases) names += (names.empty() ? "" : ", ") + each.name;
    return names;
}

}  // namespace

std::vector<BenchCase> all_bench_cases() {
    std::vector<BenchCase> cases;
    for (const BenchCase& each : single_controls()) {
        add_with_company(each, cases);
        if (each.name == "temperature" || each.name == "topp") add_prepared(each, cases);
    }
    add_others(cases);
    for (const BenchCase& each : bench_cases()) {
        const auto same = [&each](const BenchCase& other) { return other.name == each.name; };
        if (std::none_of(cases.begin(), cases.end(), same)) cases.push_back(each);
        if (each.name == "full") add_masked(each, cases);
    }
    return cases;
}

std::vector<BenchCase> chosen_cases(const std::vector<std::string>& names) {
    if (names.empty()) return bench_cases();
    std::vector<BenchCase> all = all_bench_cases();
    if (std::find(names.begin(), names.end(), "all") != names.end()) return all;
    std::vector<BenchCase> chosen;
    for (const std::string& name : names) {
        const auto found = std::find_if(all.begin(), all.end(),
                                        [&name](const BenchCase& each) { return each.name == name; });
        if (found == all.end())
            throw std::runtime_error("there is no case '" + name + "'; cases: all, " + names_of(all));
        chosen.push_back(*found);
    }
    return chosen;
}

}  // namespace croupier::bench
