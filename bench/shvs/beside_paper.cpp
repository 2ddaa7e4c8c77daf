#include "bench/shvs/beside_paper.h"

#include <numeric>
#include <stdexcept>

#include "bench/decide/bench_cases.h"
#include "bench/decide/bench_sequence.h"
#include "bench/shvs/paper_request.h"
#include "measurement/read_once.h"
#include "measurement/uninterrupted.h"
#include "proto/philox.h"
#include "sampler/decide.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kRoom = 8;

struct OurWay {
    const char* name;
    proto::Rng rng;
    bool summarised;
};
constexpr OurWay kOurWays[] = {{"shvs", proto::Rng::shvs, false},
                               {"race", proto::Rng::race, false},
                               {"shvs, summaries", proto::Rng::shvs, true},
                               {"race, summaries", proto::Rng::race, true}};

class BesidePaper {
  public:
    BesidePaper(const BesidePaperSize& size, const measurement::BenchRows& rows)
        : size_(size),
          rows_(rows),
          hot_blocks_(rows.hot_blocks(size.hot)),
          history_(written_text(rows, size.history)),
          workspace_(rows.vocab()),
          state_(rows.vocab(), size.history + kRoom) {}

    PaperBeside measure(const BenchCase& which, command_line::Progress& progress) {
        PaperRequest paper(rows_, size_.paper_hot, which.params, history_);
        std::vector<PaperRequest::Weight> tails;
        for (std::uint32_t row = 0; row < rows_.count(); ++row) tails.push_back(paper.tail_of(row));
        state_.begin(which.params, {});
        state_.follow(prompt(), output());
        PaperBeside measured{which.name, which.what, 0.0, {{"paper", {}}}};
        for (const OurWay& way : kOurWays) measured.ways.push_back({way.name, {}});
        std::uint64_t accepted = 0;
        for (std::uint32_t round = 0; round < size_.rounds; ++round) {
            measured.ways.front().rounds_us.push_back(time_rows([&](std::uint32_t row) {
                accepted += paper.draw(row, tails[row], round * rows_.count() + row).accepted ? 1U : 0U;
            }));
            for (std::size_t i = 0; i < std::size(kOurWays); ++i) {
                measured.ways[1 + i].rounds_us.push_back(time_rows([&](std::uint32_t row) {
                    decide(which.params, row, round * rows_.count() + row, kOurWays[i]);
                }));
            }
            progress.advance(1);
        }
        measured.accepted =
            static_cast<double>(accepted) / (static_cast<double>(size_.rounds) * rows_.count());
        return measured;
    }

  private:
    std::span<const std::int32_t> prompt() const { return std::span(history_).first(history_.size() / 2); }
    std::span<const std::int32_t> output() const { return std::span(history_).subspan(history_.size() / 2); }

    // Times of all rows without interrupted ones.
    template <typename Work>
    double time_rows(Work work) {
        // Brings the caches into the same state before each variant.
        for (std::uint32_t row = 0; row < rows_.count(); ++row)
            sink_ = sink_ + measurement::read_once(rows_.row(row), rows_.row_bytes());
        std::vector<double> rows_us;
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            const auto us = measurement::uninterrupted_us([&] { work(row); });
            if (us) rows_us.push_back(*us);
        }
        return std::accumulate(rows_us.begin(), rows_us.end(), 0.0) / static_cast<double>(rows_us.size());
    }

    void decide(proto::SamplingParams params, std::uint32_t row, std::uint32_t draw, const OurWay& way) {
        params.rng = way.rng;
        sampler::Request request;
        request.params = &params;
        request.max_length = size_.history + kRoom;
        request.prompt = prompt();
        request.output = output();
        request.position_shift = draw;
        request.random = proto::random_at(params.seed, sampler::random_position(request), params.child, 0);
        if (way.rng == proto::Rng::shvs) request.hot_blocks = hot_blocks_;
        sink_ =
            sink_ + static_cast<std::uint64_t>(
                        sampler::decide(rows_.view(row, way.summarised), request, state_, workspace_).token);
    }

    const BesidePaperSize size_;
    const measurement::BenchRows& rows_;
    const std::span<const std::uint32_t> hot_blocks_;
    const std::vector<std::int32_t> history_;
    sampler::Workspace workspace_;
    sampler::SequenceState state_;
    volatile std::uint64_t sink_ = 0;
};

}  // namespace

std::vector<PaperBeside> run_beside_paper(const BesidePaperSize& size,
                                          const measurement::BenchRows& hot_first,
                                          command_line::Progress& progress) {
    const std::vector<BenchCase> requests =
        chosen_cases({"temperature", "temperature+penalties", "topk", "topp", "minp", "full"});
    progress.begin("comparing with the paper's algorithm", requests.size() * size.rounds);
    BesidePaper beside(size, hot_first);
    std::vector<PaperBeside> all;
    all.reserve(requests.size());
    for (const BenchCase& each : requests) all.push_back(beside.measure(each, progress));
    return all;
}

}  // namespace croupier::bench
