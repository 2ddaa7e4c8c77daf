// Beam search in C++: a thin, header-only cover over the C ABI of include/croupier/beams.h.
#pragma once

#include "croupier/beams.h"
#include "croupier/client.hpp"

namespace croupier::client {
inline namespace abi_1_0 {
static_assert(CROUPIER_ABI_VERSION == 0x10000, "the namespace has its major and minor number");

struct BeamsOptions : croupier_beams_options {
    BeamsOptions() : croupier_beams_options() { croupier_beams_options_init(this); }
};

struct Hypothesis {
    std::vector<std::int32_t> tokens;
    double score = 0.0;
    double logprob = 0.0;
    bool stopped = false;  // by a stop id
};

class Beams {
  public:
    explicit Beams(const croupier_beams_options& options) {
        croupier_error error{};
        croupier_beams* opened = nullptr;
        if (croupier_beams_open(&options, &opened, &error) != 0) throw Failure(error);
        beams_.reset(opened);
    }

    std::uint32_t candidates() const { return croupier_beams_candidates(beams_.get()); }

    // The beams that go on, the best first; none: the search is over.
    std::vector<croupier_beam> step(std::span<const croupier_beam_row> rows) {
        croupier_error error{};
        croupier_beam_next next;
        croupier_beam_next_init(&next);
        if (croupier_beam_step(beams_.get(), rows.data(), rows.size(), &next, &error) != 0)
            throw Failure(error);
        return {next.beams, next.beams + next.count};
    }

    // Carries the last step out in the session.
    void fork(Session& session, std::span<std::uint64_t> uids) const {
        croupier_error error{};
        if (croupier_beam_fork(session.plain(), beams_.get(), uids.data(), uids.size(), &error) != 0)
            throw Failure(error);
    }

    // The best first.
    std::vector<Hypothesis> hypotheses() {
        std::vector<Hypothesis> all;
        croupier_error error{};
        croupier_hypothesis each;
        croupier_hypothesis_init(&each);
        while (const int found = croupier_beams_hypothesis(beams_.get(), all.size(), &each, &error)) {
            if (found < 0) throw Failure(error);
            all.push_back(
                {{each.tokens, each.tokens + each.count}, each.score, each.logprob, each.stopped == 1});
        }
        return all;
    }

  private:
    struct Close {
        void operator()(croupier_beams* beams) const { croupier_beams_close(beams); }
    };
    std::unique_ptr<croupier_beams, Close> beams_;
};

}  // namespace abi_1_0
}  // namespace croupier::client
