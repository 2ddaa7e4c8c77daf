#include "client/admission.h"

#include <array>
#include <optional>
#include <string>

#include "client/abi_fields.h"
#include "proto/param_ranges.h"
#include "proto/stop_words.h"

namespace croupier::client {
namespace {

struct IdList {
    const char* name;
    const std::int32_t* ids;
    std::size_t count;
};

std::string id_fault(const std::string& name, std::int32_t id, std::uint32_t vocab) {
    return name + " is " + std::to_string(id) + "; allowed: 0 to " + std::to_string(vocab - 1);
}

// A wrong count would be read from behind the list.
std::optional<std::string> count_fault(const IdList& list) {
    if (list.count > 0 && list.ids == nullptr) {
        return std::string(list.name) + " is null, but its count is " + std::to_string(list.count);
    }
    if (list.count <= proto::kMaxLength) return std::nullopt;
    return "the count of " + std::string(list.name) + " is " + std::to_string(list.count) +
           "; allowed: up to " + std::to_string(proto::kMaxLength);
}

std::optional<std::string> ids_fault(const IdList& list, std::uint32_t vocab) {
    if (auto fault = count_fault(list)) return fault;
    for (std::size_t i = 0; i < list.count; ++i) {
        if (proto::token_in_range(list.ids[i], vocab)) continue;
        return id_fault(std::string(list.name) + "[" + std::to_string(i) + "]", list.ids[i], vocab);
    }
    return std::nullopt;
}

// Several lists in one array: the length of each list, then its ids.
std::optional<std::string> lists_fault(const IdList& lists, std::uint32_t vocab) {
    if (auto fault = count_fault(lists)) return fault;
    for (std::size_t at = 0; at < lists.count;) {
        const std::string name = std::string(lists.name) + "[" + std::to_string(at) + "]";
        const std::int32_t length = lists.ids[at];
        const std::size_t after = lists.count - ++at;
        if (length < 1 || static_cast<std::size_t>(length) > after) {
            return name + " is " + std::to_string(length) + ", the length of a list, and " +
                   std::to_string(after) + " words follow; allowed: at least 1, and no more than follow";
        }
        for (const std::size_t end = at + static_cast<std::size_t>(length); at < end; ++at) {
            if (proto::token_in_range(lists.ids[at], vocab)) continue;
            return id_fault(std::string(lists.name) + "[" + std::to_string(at) + "]", lists.ids[at], vocab);
        }
    }
    return std::nullopt;
}

std::optional<std::string> copy_bias(const croupier_sequence& from, std::uint32_t vocab,
                                     std::vector<proto::TokenBias>& to) {
    to.reserve(from.bias_count);
    for (std::size_t i = 0; i < from.bias_count; ++i) {
        const auto [token, bias] = from.bias[i];
        const std::string name = "bias[" + std::to_string(i) + "]";
        if (!proto::token_in_range(token, vocab)) return id_fault(name + ".token", token, vocab);
        if (!proto::bias_in_range(bias)) {
            return proto::describe({(name + ".bias").c_str(), double{bias}, proto::kBiasRange});
        }
        to.push_back({token, bias});
    }
    return std::nullopt;
}

// What the strings are, the session's tokenizer checks (client/session_texts.h).
std::optional<std::string> copy_stops(const croupier_sequence& from, const proto::Geometry& geometry,
                                      std::vector<std::int32_t>& words) {
    const bool has_tokenizer = geometry.token_table_bytes != 0;
    if (from.stop_string_count > 0 && !has_tokenizer)
        return "stop_strings need a session with a tokenizer: open it with the option tokenizer";
    if ((from.params->flags & CROUPIER_STOP_AT_JSON) != 0 && !has_tokenizer)
        return "stop_at_json needs a session with a tokenizer: open it with the option tokenizer";
    for (std::size_t i = 0; i < from.stop_string_count; ++i)
        proto::append_stop_words({from.stop_strings[i].bytes, from.stop_strings[i].count}, words);
    return std::nullopt;
}

std::optional<std::string> ids_fault(const croupier_sequence& from, std::uint32_t vocab) {
    const std::array plain = {IdList{"prompt", from.prompt, from.prompt_count},
                              IdList{"output", from.output, from.output_count},
                              IdList{"stop_ids", from.stop_ids, from.stop_count},
                              IdList{"allowed_ids", from.allowed_ids, from.allowed_count}};
    for (const IdList& list : plain) {
        if (auto fault = ids_fault(list, vocab)) return fault;
    }
    const std::array nested = {IdList{"bad_words", from.bad_words, from.bad_words_count},
                               IdList{"dry_breakers", from.dry_breakers, from.dry_breakers_count}};
    for (const IdList& lists : nested) {
        if (auto fault = lists_fault(lists, vocab)) return fault;
    }
    return std::nullopt;
}

std::optional<std::string> params_fault(const proto::SamplingParams& params,
                                        const proto::Geometry& geometry) {
    const std::uint32_t vocab = geometry.vocab;
    if (const auto fault = proto::param_fault(params)) return proto::describe(*fault);
    if (params.rng == proto::Rng::shvs && geometry.is_lean())
        return "rng is shvs, which a session of the transport lean does not have: open it with the transport "
               "rows";
    const bool no_eos = params.eos_token_id == -1;
    if (no_eos || proto::token_in_range(params.eos_token_id, vocab)) return std::nullopt;
    return id_fault("eos_token_id", params.eos_token_id, vocab) + ", or -1 for none";
}

}  // namespace

shm::Result<Admitted> check_sequence(const croupier_sequence& from, const proto::Geometry& geometry) {
    const std::uint32_t vocab = geometry.vocab;
    const auto refuse = [&](const std::string& fault) {
        return shm::fail(shm::Errc::bad_argument, "sequence " + std::to_string(from.uid) + ": " + fault);
    };
    Admitted admitted;
    shm::NewSequence& sequence = admitted.sequence;
    sequence.uid = from.uid;
    sequence.params = params_from_abi(*from.params);
    if (auto fault = params_fault(sequence.params, geometry)) return refuse(*fault);
    if (auto fault = ids_fault(from, vocab)) return refuse(*fault);
    if (auto fault = copy_bias(from, vocab, admitted.bias)) return refuse(*fault);
    if (auto fault = copy_stops(from, geometry, admitted.stop_words)) return refuse(*fault);
    sequence.prompt = {from.prompt, from.prompt_count};
    sequence.output = {from.output, from.output_count};
    sequence.stop_ids = {from.stop_ids, from.stop_count};
    sequence.allowed_ids = {from.allowed_ids, from.allowed_count};
    sequence.bad_words = {from.bad_words, from.bad_words_count};
    sequence.dry_breakers = {from.dry_breakers, from.dry_breakers_count};
    sequence.bias = admitted.bias;  // moving the vectors leaves their elements in place
    sequence.stop_words = admitted.stop_words;
    return admitted;
}

}  // namespace croupier::client
