// A session's ring on another host: a relay there writes the records and returns the decisions.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/daemon_link.h"
#include "client/live_uids.h"
#include "client/options.h"
#include "client/schedule_place.h"
#include "client/streamed_step.h"
#include "proto/wire.h"
#include "shm/file.h"

namespace croupier::client {

// Checks here what can be checked without the segment, so that the call itself fails. A record waits only for
// room among those in flight: what the relay refuses fails the next calls and the wait for the step
// concerned.
class RelayedRing final : public SchedulePlace, public StepMessages {
  public:
    static shm::Result<std::unique_ptr<RelayedRing>> attach(const croupier_record_channel& channel,
                                                            const SessionFacts& facts,
                                                            const OpenRequest& request);
    RelayedRing(const RelayedRing&) = delete;
    RelayedRing& operator=(const RelayedRing&) = delete;
    // Tells the relay to detach from the session.
    ~RelayedRing() override;

    const std::string& segment_path() const override { return segment_path_; }
    const proto::Geometry& geometry() const override { return geometry_; }

    shm::Result<bool> add(const croupier_sequence& sequence) override;
    shm::Result<bool> fork(const shm::Fork& fork) override;
    shm::Result<bool> finish(std::uint64_t uid) override;
    shm::Result<bool> truncate(std::uint64_t uid, std::uint32_t outputs) override;
    // Refused: there is no record of it.
    shm::Result<bool> check_append(std::uint64_t uid, std::size_t count) override;
    shm::Result<bool> append(std::uint64_t uid, std::span<const std::int32_t> tokens) override;
    std::size_t held() const override { return sequences_.held(); }
    std::size_t list(std::span<std::uint64_t> uids) const override { return sequences_.list(uids); }
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const override;
    shm::Result<std::vector<FoundText>> found_texts() const override { return found_texts_; }

    shm::Result<std::uint64_t> submit(std::span<const croupier_column> columns) override;
    std::uint64_t next_to_publish() const override { return published_; }
    std::uint64_t next_to_take() const override { return taken_; }
    bool next_is_void(std::size_t column) const override;
    std::span<const std::uint64_t> uids_of_next() const override { return slot_of(taken_).uids; }
    shm::Result<bool> give_up(std::uint64_t step) override;
    shm::Result<bool> take(std::span<const croupier_decision> decisions) override;

    shm::Result<bool> check_usable() override;
    bool daemon_alive() override { return daemon_alive_; }
    // Only the relay's host knows.
    bool can_be_found() const override { return true; }

    shm::Result<std::optional<StreamedStep>> receive(std::chrono::milliseconds timeout) override;
    // Readable when receive() may have a step. Call receive() until it returns nothing, then poll again.
    shm::Result<int> descriptor();

  private:
    struct Sequence {
        std::vector<std::int32_t> output;
        std::uint32_t prompt_length = 0;
        proto::Rng rng = proto::Rng::race;
    };
    using Entry = LiveUids<Sequence>::Entry;
    struct StepSent {
        std::vector<std::uint64_t> uids;
        std::vector<Entry*> entries;  // of the same columns
        std::uint64_t record = 0;
    };
    struct Fault {
        std::uint64_t record;
        shm::Error error;
    };

    RelayedRing(const croupier_record_channel& channel, std::string segment_path);
    shm::Result<bool> ask_attach(const SessionFacts& facts, const OpenRequest& request);
    using Slots = std::map<std::uint32_t, Entry*>;  // of the sequence table
    // True: the answer has another part.
    shm::Result<bool> take_over(const wire::SessionAttached& answer, Slots& by_slot);
    void take_over_sequences(const wire::SessionAttached& answer, Slots& by_slot);
    shm::Result<bool> take_over_steps(const wire::SessionAttached& answer, Slots& by_slot);
    // Finds the sequence of a column in a step that an earlier client published.
    Entry* recall(const wire::StepInFlight& step, std::uint32_t column, Slots& by_slot);

    // Sends a record once there is room for it, and reads the answers that are there.
    template <typename Record>
    shm::Result<bool> send(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Record> record);
    // False: the records in flight leave this one, which is finished, no room.
    shm::Result<bool> send_if_room(const flatbuffers::FlatBufferBuilder& builder);
    shm::Result<bool> send_owed_take();
    // As far as there is room: the next record tells it else.
    void tell_owed_take();
    // Of one sequence, in the step that is taken.
    void take_window(Entry& entry, std::span<const croupier_decision> rows);
    shm::Result<bool> send_submit(std::span<const croupier_column> columns);
    // The next answer to this session, if it comes within `timeout`.
    shm::Result<const wire::Message*> next_answer(std::chrono::milliseconds timeout);
    // Waits for one answer, then reads all that are there.
    void take_in_answers(std::chrono::milliseconds timeout = std::chrono::milliseconds::zero());
    void take_in(const wire::Message& answer);
    void show_pending();
    shm::Result<bool> may_write();
    StepSent& slot_of(std::uint64_t step) { return steps_[step % geometry_.slots]; }
    const StepSent& slot_of(std::uint64_t step) const { return steps_[step % geometry_.slots]; }

    croupier_record_channel channel_;
    std::string segment_path_;
    proto::Geometry geometry_;
    LiveUids<Sequence> sequences_;
    std::vector<StepSent> steps_;  // by slot
    std::vector<Entry*> entries_;  // of the columns in the current submit
    std::uint64_t published_ = 0;
    std::uint32_t params_bytes_ = 0;  // the bytes of SamplingParams that the relay and its segment know
    std::uint64_t taken_ = 0;
    bool take_owed_ = false;  // the relay does not know taken_ yet
    std::uint64_t first_record_;
    std::uint64_t last_record_;
    std::optional<Fault> fault_;
    bool daemon_alive_ = true;
    std::vector<FoundText> found_texts_;
    std::vector<std::uint8_t> answer_;
    std::deque<StreamedStep> received_;  // decided steps to take
    shm::FileDescriptor pending_;        // readable while received_ has steps
    shm::FileDescriptor readable_;       // an epoll set of `pending_` and the channel
};

}  // namespace croupier::client
