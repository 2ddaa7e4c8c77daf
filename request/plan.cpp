#include "request/plan.h"

#include <algorithm>
#include <array>

namespace croupier::request {
namespace {

// From such a top-k on, tokens are sooner counted by their values than listed and sorted.
constexpr std::int32_t kMostListed = 1024;

bool wants_support(const SamplingParams& params, const Setting& setting) {
    return setting.answers_all_left || params.support > 0;
}

bool can_be_asked(Step filter) {
    return filter == Step::min_p || filter == Step::top_p || filter == Step::top_n_sigma ||
           filter == Step::xtc || filter == Step::typical_p;
}

// Whether what the step keeps at both ends of a range of temperatures is what it keeps between, because it
// keeps more of the best tokens the higher the temperature is. Typical-p and XTC drop the best ones. A
// top-n-sigma follows a deviation, which may be larger or smaller of more tokens. Penalties give a token
// another value.
constexpr bool bears_temperatures(Step step) {
    switch (step) {
        case Step::min_p:
        case Step::top_k:
        case Step::top_p:
        case Step::temperature:
        case Step::end:
        case Step::count_:
            return true;
        case Step::penalties:
        case Step::dry:
        case Step::top_n_sigma:
        case Step::typical_p:
        case Step::xtc:
            break;
    }
    return false;
}

class Planner {
  public:
    Planner(const SamplingParams& given, const Setting& setting)
        : given_(given), params_(with_plain_top_k(given, setting.vocab)), setting_(setting) {}

    Plan plan() {
        plan_.rules = setting_.rules;
        plan_.key = {params_.seed, setting_.position, params_.child};
        plan_.temperature = race_temperature(params_);
        plan_.perturbs_logits = perturbs_logits(params_);
        plan_.cut = first_cut(params_, {!asks_sigma(), bears_interval()});
        plan_.adjusts_first = changes_first(params_, plan_.cut);
        plan_.adjusts_last =
            !plan_.adjusts_first && !replaces_draw(params_) && changes_last(params_, plan_.cut);
        plan_.changes_logits = setting_.rules.changes || takes_adjustment(params_);
        plan_.sums_processed = wants_processed(params_) && is_told_by_weight();
        plan_.answers_left = wants_shares() || (wants_processed(params_) && !plan_.sums_processed);
        if (is_counted()) leave_top_k_uncut();
        plan_.path = first_path();
        plan_.draws_plainly = draws_plainly();
        return plan_;
    }

  private:
    // Of the tokens that are left. A greedy draw's support is one token, whatever the others weigh.
    bool wants_shares() const { return wants_support(params_, setting_) && !is_greedy(params_); }

    // Whether nothing but the draw's winner is answered that depends on what is left.
    bool draws_alone() const {
        return !replaces_draw(params_) && !wants_shares() && !wants_processed(params_);
    }
    bool races_alone() const { return draws_alone() && params_.rng == proto::Rng::race; }
    // Whether it is enough to know what a dynamic temperature lies between: nothing that is answered depends
    // on its last bit, nor does what the steps behind it keep.
    bool bears_interval() const {
        const proto::StepOrder& order = order_of(params_);
        const auto depends = [&](Step step) {
            if (!takes_step(params_, step)) return false;
            if (step == Step::xtc) return xtc_acts(params_, setting_.position);
            return !bears_temperatures(step);
        };
        const auto temperature = std::find(order.begin(), order.end(), Step::temperature);
        return races_alone() && std::none_of(temperature, order.end(), depends);
    }
    // Whether a winner among all tokens is asked about the one filter, a top-n sigma.
    bool asks_sigma() const {
        return draws_alone() && !is_tempered_dynamically(params_) &&
               only_filter(params_) == Step::top_n_sigma;
    }

    // Whether the distribution is that of all tokens as they stand, at a temperature that the request says.
    bool is_told_by_weight() const {
        if (wants_shares() || plan_.changes_logits || setting_.rules.lists) return false;
        return is_greedy(params_) ||
               (!is_truncated(params_) && !replaces_draw(params_) && params_.dynatemp_range <= 0.0);
    }

    bool is_counted() const { return plan_.cut.top_k > kMostListed && !setting_.rules.lists; }

    // A min-p beside it still cuts, behind what it stands behind.
    void leave_top_k_uncut() {
        plan_.cut.top_k = 0;
        if (plan_.cut.none()) plan_.cut.behind_sigma = plan_.cut.tempered = false;
    }

