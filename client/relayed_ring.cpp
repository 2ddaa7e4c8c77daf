#include "client/relayed_ring.h"

#include <utility>
#include <variant>

#include "client/admission.h"
#include "client/record_messages.h"
#include "proto/segment_header.h"
#include "shm/random_number.h"
#include "shm/schedule_publisher.h"

namespace croupier::client {
namespace {

using shm::Errc;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Numbers of one session's records: what a relay still answers to an earlier one is told by them.
std::uint64_t fresh_first_record() {
    const auto now = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count());
    return shm::random_number().value_or(now) >> 8U;
}

shm::Error channel_error(const croupier_error& error) {
    return {static_cast<Errc>(error.code), std::string("the way to the relay: ") + error.text};
}

}  // namespace

RelayedRing::RelayedRing(const croupier_record_channel& channel, std::string segment_path)
    : channel_(channel),
      segment_path_(std::move(segment_path)),
      first_record_(fresh_first_record()),
      last_record_(first_record_ - 1) {}

RelayedRing::~RelayedRing() {
    flatbuffers::FlatBufferBuilder builder;
    // A relay that does not hear it lets go when the group ends, or another session begins.
    (void)send(builder, wire::CreateDetachSession(builder));
}

shm::Result<std::unique_ptr<RelayedRing>> RelayedRing::attach(const croupier_record_channel& channel,
                                                              const SessionFacts& facts,
                                                              const OpenRequest& request) {
    std::unique_ptr<RelayedRing> ring(new RelayedRing(channel, facts.segment_path));
    if (auto attached = ring->ask_attach(facts, request); !attached) return attached.error();
    return ring;
}

shm::Result<bool> RelayedRing::ask_attach(const SessionFacts& facts, const OpenRequest& request) {
    const auto deadline = steady_clock::now() + request.timeout;
    flatbuffers::FlatBufferBuilder builder;
    auto sent =
        send(builder, wire::CreateAttachSessionDirect(builder, facts.id, request.name.c_str(),
                                                      proto::kSegmentVersion, request.randoms_supplied));
    if (!sent) return sent;
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        if (left <= milliseconds::zero()) {
            return shm::fail(Errc::timed_out, "the relay did not attach session " + request.name +
                                                  " within " + std::to_string(request.timeout.count()) +
                                                  " ms; does it run beside the daemon?");
        }
        auto next = next_answer(left);
        if (!next) return next.error();
        if (next.value() == nullptr) continue;
        if (const auto* refusal = next.value()->body_as_Refusal()) return refusal_error(*refusal);
        if (const auto* attached = next.value()->body_as_SessionAttached()) return take_over(*attached);
    }
}

shm::Result<bool> RelayedRing::take_over(const wire::SessionAttached& answer) {
    if (auto fault = read_geometry(answer.geometry(), geometry_)) {
        return shm::fail(Errc::bad_geometry, "the relay's answer is of no use: " + *fault);
    }
    steps_.resize(geometry_.slots);
    published_ = taken_ = answer.taken();
    if (answer.sequences() != nullptr) {
        for (const auto* live : *answer.sequences()) {
            const auto* output = live->output();
            outputs_.insert(live->uid(),
                            output == nullptr ? Output() : Output(output->begin(), output->end()));
        }
    }
    const auto* steps = answer.steps();
    if (steps == nullptr) return true;
    if (steps->size() > geometry_.slots) {
        return shm::fail(Errc::corrupt_header, "the relay's answer has " + std::to_string(steps->size()) +
                                                   " steps in flight, the session has " +
                                                   std::to_string(geometry_.slots) + " slots");
    }
    for (const auto* step : *steps) {
        StepSent& slot = slot_of(published_);
        if (step->uids() != nullptr) slot.uids.assign(step->uids()->begin(), step->uids()->end());
        slot.record = last_record_;
        // A uid that is not live any more is told by the step's own decision.
        for (const std::uint64_t uid : slot.uids) (void)outputs_.enter(uid, published_);
        ++published_;
    }
    return true;
}

template <typename Record>
shm::Result<bool> RelayedRing::send(flatbuffers::FlatBufferBuilder& builder,
                                    flatbuffers::Offset<Record> record) {
    wire::finish(builder, last_record_ + 1, record);
    croupier_error error{};
    const int status = channel_.send(channel_.context, builder.GetBufferPointer(), builder.GetSize(), &error);
    if (status < 0) return channel_error(error);
    if (status > 0) {
        return shm::fail(Errc::ring_full,
                         "the relay has not received the records that are under way: wait "
                         "for a step, or try again");
    }
    ++last_record_;
    return true;
}

shm::Result<const wire::Message*> RelayedRing::next_answer(milliseconds timeout) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    croupier_error error{};
    const auto patience = static_cast<std::uint32_t>(timeout.count());
    const int status = channel_.receive(channel_.context, patience, &bytes, &size, &error);
    if (status < 0) return channel_error(error);
    if (status == 0) return nullptr;
    const auto* begin = static_cast<const std::uint8_t*>(bytes);
    answer_.assign(begin, begin + size);
    const auto parsed = wire::parse(answer_.data(), answer_.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        return shm::fail(Errc::wrong_version, "the relay answered, but " + fault->message);
    }
    const wire::Message* answer = std::get<const wire::Message*>(parsed);
    // To an earlier session over this channel.
    if (answer->request() < first_record_ || answer->request() > last_record_) return nullptr;
    return answer;
}

