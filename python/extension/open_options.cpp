#include "python/extension/open_options.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

#include "python/extension/array.h"
#include "python/extension/fan_out.h"
#include "python/extension/keywords.h"
#include "python/extension/numbers.h"

namespace croupier::python {
namespace {

// The fields that are numbers or texts and nothing else; the rest has a function each.
#define CROUPIER_OPEN_NUMBERS(FIELD) \
    FIELD(vocab)                     \
    FIELD(tp)                        \
    FIELD(max_batch)                 \
    FIELD(max_windows)               \
    FIELD(steps_in_flight)           \
    FIELD(tile)                      \
    FIELD(max_sequences)             \
    FIELD(max_length)                \
    FIELD(max_bias)                  \
    FIELD(max_stop_ids)              \
    FIELD(max_list_tokens)           \
    FIELD(mask_rows)                 \
    FIELD(summaries)                 \
    FIELD(takeover)                  \
    FIELD(resume)                    \
    FIELD(decisions_over_zmq)        \
    FIELD(randoms_supplied)          \
    FIELD(padded_vocab)              \
    FIELD(max_logprobs)              \
    FIELD(max_support)               \
    FIELD(without_texts)
#define CROUPIER_OPEN_TEXTS(FIELD) \
    FIELD(endpoint)                \
    FIELD(name)                    \
    FIELD(server_key)              \
    FIELD(client_public_key)       \
    FIELD(client_secret_key)       \
    FIELD(hotness_file)            \
    FIELD(tokenizer)

constexpr std::size_t bytes_of_fields() {
    using Options = croupier_open_options;
    std::size_t bytes = sizeof(Options::size) + sizeof(Options::version) + sizeof(Options::dtype) +
                        sizeof(Options::transport) + sizeof(Options::timeout_ms);
    bytes += sizeof(Options::order) + sizeof(Options::shard_ids);
    bytes += sizeof(Options::relay);  // NOLINT(bugprone-sizeof-expression): the pointer's own size
#define CROUPIER_ADD(field) bytes += sizeof(Options::field);
    CROUPIER_OPEN_NUMBERS(CROUPIER_ADD)
    CROUPIER_OPEN_TEXTS(CROUPIER_ADD)
#undef CROUPIER_ADD
    return bytes;
}
static_assert(bytes_of_fields() == sizeof(croupier_open_options),
              "croupier_open_options has a field that the lists above lack");

constexpr std::array kDtypes = {"bf16", "fp16", "fp32"};
constexpr std::array kTransports = {"rows", "lean"};

const std::vector<std::string>& names() {
    static const std::vector<std::string> all = {
#define CROUPIER_NAME(field) #field,
        CROUPIER_OPEN_NUMBERS(CROUPIER_NAME) CROUPIER_OPEN_TEXTS(CROUPIER_NAME)
#undef CROUPIER_NAME
            "dtype",
        "transport",
        "order",
        "shard_ids",
        "timeout",
        "relay"};
    return all;
}

// The place of a name in a list, or the number itself.
template <std::size_t kCount>
std::optional<std::uint32_t> named(const std::array<const char*, kCount>& names, nb::handle value) {
    if (nb::isinstance<nb::str>(value)) {
        const auto found = std::find(names.begin(), names.end(), nb::cast<std::string>(value));
        if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
    } else if (const auto number = number_of<std::uint32_t>(value); number && *number < kCount) {
        return *number;
    }
    return std::nullopt;
}

}  // namespace

const char* dtype_name(std::uint32_t dtype) {
    return dtype < kDtypes.size() ? kDtypes[dtype] : "unknown";
}

std::uint32_t dtype_of(nb::handle value) {
    if (const auto dtype = named(kDtypes, value)) return *dtype;
    throw bad_argument("dtype is " + shown(value) + "; allowed: bf16, fp16 or fp32 (0 to 2)");
}

const char* transport_name(std::uint32_t transport) {
    return transport < kTransports.size() ? kTransports[transport] : "unknown";
}

OpenOptions::OpenOptions(const nb::kwargs& given) : plain_() {
    croupier_open_options_init(&plain_);
    for (const auto& [name, value] : given) set(nb::cast<std::string>(name), value);
    require_dtype();
    require_all_blocks();
    require_all_ranks();
}

void OpenOptions::set(const std::string& name, nb::handle value) {
    if (set_number(name, value) || set_text(name, value)) return;
    if (name == "dtype") {
        plain_.dtype = dtype_of(value);
    } else if (name == "transport") {
        set_transport(value);
    } else if (name == "order") {
        set_order(value);
    } else if (name == "shard_ids") {
        set_shard_ids(value);
    } else if (name == "timeout") {
        set_timeout(value);
    } else if (name == "relay") {
        set_relay(value);
    } else {
        throw_unknown("Session", name, names());
    }
}

bool OpenOptions::set_number(const std::string& name, nb::handle value) {
    const auto set = [&](std::uint32_t& to) {
        const auto number = number_of<std::uint32_t>(value);
        if (!number) throw bad_argument(name + " is " + shown(value) + "; allowed: 0 to 2^32 - 1");
        to = *number;
        return true;
    };
#define CROUPIER_SET(field) \
    if (name == #field) return set(plain_.field);
    CROUPIER_OPEN_NUMBERS(CROUPIER_SET)
#undef CROUPIER_SET
    return false;
}

bool OpenOptions::set_text(const std::string& name, nb::handle value) {
    const auto set = [&](const char*& to) {
        if (value.is_none()) return true;
        nb::object text = nb::borrow(value);
        if (nb::hasattr(value, "__fspath__")) text = value.attr("__fspath__")();
        if (!nb::isinstance<nb::str>(text))
            throw bad_argument(name + " is " + shown(value) + "; allowed: a text");
        const std::string& kept = texts_.emplace_back(nb::cast<std::string>(text));
        if (kept.find('\0') != std::string::npos)
            throw bad_argument(name + " is " + shown(value) + "; allowed: a text without a null character");
        to = kept.c_str();
        return true;
    };
#define CROUPIER_SET(field) \
    if (name == #field) return set(plain_.field);
    CROUPIER_OPEN_TEXTS(CROUPIER_SET)
#undef CROUPIER_SET
    return false;
}

void OpenOptions::set_transport(nb::handle value) {
    const auto transport = named(kTransports, value);
    if (!transport) throw bad_argument("transport is " + shown(value) + "; allowed: rows or lean (0 or 1)");
    plain_.transport = *transport;
}

void OpenOptions::set_order(nb::handle value) {
    if (value.is_none()) return;
    const Array array(value, "order");
    array.require_host();
    array.require_dimensions(1, "all (vocab + 63) / 64 blocks of 64 ids, hottest first");
    array.require_contiguous();
    if (array.type() != kUint32 && array.type() != kInt32) {
        throw bad_argument("the elements of order are " + name_of(array.type()) +
                           "; allowed: uint32 or int32");
    }
    const auto* blocks = static_cast<const std::uint32_t*>(array.data());
    order_.assign(blocks, blocks + array.length(0));
    plain_.order = order_.data();
}

void OpenOptions::set_shard_ids(nb::handle value) {
    if (value.is_none()) return;
    for (const nb::handle each : value) {
        const auto ids = number_of<std::uint32_t>(each);
        if (!ids) throw bad_argument("shard_ids has " + shown(each) + "; allowed: how many ids a rank holds");
        shard_ids_.push_back(*ids);
    }
    plain_.shard_ids = shard_ids_.data();
}

void OpenOptions::set_timeout(nb::handle value) {
    if (value.is_none()) return;
    const auto seconds = number_of<double>(value);
    if (!seconds || !(*seconds > 0 && *seconds <= 4e6)) {
        throw bad_argument("timeout is " + shown(value) +
                           "; allowed: seconds above 0, up to 4000000, or None for the default of 5");
    }
    plain_.timeout_ms = static_cast<std::uint32_t>(std::ceil(*seconds * 1000));
}

void OpenOptions::set_relay(nb::handle value) {
    if (value.is_none()) return;
    if (!nb::isinstance<FanOut>(value)) {
        throw bad_argument("relay is " + shown(value) + "; allowed: a croupier.FanOut, or None");
    }
    relay_ = nb::borrow(value);
    plain_.relay = nb::cast<FanOut&>(value).channel();
}

void OpenOptions::require_dtype() const {
    if (plain_.dtype == CROUPIER_DTYPE_UNSET)
        throw bad_argument("dtype is missing: 'bf16', 'fp16' or 'fp32' would be right, as the rows are");
}

// The library reads as many as the vocabulary has.
void OpenOptions::require_all_blocks() const {
    const std::size_t blocks = (std::size_t{plain_.vocab} + 63) / 64;
    if (plain_.order == nullptr || order_.size() == blocks) return;
    throw bad_argument("order has " + std::to_string(order_.size()) + " blocks; allowed: all " +
                       std::to_string(blocks) + " of a vocabulary of " + std::to_string(plain_.vocab));
}

// Likewise, as many as there are ranks.
void OpenOptions::require_all_ranks() const {
    if (plain_.shard_ids == nullptr || shard_ids_.size() == plain_.tp) return;
    throw bad_argument("shard_ids has " + std::to_string(shard_ids_.size()) +
                       " numbers; allowed: one for each of " + std::to_string(plain_.tp) + " ranks (tp)");
}

std::string OpenOptions::signature() {
    croupier_open_options defaults;
    croupier_open_options_init(&defaults);
    std::string all = "def __init__(self, *, ";
#define CROUPIER_ARGUMENT(field)                                                         \
    if (&croupier_open_options::field == &croupier_open_options::vocab) {                \
        all += "vocab: int";                                                             \
    } else {                                                                             \
        all += std::string(", ") + #field + ": int = " + std::to_string(defaults.field); \
    }
    CROUPIER_OPEN_NUMBERS(CROUPIER_ARGUMENT)
#undef CROUPIER_ARGUMENT
// Without the value: the stub's maker would take "control.sock" in it for a module.
#define CROUPIER_ARGUMENT(field) \
    all += std::string(", ") + #field + (defaults.field == nullptr ? ": str | None = None" : ": str = ...");
    CROUPIER_OPEN_TEXTS(CROUPIER_ARGUMENT)
#undef CROUPIER_ARGUMENT
    return all +
           ", dtype: str | int, order: object | None = None, shard_ids: Sequence[int] | None = "
           "None, timeout: float | None = None, transport: str | int = 'rows', "
           "relay: FanOut | None = None) -> None";
}

}  // namespace croupier::python
