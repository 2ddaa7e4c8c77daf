// Steps of a session in turn plain and with windows, timed from the last rank's logits to the last decision.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "gpu_writer/rank_writer.h"
#include "testing/own_daemon.h"

namespace croupier::bench {

struct WindowsOptions {
    std::string croupierd;  // empty: in the folder of this program
    std::uint32_t samplers = 1;
    std::uint32_t vocab = 151936;
    std::uint32_t windows = 64;
    std::uint32_t drafts = 4;
    double accepted = 0.8;  // of the drafts, one after another
    std::uint32_t history = 1000;
    std::uint32_t steps = 200;  // of each kind
    bool lean = false;
    bool greedy = false;  // instead of penalties, top-k, top-p and min-p
};

// plain: a row each. right, wrong: all drafts are. mixed: as many as are accepted.
enum class StepKind : std::uint8_t { plain, right, wrong, mixed, count_ };

struct KindTimes {
    std::vector<std::uint64_t> ns;
    std::uint64_t decided = 0;  // rows, of all steps
    std::uint64_t rejected = 0;
};

class WindowSteps {
  public:
    explicit WindowSteps(const WindowsOptions& options);

    // Adds a step's time and rows.
    void step(StepKind kind, KindTimes& times);

  private:
    void lay_base_rows();
    void add_sequences();
    void plan_windows(StepKind kind);
    std::uint32_t right_drafts(StepKind kind);
    std::uint32_t base_of(std::uint64_t uid, std::uint32_t position) const;

    const WindowsOptions options_;
    testing::OwnDaemon daemon_;
    client::Session session_;
    gpu_writer::RankWriter writer_;
    std::vector<std::vector<std::uint16_t>> base_rows_;
    std::vector<std::int32_t> raised_;    // by base row: the token that is decided from it
    std::vector<std::uint32_t> outputs_;  // by sequence
    std::uint64_t first_uid_ = 1;
    std::uint64_t random_ = 1;
    std::vector<croupier_column> columns_;
    std::vector<const void*> rows_;
    std::vector<proto::RowInput> inputs_;
};

}  // namespace croupier::bench
