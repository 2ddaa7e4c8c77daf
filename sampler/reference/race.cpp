#include "sampler/reference/race.h"

#include "proto/race.h"
#include "sampler/race_key.h"

namespace croupier::sampler::reference {

std::size_t race_winner(const Request& request, const Left& left) {
    const proto::race::Key key = race_key(*request.params, request);
    const auto temperature = static_cast<float>(left.temperature);
    std::size_t winner = 0;
    float highest = 0.0F;
    for (std::size_t i = 0; i < left.tokens.size(); ++i) {
        const Token& token = left.tokens[i];
        const float arrival = proto::race::arrival(key, static_cast<std::uint32_t>(token.id));
        const float score =
            proto::race::score(proto::race::entered(token.value), temperature, proto::race::ln(arrival));
        const bool tied = score == highest && token.id < left.tokens[winner].id;
        if (i > 0 && score <= highest && !tied) continue;
        winner = i;
        highest = score;
    }
    return winner;
}

}  // namespace croupier::sampler::reference
