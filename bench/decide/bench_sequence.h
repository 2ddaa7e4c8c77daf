// A sequence whose next token is decided repeatedly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/decide/bench_cases.h"
#include "gpu_writer/lean_wants.h"
#include "gpu_writer/named_ids.h"
#include "measurement/laid_rows.h"
#include "sampler/decide.h"

namespace croupier::bench {

// A text as a model would have written it: a token from each row in turn, at temperature 1.
std::vector<std::int32_t> written_text(const measurement::BenchRows& rows, std::uint32_t tokens);

// Parses "300", or "16k" for 16 x 1024: the number of tokens of prompt and output. Throws std::runtime_error.
std::uint32_t history_of(const std::string& text);

// A case's request without its sequence and row.
struct CaseRequest {
    CaseRequest() = default;
    CaseRequest(const BenchCase& from, std::uint32_t vocab, double temperature);

    std::string name;
    proto::SamplingParams params;
    std::vector<std::uint32_t> mask;
    std::vector<proto::TokenBias> bias;
    std::vector<std::int32_t> allowed;
    std::vector<std::int32_t> stop_ids;
    std::vector<std::int32_t> bad_words;     // each list's length, then its ids
    std::vector<std::int32_t> dry_breakers;  // likewise
    bool prepared = false;
};
// That allows nothing. As in a step, mask rows are whole cache lines.
std::vector<std::uint32_t> empty_mask(std::uint32_t vocab);

class BenchSequence {
  public:
    BenchSequence(std::uint32_t vocab, std::uint32_t max_history);

    // Half of the history is the prompt. The state already includes all but the last token, so that each
    // decision adds one token, as in an engine. Both arguments must outlive this object.
    void begin(const CaseRequest& what, std::span<const std::int32_t> history);

    // The work of a sampler before the row arrives.
    void prepare(std::uint32_t draw);
    // What a lean writer sends for the decision, as gpu_writer::read_wants() has it.
    gpu_writer::LeanWant want(std::uint32_t draw);
    // The request in the first column of a step.
    gpu_writer::StepMasks masks() const { return {what_->mask.data(), what_->mask.size()}; }
    // The ids of the last want.
    gpu_writer::StepNames names() const { return names_.names(); }
    // `draw` is the number of the decision, which determines its randoms. The workspace holds the rest of the
    // answer.
    proto::Decision decide(const sampler::RowView& row, std::uint32_t draw, sampler::Workspace& workspace);
    // What decide() decides.
    sampler::Request request(std::uint32_t draw) const;
    // Removes the last token from the state.
    void rewind() { state_->truncate(history_.size() - 1); }

  private:
    std::span<const std::int32_t> prompt() const { return history_.first(history_.size() / 2); }
    std::span<const std::int32_t> output() const { return history_.subspan(history_.size() / 2); }

    std::uint32_t vocab_;
    std::uint32_t max_length_;
    std::unique_ptr<sampler::SequenceState> state_;
    const CaseRequest* what_ = nullptr;
    std::span<const std::int32_t> history_;
    proto::Feedback feedback_;
    proto::race::Key race_;
    std::vector<float> ln_first_arrivals_;
    std::vector<std::uint32_t> lists_;
    gpu_writer::NamedIds names_;
};

}  // namespace croupier::bench
