#include "tools/plan/hot_set.h"

#include <array>

#include "measurement/row_order.h"
#include "tools/hotset/size.h"

namespace croupier::tools {
namespace {

constexpr std::uint32_t kRounds = 40;

double race_us(const HotSetQuestion& question) {
    const auto rows = measurement::BenchRows::from_file(question.rows, question.vocab)
                          .in_order(measurement::read_order(question.hot, question.vocab));
    proto::SamplingParams params;
    params.temperature = question.temperature;
    params.rng = proto::Rng::race;
    params.flags = proto::kNoLogprob;
    constexpr std::array<std::uint32_t, 1> kNoHotSet = {0};
    command_line::Progress progress("rounds", 1);
    return measurement::measure_draws(rows, params, kNoHotSet, kRounds, progress).front().mean_us();
}

}  // namespace

HotSetAnswer ask_hot_set(const HotSetQuestion& question) {
    HotSetAnswer answer;
    if (question.rows.empty()) return answer;
    SizeOptions options;
    options.rows = question.rows;
    options.hot = question.hot;
    options.vocab = question.vocab;
    options.temperature = question.temperature;
    options.rounds = kRounds;
    const SizeResults sizes = measure_sizes(options);
    answer.measured = true;
    answer.size = sizes.grid[sizes.best.place].hot;
    answer.expected_us = sizes.expected.us(answer.size);
    answer.own_choice_us = sizes.own_choice.mean_us();
    answer.race_us = race_us(question);
    return answer;
}

}  // namespace croupier::tools
