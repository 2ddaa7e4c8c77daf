#include <algorithm>
#include <map>

#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

using Ids = std::span<const std::int32_t>;

// Erases the tokens that are in the list, or those that are not.
std::size_t erase_by_id(Left& left, std::vector<std::int32_t> ids, bool listed) {
    std::sort(ids.begin(), ids.end());
    return std::erase_if(left.tokens, [&ids, listed](const Token& token) {
        return std::binary_search(ids.begin(), ids.end(), token.id) == listed;
    });
}

bool output_ends_with(Ids output, Ids words) {
    return words.size() <= output.size() &&
           std::equal(words.begin(), words.end(), output.end() - static_cast<std::ptrdiff_t>(words.size()));
}

}  // namespace

std::string apply_mask(const Request& request, Left& left) {
    const auto forbidden = [&request](const Token& token) {
        const auto id = static_cast<std::uint32_t>(token.id);
        return (request.mask[id / 32] >> (id % 32) & 1U) == 0;
    };
    return sentence("forbade ", std::erase_if(left.tokens, forbidden), " tokens");
}

std::string keep_allowed_ids(const Request& request, Left& left) {
    const std::vector<std::int32_t> allowed(request.allowed_ids.begin(), request.allowed_ids.end());
    return sentence("forbade ", erase_by_id(left, allowed, false), " tokens");
}

std::string ban_bad_words(const Request& request, Left& left) {
    std::vector<std::int32_t> banned;
    TokenLists rest = request.bad_words;
    while (!rest.empty()) {
        const auto length = static_cast<std::size_t>(rest[0]);
        const Ids word = rest.subspan(1, length);
        if (output_ends_with(request.output, word.first(length - 1))) banned.push_back(word.back());
        rest = rest.subspan(1 + length);
    }
    return sentence("banned ", erase_by_id(left, banned, true), " tokens");
}

std::string ban_stops_before_min_tokens(const Request& request, Left& left) {
    std::vector<std::int32_t> banned(request.stop_ids.begin(), request.stop_ids.end());
    banned.push_back(request.params->eos_token_id);
    return sentence("banned ", erase_by_id(left, banned, true), " tokens");
}

std::string add_logit_bias(const Request& request, Left& left) {
    std::map<std::int32_t, Token*> biased;
    for (const proto::TokenBias& bias : request.bias) biased[bias.token] = nullptr;
    for (Token& token : left.tokens) {
        const auto found = biased.find(token.id);
        if (found != biased.end()) found->second = &token;
    }
    std::size_t changed = 0;
    for (const proto::TokenBias& bias : request.bias) {
        Token* const token = biased[bias.token];
        if (token == nullptr) continue;
        token->value += static_cast<double>(bias.bias);
        ++changed;
    }
    return sentence("changed ", changed, " logits");
}

}  // namespace croupier::sampler::reference
