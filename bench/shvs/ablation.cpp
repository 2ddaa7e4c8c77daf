#include "bench/shvs/ablation.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <span>

#include "bench/decide/bench_cases.h"
#include "bench/shvs/full_port.h"
#include "measurement/percentiles.h"
#include "measurement/read_once.h"
#include "measurement/uninterrupted.h"
#include "proto/philox.h"
#include "sampler/decide.h"

namespace croupier::bench {
namespace {

// The ports are a hundred times slower, so they decide only a few rows.
constexpr std::uint32_t kPortRows = 8;
constexpr std::uint32_t kRoom = 8;

struct Way {
    bool summarised;
    bool hot;
};

class Ablation {
  public:
    Ablation(const AblationSize& size, const measurement::BenchRows& by_id,
             const measurement::BenchRows& hot_first)
        : size_(size),
          by_id_(by_id),
          rows_(hot_first),
          hot_blocks_(hot_first.hot_blocks(size.hot)),
          workspace_(hot_first.vocab()),
          port_(hot_first.vocab(), false),
          keeper_(hot_first.vocab(), true) {
        for (const BenchCase& each : bench_cases()) {
            if (each.name == "temperature") temperature_ = each.params;
            if (each.name == "full") full_ = each.params;
        }
        sampler::SequenceState fresh(rows_.vocab(), kRoom);
        fresh.begin(temperature_, {});
        for (std::uint32_t i = 0; i < size.history; ++i) {
            history_.push_back(decide(temperature_, i % rows_.count(), i, {false, false}, {}, fresh));
        }
        state_ = std::make_unique<sampler::SequenceState>(rows_.vocab(), size.history + kRoom);
    }

    std::vector<Variant> run(command_line::Progress& progress) {
        std::vector<Variant> all = {
            {"full_port", "an engine's sampler on the CPU, over the whole vocabulary", {}, {}},
            {"sequence_parallel", "the same, with counts kept per sequence", {}, {}},
            {"offloaded", "Croupier without summaries", {}, {}},
            {"shvs_unsummarised", fmt::format("the same, rng shvs with a hot set of {}", size_.hot), {}, {}},
            {"summaries", "Croupier with summaries", {}, {}},
            {"shvs", fmt::format("the same, rng shvs with a hot set of {}", size_.hot), {}, {}}};
        constexpr Way kWays[] = {{false, false}, {false, true}, {true, false}, {true, true}};
        for (std::uint32_t round = 0; round < size_.rounds; ++round) {
            for (std::uint32_t turn = 0; turn < std::size(kWays); ++turn) {
                const std::uint32_t way = (round + turn) % std::size(kWays);
                all[2 + way].temperature_us.push_back(time_ours(temperature_, round, kWays[way]));
                all[2 + way].full_us.push_back(time_ours(full_, round, kWays[way]));
            }
            progress.advance(1);
        }
        for (std::uint32_t round = 0; round < size_.rounds; ++round) {
            time_port(port_, round, all[0]);
            time_port(keeper_, round, all[1]);
            progress.advance(1);
        }
        return all;
    }

  private:
    using Clock = std::chrono::steady_clock;

    std::span<const std::int32_t> prompt() const { return {history_.data(), history_.size() / 2}; }
    std::span<const std::int32_t> output() const { return std::span(history_).subspan(history_.size() / 2); }

    template <typename Work>
    static double microseconds_of(Work work) {
        const auto begin = Clock::now();
        work();
        return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }

    void time_port(FullPort& port, std::uint32_t round, Variant& variant) {
        double temperature_us = 0.0;
        double full_us = 0.0;
        std::uint32_t count = 0;
        for (std::uint32_t row = round % kPortRows % by_id_.count(); row < by_id_.count(); row += kPortRows) {
            port.begin(prompt(), output());
            const auto decide_with = [&](const proto::SamplingParams& params) {
                return microseconds_of([&] { port.decide(by_id_.row(row), params, prompt(), output()); });
            };
            temperature_us += decide_with(temperature_);
            full_us += decide_with(full_);
            ++count;
        }
        variant.temperature_us.push_back(temperature_us / count);
        variant.full_us.push_back(full_us / count);
    }

    double time_ours(const proto::SamplingParams& params, std::uint32_t round, Way way) {
        state_->begin(params, {});
        state_->follow(prompt(), output());
        // Brings the caches into the same state before each variant.
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            sink_ = sink_ + measurement::read_once(rows_.row(row), rows_.row_bytes());
        }
        std::vector<double> rows_us;
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            const auto us = measurement::uninterrupted_us(
                [&] { decide(params, row, round * rows_.count() + row, way, history_, *state_); });
            if (us) rows_us.push_back(*us);
        }
        return std::accumulate(rows_us.begin(), rows_us.end(), 0.0) / static_cast<double>(rows_us.size());
    }

    std::int32_t decide(proto::SamplingParams params, std::uint32_t row, std::uint32_t draw, Way way,
                        std::span<const std::int32_t> history, sampler::SequenceState& state) {
        // Only draws by proposals use a hot set.
        params.rng = way.hot ? proto::Rng::shvs : proto::Rng::race;
        sampler::Request request;
        request.params = &params;
        request.max_length = size_.history + kRoom;
        request.prompt = history.first(history.size() / 2);
        request.output = history.subspan(history.size() / 2);
        request.position_shift = draw;
        request.random = proto::random_at(params.seed, sampler::random_position(request), params.child, 0);
        if (way.hot) request.hot_blocks = hot_blocks_;
        return sampler::decide(rows_.view(row, way.summarised), request, state, workspace_).token;
    }

    const AblationSize size_;
    const measurement::BenchRows& by_id_;
    const measurement::BenchRows& rows_;
    const std::span<const std::uint32_t> hot_blocks_;
    sampler::Workspace workspace_;
    FullPort port_;
    FullPort keeper_;
    proto::SamplingParams temperature_;
    proto::SamplingParams full_;
    std::vector<std::int32_t> history_;
    std::unique_ptr<sampler::SequenceState> state_;
    volatile std::uint64_t sink_ = 0;
};

}  // namespace

std::vector<Variant> run_ablation(const AblationSize& size, const measurement::BenchRows& by_id,
                                  const measurement::BenchRows& hot_first, command_line::Progress& progress) {
    return Ablation(size, by_id, hot_first).run(progress);
}

double paired_ratio(const std::vector<double>& one, const std::vector<double>& other) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < one.size(); ++i) ratios.push_back(one[i] / other[i]);
    return measurement::middle_mean(std::move(ratios));
}

}  // namespace croupier::bench
