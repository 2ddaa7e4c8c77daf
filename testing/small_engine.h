// An engine in one process, small enough for a test: client, writers, and the reference for every decision.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "gpu_writer/rank_writer.h"
#include "proto/geometry.h"
#include "sampler/reference/decide.h"
#include "testing/text_reference.h"

namespace croupier::testing {

struct EngineShape {
    std::uint32_t vocab = 1000;
    std::uint32_t padded_vocab = 0;
    std::vector<std::uint32_t> shard_ids;  // of each rank; empty: equal shares
    std::uint32_t tp = 2;
    std::uint32_t batch = 8;
    std::uint32_t steps_in_flight = 2;
    std::uint32_t tile = 64;
    std::uint32_t max_length = 256;
    std::uint32_t max_sequences = 16;
    bool masked = false;  // every column carries a grammar mask
    std::uint8_t rng = CROUPIER_RNG_RACE;
    bool randoms_supplied = false;  // by rank 0's writer
    bool summaries = false;         // its writers give the tiles' maxima too
    bool lean = false;              // its transport
    bool halves = false;            // each rank publishes half of its tiles while the next one writes
    bool decisions_over_zmq = false;
    std::uint32_t max_logprobs = 0;
    std::uint32_t max_support = 0;
    bool takeover = false;
    bool resume = false;
    std::vector<std::uint32_t> order;  // of blocks
    Pieces pieces;                     // of its tokenizer; empty: it has none
    std::uint32_t hot_size = 0;        // that the daemon gives
    std::string server_key, client_public_key, client_secret_key;
};

using Streams = std::map<std::uint64_t, std::vector<std::int32_t>>;

class SmallEngine {
  public:
    SmallEngine(const std::string& endpoint, const std::string& name, const EngineShape& shape = {},
                std::uint32_t timeout_ms = 20000);

    client::Session& session() { return *session_; }
    std::string segment_path() const { return session_->segment_path(); }
    // Sequences 1 .. count with mixed controls, one a column.
    void admit(std::uint32_t count);
    void admit(const client::Sequence& sequence);
    std::uint64_t submit();
    // Every rank's slice of the oldest step that wants it.
    void write();
    // The same of one step, whichever others want theirs.
    void write(std::uint64_t step);
    // Of each rank that wants one of a step in flight; of none where all are there.
    void write_if_wanted();
    // Cuts its stream back; what is in flight of it is expected to be void.
    void truncate(std::uint64_t uid, std::uint32_t outputs);
    // Lengthens its stream by tokens that nobody decided.
    void append(std::uint64_t uid, const std::vector<std::int32_t>& tokens);
    // Another sequence, one column more, that goes on from its first outputs.
    void fork(std::uint64_t parent, std::uint64_t uid, std::uint32_t outputs, std::uint32_t child);
    // Its columns in the steps submitted so far bring no token.
    void expect_void(std::uint64_t uid) { void_below_[uid] = next_step_; }
    // Whatever the reference says of it, the sequence is answered with this error from now on.
    void expect_error(std::uint64_t uid, proto::DecisionError error) { errors_[uid] = error; }
    void expect_no_error(std::uint64_t uid) { errors_.erase(uid); }
    // What a sequence of a resumed session was added with, where that is not sequence().
    void know(const client::Sequence& sequence) { asked_[sequence.uid] = sequence; }
    // Out of the next steps.
    void finish(std::uint64_t uid) {
        session_->finish(uid);
        asked_.erase(uid);
    }
    // Waits for the step and checks every decision against the reference.
    void collect() { collect_columns(asked_.size()); }
    void collect_columns(std::size_t columns);
    // The same, if a step is decided by now.
    bool collect_one();
    void step() {
        submit();
        write();
        collect();
    }
    void steps(int count) {
        for (int i = 0; i < count; ++i) step();
    }
    // Whether so many columns are counted as decided, soon: samplers count a column after they announce it.
    bool counted(std::uint64_t columns) const;
    const Streams& streams() const { return streams_; }
    // Of the steps that this engine collected, by sequence.
    const std::map<std::uint64_t, std::vector<croupier_decision>>& decisions() const { return decisions_; }
    void attach_writers();
    void detach_writers() { writers_.clear(); }

    // The logits of a sequence at a position: a pure function, by token id; exact in bfloat16.
    static std::vector<float> row(std::uint32_t vocab, std::uint64_t uid, std::uint32_t position);
    static std::vector<std::uint32_t> mask(std::uint32_t vocab, std::uint64_t uid, std::uint32_t position);
    static client::Sequence sequence(std::uint64_t uid, std::uint32_t vocab);
    // With every state that depends on its outputs: counts, a window of them, DRY, mirostat and adaptive-p.
    static client::Sequence with_state(std::uint64_t uid, std::uint32_t vocab);

  private:
    void keep_feedback(std::uint64_t uid, std::uint32_t outputs);
    void check(const client::Step& step);
    std::vector<std::vector<std::uint16_t>> rows_of(const gpu_writer::RankWriter& writer,
                                                    std::uint64_t step) const;
    void write_whole(gpu_writer::RankWriter& writer, std::uint64_t step);
    void write_slices(gpu_writer::RankWriter& writer, std::uint64_t step) const;
    void write_randoms(gpu_writer::RankWriter& writer, std::uint64_t step);
    std::vector<std::uint32_t> hot_blocks() const;
    std::uint32_t random(std::uint64_t uid, std::uint32_t position) const;
    sampler::reference::Outcome expected(std::uint64_t uid) const;
    // With what the sequence's text says.
    void expect_text(croupier_decision decision, proto::Decision& wanted) const;

    EngineShape shape_;
    proto::Geometry geometry_;
    std::unique_ptr<client::Session> session_;
    std::vector<std::unique_ptr<gpu_writer::RankWriter>> writers_;
    std::map<std::uint64_t, client::Sequence> asked_;
    Streams streams_;
    std::map<std::uint64_t, std::vector<croupier_decision>> decisions_;
    std::map<std::uint64_t, std::vector<proto::Feedback>> feedback_;  // after so many outputs
    std::map<std::uint64_t, std::uint64_t> void_below_;               // steps
    std::uint64_t next_step_ = 0;                                     // that is submitted
    std::map<std::uint64_t, proto::DecisionError> errors_;
    std::map<std::uint64_t, std::uint32_t> submitted_;  // position that is asked for next
};

// SmallEngine's logits of a column in bfloat16, of `ids` ids from `first_id` on. What an engine has of ids
// beyond the vocabulary is no logit of any token.
std::vector<std::uint16_t> bf16_row(const proto::ScheduleColumn& column, std::uint32_t vocab,
                                    std::uint32_t first_id, std::uint32_t ids);

// What a call of the client failed with, as "name: text"; empty when it did not.
template <typename Call>
std::string failure_of(Call&& call) {
    try {
        call();
    } catch (const client::Failure& failure) {
        return failure.name() + ": " + failure.what();
    }
    return "";
}

}  // namespace croupier::testing
