#include "python/extension/params.h"

#include <nanobind/stl/string.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "proto/sampling.h"
#include "python/extension/failure.h"
#include "python/extension/keywords.h"
#include "python/extension/numbers.h"

namespace croupier::python {
namespace {

namespace fields = proto::fields;

struct Flag {
    const char* name;
    std::uint32_t bit;
    const char* meaning;
};
constexpr std::array kFlags = {
    Flag{"ignore_eos", CROUPIER_IGNORE_EOS, "EOS does not end the sequence"},
    Flag{"no_logprob", CROUPIER_NO_LOGPROB,
         "the decision's log-prob is NaN, which saves a pass over the row"},
    Flag{"stops_only_ban", CROUPIER_STOPS_ONLY_BAN,
         "EOS and stop ids are banned until min_tokens are out, and end nothing"},
    Flag{"rank_counts_ties", CROUPIER_RANK_COUNTS_TIES,
         "the drawn token's rank counts all tokens at or above it, as vLLM does"},
    Flag{"include_stop", CROUPIER_INCLUDE_STOP,
         "the text ends after the stop string or stop token that ended it"},
    Flag{"keep_special", CROUPIER_KEEP_SPECIAL, "special tokens are a part of the text"},
    Flag{"stop_at_json", CROUPIER_STOP_AT_JSON,
         "the first JSON value that the text has, after no more than whitespace, ends the sequence"}};

constexpr const auto& names_of(proto::Rng /*of*/) {
    return proto::kRngNames;
}
constexpr const auto& names_of(proto::LogprobMode /*of*/) {
    return proto::kLogprobModeNames;
}

Failure out_of_range(const char* name, nb::handle value, const std::string& allowed) {
    return bad_argument(std::string(name) + " is " + shown(value) + "; allowed: " + allowed);
}

// The place of a name among `names`, or of a number that stands for it.
template <typename Names>
std::optional<std::uint8_t> choice_of(nb::handle value, const Names& names) {
    if (!nb::isinstance<nb::str>(value)) return number_of<std::uint8_t>(value);
    const auto found = std::find(names.begin(), names.end(), nb::cast<std::string>(value));
    if (found == names.end()) return std::nullopt;
    return static_cast<std::uint8_t>(found - names.begin());
}

template <typename T, typename Abi>
void set_field(Abi& to, const proto::SamplingField<T>& field, nb::handle value) {
    std::optional<Abi> read;
    if constexpr (std::is_enum_v<T>) {
        read = choice_of(value, names_of(T{}));
    } else {
        read = number_of<Abi>(value);
    }
    if (!read || !field.allowed.has(static_cast<double>(*read)))
        throw out_of_range(field.name, value, field.range);
    to = *read;
}

template <typename T, typename Abi>
nb::object get_field(Abi value, const proto::SamplingField<T>& /*field*/) {
    if constexpr (std::is_enum_v<T>) {
        return nb::cast(names_of(T{})[value]);
    } else {
        return nb::cast(value);
    }
}

// The seed may be None, and each bit of the flags has a name of its own.
constexpr bool is_plain(std::string_view field) {
    return field != "seed" && field != "flags";
}

nb::object get_seed(const Params& params) {
    return params.has_seed ? nb::cast(params.fields.seed) : nb::none();
}

void set_seed(Params& params, nb::handle value) {
    if (!value.is_none()) set_field(params.fields.seed, fields::seed, value);
    params.has_seed = !value.is_none();
}

std::uint64_t random_seed() {
    std::uint64_t seed = 0;
    if (::getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        throw Failure(CROUPIER_ERROR_SYSTEM_ERROR,
                      "no random seed: getrandom failed; give the request a seed");
    }
    return seed;
}

template <typename T>
constexpr const char* type_of(const proto::SamplingField<T>& /*field*/) {
    if constexpr (std::is_enum_v<T>) return "str";
    if constexpr (std::is_floating_point_v<T>) return "float";
    return "int";
}

bool has_flag(const croupier_params& params, const Flag& flag) {
    return (params.flags & flag.bit) != 0;
}

void set_flag(croupier_params& params, const Flag& flag, nb::handle value) {
    const auto on = number_of<std::uint8_t>(value);
    if (!on || *on > 1) throw out_of_range(flag.name, value, "True or False");
    params.flags = *on == 1 ? params.flags | flag.bit : params.flags & ~flag.bit;
}

nb::list get_order(const croupier_params& params) {
    nb::list order;
    for (std::size_t i = 0; i < CROUPIER_MAX_ORDER && params.order[i] != CROUPIER_ORDER_END; ++i)
        order.append(proto::kStepNames[params.order[i] - 1U]);
    return order;
}

void set_order(croupier_params& params, nb::handle value) {
    const auto refuse = [&](const std::string& why) {
        std::string names;
        for (const char* name : proto::kStepNames) names += (names.empty() ? "" : ", ") + std::string(name);
        return bad_argument("order is " + shown(value) + ", " + why + "; allowed: a list of some of " +
                            names + ", each at most once, or an empty one for the default order");
    };
    if (nb::isinstance<nb::str>(value) || !nb::hasattr(value, "__iter__")) throw refuse("which is no list");
    std::vector<std::uint8_t> steps;
    for (const nb::handle step : value) {
        const bool named = nb::isinstance<nb::str>(step);
        const auto choice = choice_of(step, proto::kStepNames);
        const unsigned number = choice ? *choice + (named ? 1U : 0U) : 0U;
        if (number == 0 || number > proto::kStepNames.size()) throw refuse(shown(step) + " is no step");
        if (std::find(steps.begin(), steps.end(), number) != steps.end())
            throw refuse(shown(step) + " stands there again");
        steps.push_back(static_cast<std::uint8_t>(number));
    }
    std::fill(std::begin(params.order), std::end(params.order), std::uint8_t{CROUPIER_ORDER_END});
    std::copy(steps.begin(), steps.end(), params.order);
}

// The keyword arguments of Params in the order of its signature.
const std::vector<std::string>& names() {
    static const std::vector<std::string> all = [] {
        std::vector<std::string> found;
        proto::for_each_sampling_field([&](const auto& field) {
            if (std::string_view(field.name) != "flags") found.emplace_back(field.name);
        });
        for (const Flag& flag : kFlags) found.emplace_back(flag.name);
        found.emplace_back("order");
        return found;
    }();
    return all;
}

void set_named(Params& params, const std::string& name, nb::handle value) {
    if (name == "seed") return set_seed(params, value);
#define CROUPIER_SET(field, ...) \
    if (is_plain(#field) && name == #field) return set_field(params.fields.field, fields::field, value);
    CROUPIER_SAMPLING_FIELDS(CROUPIER_SET)
#undef CROUPIER_SET
    for (const Flag& flag : kFlags) {
        if (name == flag.name) return set_flag(params.fields, flag, value);
    }
    if (name == "order") return set_order(params.fields, value);
    throw_unknown("Params", name, names());
}

void init(Params* place, const nb::kwargs& given) {
    Params params;
    for (const auto& [name, value] : given) set_named(params, nb::cast<std::string>(name), value);
    new (place) Params(params);
}

std::string default_text(nb::handle value) {
    return nb::repr(value).c_str();
}

std::string signature() {
    const Params defaults;
    std::string text = "def __init__(self, *, seed: int | None = None";
#define CROUPIER_ARGUMENT(field, ...)                                                \
    if (is_plain(#field))                                                            \
        text += std::string(", ") + #field + ": " + type_of(fields::field) + " = " + \
                default_text(get_field(defaults.fields.field, fields::field));
    CROUPIER_SAMPLING_FIELDS(CROUPIER_ARGUMENT)
#undef CROUPIER_ARGUMENT
    for (const Flag& flag : kFlags) text += std::string(", ") + flag.name + ": bool = False";
    return text + ", order: collections.abc.Sequence[str] = ()) -> None";
}

// What was set: the fields that are not as they begin.
std::string representation(const Params& params) {
    const Params defaults;
    std::string text;
    const auto add = [&](const char* name, nb::handle value) {
        text += (text.empty() ? "" : ", ") + std::string(name) + "=" + nb::repr(value).c_str();
    };
    if (params.has_seed) add("seed", get_seed(params));
#define CROUPIER_SHOW(field, ...)                                         \
    if (is_plain(#field) && params.fields.field != defaults.fields.field) \
        add(#field, get_field(params.fields.field, fields::field));
    CROUPIER_SAMPLING_FIELDS(CROUPIER_SHOW)
#undef CROUPIER_SHOW
    for (const Flag& flag : kFlags) {
        if (has_flag(params.fields, flag)) add(flag.name, nb::bool_(true));
    }
    if (params.fields.order[0] != CROUPIER_ORDER_END) add("order", get_order(params.fields));
    return "Params(" + text + ")";
}

}  // namespace

croupier_params params_of(nb::handle given) {
    if (!given.is_none() && !nb::isinstance<Params>(given)) {
        throw bad_argument("params is of type " + type_name_of(given) +
                           "; allowed: croupier.Params, or None");
    }
    const Params params = given.is_none() ? Params() : *nb::inst_ptr<Params>(given);
    croupier_params plain = params.fields;
    if (!params.has_seed) plain.seed = random_seed();
    return plain;
}

void bind_params(nb::module_& module) {
    nb::class_<Params> bound(module, "Params",
                             "What a request asks of its draws; what is left out is off. docs/parameters.md "
                             "has a table of them, docs/semantics.md says what each does. Where seed is "
                             "None, Session.add() draws one for the sequence and returns it, and decide() "
                             "draws one for its Answer, which has it.");
    bound.def("__init__", &init, nb::sig(kept(signature())));
    bound.def("__repr__", &representation);
    bound.def_prop_rw("seed", &get_seed, &set_seed, nb::for_getter(nb::sig("def seed(self) -> int | None")),
                      nb::for_setter(nb::arg("seed").none()),
                      kept(std::string(fields::seed.meaning) + "; allowed: " + fields::seed.range +
                           ", or None: Session.add() and decide() draw a random one for each sequence"));
#define CROUPIER_BIND(field, ...)                                                                           \
    if (is_plain(#field))                                                                                   \
        bound.def_prop_rw(                                                                                  \
            #field, [](const Params& params) { return get_field(params.fields.field, fields::field); },     \
            [](Params& params, nb::handle value) { set_field(params.fields.field, fields::field, value); }, \
            nb::for_getter(                                                                                 \
                nb::sig(kept(std::string("def ") + #field + "(self) -> " + type_of(fields::field)))),       \
            kept(std::string(fields::field.meaning) + "; allowed: " + fields::field.range));
    CROUPIER_SAMPLING_FIELDS(CROUPIER_BIND)
#undef CROUPIER_BIND
    for (const Flag& flag : kFlags) {
        bound.def_prop_rw(
            flag.name, [&flag](const Params& params) { return has_flag(params.fields, flag); },
            [&flag](Params& params, nb::handle value) { set_flag(params.fields, flag, value); },
            flag.meaning);
    }
    bound.def_prop_rw(
        "order", [](const Params& params) { return get_order(params.fields); },
        [](Params& params, nb::handle value) { set_order(params.fields, value); },
        nb::for_getter(nb::sig("def order(self) -> list[str]")),
        "the order of the steps that may have one of their own; empty: the default order");

    nb::list all;
    for (const std::string& name : names()) all.append(name);
    module.attr("PARAMETER_NAMES") = nb::tuple(all);
}

}  // namespace croupier::python
