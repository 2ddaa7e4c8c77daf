#include "sampler/reference/account.h"

#include <unordered_set>

namespace croupier::sampler::reference {

void Account::note(const char* name, const std::vector<Token>& before, const Left& after, std::string did) {
    std::unordered_set<std::int32_t> kept;
    for (const Token& token : after.tokens) kept.insert(token.id);
    // What the step kept, at the temperature that it left behind: the temperature's own step keeps all.
    const Weights each = weights_of({before, after.temperature});
    Mass mass = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        if (kept.count(before[i].id) > 0) mass += each.masses[i];
    }
    steps_.push_back({name, static_cast<std::uint32_t>(after.tokens.size()),
                      static_cast<double>(mass) / static_cast<double>(each.total), std::move(did)});
}

}  // namespace croupier::sampler::reference