    // By a race for which the one filter that is on can be asked of the winner.
    bool asks_winner(Step filter) const {
        return !plan_.answers_left && plan_.adjusts_first && !replaces_draw(params_) &&
               only_filter(params_) == filter;
    }

    DecisionPath first_path() {
        if (setting_.rules.lists) return DecisionPath::listed;
        if (is_greedy(params_) && wants_processed(params_) && !plan_.sums_processed) {
            plan_.cut.top_k = 0;
            return DecisionPath::classes;
        }
        if (!plan_.cut.none()) return search_head();
        if (plan_.cut.by_sigma()) {
            plan_.applied = Step::top_n_sigma;
            return DecisionPath::head;
        }
        if (plan_.cut.by_top_p() && !asks_winner(Step::top_p)) {
            plan_.applied = Step::top_p;
            return DecisionPath::head;
        }
        if (plan_.answers_left || !plan_.adjusts_first) return DecisionPath::classes;
        return draw_from_all();
    }

    // How many pass a min-p alone depends on the row: most often few.
    DecisionPath search_head() {
        const bool knows_temperature = !is_tempered_dynamically(params_) || plan_.cut.tempered;
        if (knows_temperature && asks_winner(Step::min_p)) plan_.asked = Step::min_p;
        if (plan_.cut.behind_sigma) plan_.applied = Step::top_n_sigma;
        plan_.gives_up = plan_.cut.top_k == 0;
        return DecisionPath::head;
    }

    // Nothing but the token is answered, and each token has one value.
    DecisionPath draw_from_all() {
        const bool truncated = is_truncated(params_);
        const bool tempered = is_tempered_dynamically(params_);
        if (has_mirostat(params_) && !truncated && !tempered) return DecisionPath::mirostat;
        if (replaces_draw(params_)) return DecisionPath::classes;
        if (tempered && (truncated || params_.rng != proto::Rng::race)) return DecisionPath::classes;
        if (tempered) {
            plan_.asked = Step::temperature;
            return DecisionPath::asked;
        }
        if (!truncated) return proposes(given_) ? DecisionPath::proposals : DecisionPath::race;
        const Step filter = only_filter(params_);
        if (filter == Step::xtc && !xtc_acts(params_, setting_.position)) return DecisionPath::race;
        if (!can_be_asked(filter) || is_left_open(filter)) return DecisionPath::classes;
        plan_.asked = filter;
        return DecisionPath::asked;
    }

    // Whether a winner is asked in vain. Most of a flat row reaches a small threshold, and what a small
    // typical_p keeps wins seldom.
    bool is_left_open(Step filter) const {
        constexpr double kLeastThreshold = 1e-4;
        constexpr double kLeastTypical = 1e-3;
        if (filter == Step::xtc) return params_.xtc_threshold < kLeastThreshold;
        return filter == Step::typical_p && params_.typical_p < kLeastTypical;
    }

    // Whether the token is the winner of the race, or the first maximum, among all tokens that its mask
    // allows, by the logits as they stand. A request with an XTC is left out, even where it does not act.
    bool draws_plainly() const {
        const bool wants_token_alone = !wants_logprob(params_) && !wants_support(params_, setting_);
        const bool is_usual = params_.rng == proto::Rng::race && has_default_order(params_);
        const bool from_all = plan_.path == DecisionPath::race && !is_truncated(params_);
        const bool first_maximum = plan_.path == DecisionPath::head && is_greedy(params_);
        return wants_token_alone && is_usual && !plan_.changes_logits && (from_all || first_maximum);
    }

    const SamplingParams& given_;
    const SamplingParams params_;
    const Setting& setting_;
    Plan plan_;
};

}  // namespace

const char* name_of(DecisionPath path) noexcept {
    constexpr std::array kNames = {"none",  "drawn",    "listed",    "head",   "race",
                                   "asked", "mirostat", "proposals", "classes"};
    static_assert(kNames.size() == static_cast<std::size_t>(DecisionPath::count_));
    return path < DecisionPath::count_ ? kNames[static_cast<std::size_t>(path)] : "unknown";
}

Plan plan_of(const SamplingParams& params, const Setting& setting) noexcept {
    return Planner(params, setting).plan();
}

}  // namespace croupier::request