void RelayedRing::take_in_answers() {
    // Several at a time, and yet not for ever: another session's answers come as nothing, too.
    constexpr int kAnswersATurn = 16;
    for (int turn = 0; turn < kAnswersATurn && !fault_; ++turn) {
        auto next = next_answer(milliseconds::zero());
        if (!next) {
            fault_ = Fault{0, next.error()};
            return;
        }
        if (next.value() == nullptr) return;
        const wire::Message& answer = *next.value();
        if (const auto* refusal = answer.body_as_Refusal()) {
            fault_ = Fault{answer.request(), refusal_error(*refusal)};
        } else if (const auto* seen = answer.body_as_DaemonSeen()) {
            daemon_alive_ = seen->alive();
            daemon_generation_ = seen->generation();
        }
    }
}

shm::Result<bool> RelayedRing::check_usable() {
    take_in_answers();
    if (!fault_) {
        // A full queue is no reason to stop waiting: told with the next record.
        auto told = send_owed_take();
        if (!told && told.error().code != Errc::ring_full) fault_ = Fault{0, told.error()};
    }
    if (!fault_) return true;
    // Steps in flight are finished while the daemon drains.
    const bool draining = fault_->error.code == Errc::draining && published_ != taken_;
    if (draining && slot_of(taken_).record < fault_->record) return true;
    return fault_->error;
}

shm::Result<bool> RelayedRing::may_write() {
    take_in_answers();
    if (fault_) return fault_->error;
    return send_owed_take();
}

shm::Result<bool> RelayedRing::add(const croupier_sequence& sequence) {
    if (auto allowed = may_write(); !allowed) return allowed;
    auto admitted = check_sequence(sequence, geometry_.vocab);
    if (!admitted) return admitted.error();
    if (auto fresh = outputs_.check_new(sequence.uid); !fresh) return fresh;
    if (auto room = shm::check_room(geometry_, outputs_.size(), admitted.value().sequence); !room)
        return room;
    flatbuffers::FlatBufferBuilder builder;
    if (auto sent = send(builder, add_message(builder, sequence)); !sent) return sent;
    outputs_.insert(sequence.uid, Output(sequence.output, sequence.output + sequence.output_count));
    return true;
}

shm::Result<bool> RelayedRing::finish(std::uint64_t uid) {
    // While the daemon drains, sequences end as well.
    auto allowed = may_write();
    if (!allowed && allowed.error().code != Errc::draining) return allowed;
    if (auto idle = outputs_.check_finish(uid); !idle) return idle;
    flatbuffers::FlatBufferBuilder builder;
    if (auto sent = send(builder, wire::CreateFinishSequence(builder, uid)); !sent) return sent;
    outputs_.erase(uid);
    return true;
}

shm::Result<std::span<const std::int32_t>> RelayedRing::output(std::uint64_t uid) const {
    auto found = outputs_.find(uid);
    if (!found) return found.error();
    return std::span<const std::int32_t>(*found.value());
}

shm::Result<bool> RelayedRing::send_submit(std::span<const croupier_column> columns) {
    for (const croupier_column& column : columns) {
        if (auto entered = outputs_.enter(column.uid, published_); !entered) return entered.error();
    }
    if (auto fits = check_masks(columns, geometry_.mask_rows); !fits) return fits;
    flatbuffers::FlatBufferBuilder builder;
    return send(builder, submit_message(builder, published_, columns, geometry_.vocab));
}

shm::Result<std::uint64_t> RelayedRing::submit(std::span<const croupier_column> columns) {
    if (auto allowed = may_write(); !allowed) return allowed.error();
    if (auto fits = shm::check_step(geometry_, columns.size(), published_ - taken_); !fits)
        return fits.error();
    if (auto sent = send_submit(columns); !sent) {
        for (const croupier_column& column : columns) outputs_.leave(column.uid, published_);
        return sent.error();
    }
    StepSent& slot = slot_of(published_);
    slot.uids.clear();
    for (const croupier_column& column : columns) slot.uids.push_back(column.uid);
    slot.record = last_record_;
    return published_++;
}

shm::Result<bool> RelayedRing::give_up(std::uint64_t step) {
    // While the daemon drains, steps in flight end as well.
    auto allowed = may_write();
    if (!allowed && allowed.error().code != Errc::draining) return allowed;
    if (step < taken_ || step >= published_) return shm::not_in_flight(step, taken_, published_);
    flatbuffers::FlatBufferBuilder builder;
    return send(builder, wire::CreateGiveUpStep(builder, step));
}

shm::Result<bool> RelayedRing::send_owed_take() {
    if (!take_owed_) return true;
    flatbuffers::FlatBufferBuilder builder;
    auto sent = send(builder, wire::CreateTakeSteps(builder, taken_));
    if (sent) take_owed_ = false;
    return sent;
}

shm::Result<bool> RelayedRing::take(std::span<const croupier_decision> decisions) {
    for (const croupier_decision& decision : decisions) {
        outputs_.leave(decision.uid, taken_);
        auto output = outputs_.find(decision.uid);
        // What was decided before this client came stands in the sequence's log already.
        const bool next = output && decision.error == 0 && decision.position == output.value()->size();
        if (next) output.value()->push_back(decision.token);
    }
    ++taken_;
    take_owed_ = true;
    // The decisions are good whatever has become of the relay: that fails the next call.
    if (auto told = send_owed_take(); !told && told.error().code != Errc::ring_full) {
        fault_ = Fault{0, told.error()};
    }
    return true;
}

}  // namespace croupier::client
