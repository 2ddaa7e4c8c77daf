// A client and a writer that may lie: without the checks of the client library.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu_writer/rank_writer.h"
#include "shm/schedule_publisher.h"
#include "shm/sequence_table.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

namespace croupier::testing {

constexpr std::uint32_t kVocab = 100;
constexpr std::uint32_t kColumns = 4;
constexpr std::uint32_t kVictim = 1;
constexpr std::uint32_t kMost = 0xFFFFFFFFU;

// Sequences 11 .. 14 stand in columns 0 .. 3 and are greedy; the row of a column has its maximum at token
// 50 + column.
class RawEngine {
  public:
    RawEngine(const std::string& endpoint, const std::string& name, bool summaries = false);

    shm::Segment& segment() { return segment_; }
    std::vector<float>& row(std::uint32_t column) { return rows_[column]; }
    proto::SequenceEntry& entry(std::uint32_t column) {
        return segment_.sequence(columns_[column].sequence_slot);
    }
    proto::SamplingParams& params(std::uint32_t column) {
        return *segment_.params(columns_[column].sequence_slot).place();
    }
    proto::KeptFeedback& feedback(std::uint32_t column) {
        return segment_.feedback(columns_[column].sequence_slot);
    }
    std::int32_t* log(std::uint32_t column) { return segment_.token_log(columns_[column].sequence_slot); }
    proto::TokenBias* biases(std::uint32_t column) { return segment_.biases(columns_[column].sequence_slot); }
    // {1, 20} of the bad words, then {1, 30} of the breakers.
    std::int32_t* lists(std::uint32_t column) { return segment_.lists(columns_[column].sequence_slot); }
    std::int32_t* stops(std::uint32_t column) { return segment_.stop_ids(columns_[column].sequence_slot); }
    // Of the step that was published last.
    proto::ScheduleRecord& record() { return segment_.schedule(slot_); }
    proto::ScheduleColumn& column(std::uint32_t index) {
        return *segment_.schedule_columns(slot_)[index].place();
    }

    // Of the step whose rows were laid last: [tiles][columns].
    std::span<float> maxima() { return writer_.maxima(written_); }
    std::size_t tiles() const { return writer_.geometry().tiles(0); }

    void publish();
    void write() {
        lay_rows();
        announce_rows();
    }
    // The two halves of write(): between them the slice is still the writer's own.
    void lay_rows();
    void announce_rows();
    bool complete() const;
    std::vector<proto::Decision> take();
    proto::DecisionError refusal() const;
    void drop() { publisher_.take(); }
    // The next step asks once more for the positions that the last one asked for.
    void go_back() {
        for (auto& asked : columns_) {
            --asked.position;
            --segment_.sequence(asked.sequence_slot).length;
        }
    }

  private:
    shm::Segment segment_;
    shm::SchedulePublisher publisher_;
    gpu_writer::RankWriter writer_;
    shm::SequenceTable table_;
    std::vector<proto::ScheduleColumn> columns_;
    std::vector<std::vector<float>> rows_;
    std::uint32_t slot_ = 0;
    std::uint64_t written_ = 0;
};

struct Lie {
    const char* about;
    proto::DecisionError answer;
    void (*tell)(RawEngine&);
};

// Sessions one after the other; between them, an engine whose every decision is checked.
class Stage {
  public:
    Stage() { neighbour_.admit(8); }

    RawEngine fresh(bool summaries = false) {
        return RawEngine(daemon_.endpoint(), "liar-" + std::to_string(made_++), summaries);
    }
    DaemonProcess& daemon() { return daemon_; }

    // The victim is answered as the lie deserves, the other columns as if nobody had lied.
    void check(const Lie& lie);
    void check_neighbour();

  private:
    DaemonProcess daemon_{kTwoSamplers, "sessions: {max: 64, reattach_grace_ms: 50}"};
    SmallEngine neighbour_{daemon_.endpoint(), "neighbour"};
    int made_ = 0;
};

}  // namespace croupier::testing
