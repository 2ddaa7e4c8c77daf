#include "client/relayed_ring.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <variant>

#include "client/admission.h"
#include "client/record_messages.h"
#include "client/relayed_control.h"
#include "proto/segment_header.h"
#include "shm/schedule_publisher.h"
#include "shm/sequence_table.h"

namespace croupier::client {
namespace {

using shm::Errc;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A group whose relay is out of reach is given up earlier.
constexpr std::chrono::seconds kRoomPatience{20};
// A channel does not say when it has room.
constexpr milliseconds kBetweenTries{1};

}  // namespace

RelayedRing::RelayedRing(const croupier_record_channel& channel, std::string segment_path)
    : channel_(channel),
      segment_path_(std::move(segment_path)),
      first_record_(fresh_number()),
      last_record_(first_record_ - 1) {}

RelayedRing::~RelayedRing() {
    flatbuffers::FlatBufferBuilder builder;
    // If this does not reach the relay, it lets go when the group ends or another session begins.
    wire::finish(builder, last_record_ + 1, wire::CreateDetachSession(builder));
    (void)send_if_room(builder);
}

shm::Result<std::unique_ptr<RelayedRing>> RelayedRing::attach(const croupier_record_channel& channel,
                                                              const SessionFacts& facts,
                                                              const OpenRequest& request) {
    std::unique_ptr<RelayedRing> ring(new RelayedRing(channel, facts.segment_path));
    CROUPIER_TRY(ring->ask_attach(facts, request));
    return ring;
}

shm::Result<bool> RelayedRing::ask_attach(const SessionFacts& facts, const OpenRequest& request) {
    auto deadline = steady_clock::now() + request.timeout;
    flatbuffers::FlatBufferBuilder builder;
    auto sent =
        send(builder, wire::CreateAttachSessionDirect(builder, facts.id, request.name.c_str(),
                                                      proto::kSegmentVersion, request.randoms_supplied));
    if (!sent) return sent;
    Slots by_slot;
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        if (left <= milliseconds::zero()) {
            return shm::fail(Errc::timed_out, "the relay did not attach session " + request.name +
                                                  " within " + std::to_string(request.timeout.count()) +
                                                  " ms; does it run beside the daemon?");
        }
        CROUPIER_TRY_VALUE(next, next_answer(left));
        if (next == nullptr) continue;
        if (const auto* refusal = next->body_as_Refusal()) return refusal_error(*refusal);
        if (const auto* attached = next->body_as_SessionAttached()) {
            CROUPIER_TRY_VALUE(more_follow, take_over(*attached, by_slot));
            if (!more_follow) return true;
            deadline = steady_clock::now() + request.timeout;
        }
    }
}

shm::Result<bool> RelayedRing::send_if_room(const flatbuffers::FlatBufferBuilder& builder) {
    croupier_error error{};
    const int status = channel_.send(channel_.context, builder.GetBufferPointer(), builder.GetSize(), &error);
    if (status < 0) return channel_error(error);
    if (status > 0) return false;
    ++last_record_;
    return true;
}

template <typename Record>
shm::Result<bool> RelayedRing::send(flatbuffers::FlatBufferBuilder& builder,
                                    flatbuffers::Offset<Record> record) {
    wire::finish(builder, last_record_ + 1, record);
    const auto deadline = steady_clock::now() + kRoomPatience;
    while (true) {
        CROUPIER_TRY_VALUE(sent, send_if_room(builder));
        if (sent) break;
        if (steady_clock::now() >= deadline) {
            return shm::fail(Errc::ring_full, "the relay has received no record for " +
                                                  std::to_string(kRoomPatience.count()) +
                                                  " s: look at its log, and at the load of its host");
        }
        take_in_answers(kBetweenTries);
    }
    if (readable_.get() >= 0) take_in_answers();
    return true;
}

shm::Result<const wire::Message*> RelayedRing::next_answer(milliseconds timeout) {
    while (true) {
        const void* bytes = nullptr;
        std::size_t size = 0;
        croupier_error error{};
        const auto wait_ms = static_cast<std::uint32_t>(timeout.count());
        const int status = channel_.receive(channel_.context, wait_ms, &bytes, &size, &error);
        if (status < 0) return channel_error(error);
        if (status == 0) return nullptr;
        const auto* begin = static_cast<const std::uint8_t*>(bytes);
        answer_.assign(begin, begin + size);
        const auto parsed = wire::parse(answer_.data(), answer_.size());
        if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
            return shm::fail(Errc::wrong_version, "the relay answered, but " + fault->message);
        }
        const wire::Message* answer = std::get<const wire::Message*>(parsed);
        // Other numbers are of an earlier session over this channel.
        if (answer->request() >= first_record_ && answer->request() <= last_record_) return answer;
    }
}

void RelayedRing::take_in_answers(milliseconds timeout) {
    while (true) {
        auto next = next_answer(timeout);
        if (!next) fault_ = Fault{0, next.error()};
        if (!next || next.value() == nullptr) break;
        take_in(*next.value());
        timeout = milliseconds::zero();
    }
    show_pending();
}

void RelayedRing::take_in(const wire::Message& answer) {
    if (const auto* refusal = answer.body_as_Refusal()) {
        // The first one counts. But while the daemon drains, decisions still come, and the session may end.
        const shm::Error error = refusal_error(*refusal);
        const bool drained = fault_ && fault_->error.code == Errc::draining && error.code != Errc::draining;
        if (!fault_ || drained) fault_ = Fault{answer.request(), error};
    } else if (const auto* seen = answer.body_as_DaemonSeen()) {
        daemon_alive_ = seen->alive();
    } else if (const auto* step = answer.body_as_StepDecisions()) {
        received_.push_back(read_step(*step));
    }
}

shm::Result<std::optional<StreamedStep>> RelayedRing::receive(milliseconds timeout) {
    std::optional<StreamedStep> step;
    if (received_.empty()) take_in_answers(timeout);
    if (received_.empty()) return step;
    step = std::move(received_.front());
    received_.pop_front();
    show_pending();
    if (step->step == taken_) return step;
    return shm::fail(Errc::corrupt_header, "the relay sent step " + std::to_string(step->step) +
                                               " where step " + std::to_string(taken_) +
                                               " was due; open the session again with resume");
}

// send() reads the answers that have come into received_, after which the channel may not be readable.
// `pending_` is readable then.
shm::Result<int> RelayedRing::descriptor() {
    if (readable_.get() >= 0) return readable_.get();
    const int channel = channel_.descriptor == nullptr ? -1 : channel_.descriptor(channel_.context);
    if (channel < 0) {
        return shm::fail(Errc::bad_argument,
                         "the channel to the relay has no descriptor: call croupier_wait with a timeout");
    }
    pending_ = shm::FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    shm::FileDescriptor both(::epoll_create1(EPOLL_CLOEXEC));
    for (const int each : {pending_.get(), channel}) {
        epoll_event readable{EPOLLIN, {}};
        if (::epoll_ctl(both.get(), EPOLL_CTL_ADD, each, &readable) != 0)
            return shm::system_failure("cannot make a descriptor for", segment_path_, errno);
    }
    readable_ = std::move(both);
    take_in_answers();
    return readable_.get();
}

void RelayedRing::show_pending() {
    if (readable_.get() < 0) return;
    std::uint64_t count = 1;
    if (received_.empty()) {
        [[maybe_unused]] const auto cleared = ::read(pending_.get(), &count, sizeof(count));
    } else {
        [[maybe_unused]] const auto shown = ::write(pending_.get(), &count, sizeof(count));
    }
}

shm::Result<bool> RelayedRing::check_usable() {
    take_in_answers();
    if (!fault_) tell_owed_take();
    if (!fault_) return true;
    // While the daemon drains, it finishes the steps in flight.
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
    CROUPIER_TRY(may_write());
    CROUPIER_TRY_VALUE(admitted, check_sequence(sequence, geometry_));
    CROUPIER_TRY(sequences_.check_new(sequence.uid));
    CROUPIER_TRY(shm::check_room(geometry_, sequences_.held(), admitted.sequence));
    CROUPIER_TRY(shm::check_known(admitted.sequence.params, params_bytes_));
    flatbuffers::FlatBufferBuilder builder;
    CROUPIER_TRY(send(builder, add_message(builder, sequence)));
    sequences_.insert(sequence.uid, {{sequence.output, sequence.output + sequence.output_count},
                                     static_cast<std::uint32_t>(sequence.prompt_count),
                                     admitted.sequence.params.rng});
    return true;
}

shm::Result<bool> RelayedRing::fork(const shm::Fork& fork) {
    CROUPIER_TRY(may_write());
    CROUPIER_TRY_VALUE(parent, sequences_.find(fork.parent));
    const Sequence& from = parent->place;
    CROUPIER_TRY(sequences_.check_new(fork.uid));
    CROUPIER_TRY(shm::check_fork(geometry_, fork, {from.output.size(), from.prompt_length, from.rng}));
    CROUPIER_TRY(shm::check_room(geometry_, sequences_.held(), {}));
    flatbuffers::FlatBufferBuilder builder;
    CROUPIER_TRY(
        send(builder, wire::CreateForkSequence(builder, fork.parent, fork.uid, fork.outputs, fork.child)));
    sequences_.insert(
        fork.uid, {{from.output.begin(), from.output.begin() + fork.outputs}, from.prompt_length, from.rng});
    return true;
}

shm::Result<bool> RelayedRing::finish(std::uint64_t uid) {
    // Sequences may still be finished while the daemon drains.
    auto allowed = may_write();
    if (!allowed && allowed.error().code != Errc::draining) return allowed;
    CROUPIER_TRY_VALUE(found, sequences_.find(uid));
    flatbuffers::FlatBufferBuilder builder;
    CROUPIER_TRY(send(builder, wire::CreateFinishSequence(builder, uid)));
    (void)sequences_.finish(*found);
    return true;
}

shm::Result<bool> RelayedRing::truncate(std::uint64_t uid, std::uint32_t outputs) {
    auto allowed = may_write();
    if (!allowed && allowed.error().code != Errc::draining) return allowed;
    CROUPIER_TRY_VALUE(found, sequences_.find(uid));
    std::vector<std::int32_t>& output = found->place.output;
    if (outputs > output.size()) return shm::beyond_output(uid, output.size(), outputs);
    flatbuffers::FlatBufferBuilder builder;
    CROUPIER_TRY(send(builder, wire::CreateTruncateSequence(builder, uid, outputs)));
    output.resize(outputs);
    sequences_.make_void(*found);
    return true;
}

shm::Result<bool> RelayedRing::check_append(std::uint64_t uid, std::size_t /*count*/) {
    CROUPIER_TRY(sequences_.find(uid));
    return shm::fail(Errc::bad_argument,
                     "nothing can be appended to sequence " + std::to_string(uid) +
                         ", because the session is on another host: finish it, and add one with all of the "
                         "output");
}

shm::Result<bool> RelayedRing::append(std::uint64_t uid, std::span<const std::int32_t> tokens) {
    return check_append(uid, tokens.size());
}

bool RelayedRing::next_is_void(std::size_t column) const {
    return slot_of(taken_).entries[column]->is_void_in(taken_);
}

shm::Result<std::span<const std::int32_t>> RelayedRing::output(std::uint64_t uid) const {
    CROUPIER_TRY_VALUE(found, sequences_.find(uid));
    return std::span<const std::int32_t>(found->place.output);
}

shm::Result<bool> RelayedRing::send_submit(std::span<const croupier_column> columns) {
    entries_.clear();
    sequences_.begin_submit();
    for (const croupier_column& column : columns) {
        CROUPIER_TRY_VALUE(asked, sequences_.ask(column.uid, rows_of(column)));
        entries_.insert(entries_.end(), rows_of(column), asked);
    }
    CROUPIER_TRY(check_room(columns, geometry_));
    flatbuffers::FlatBufferBuilder builder;
    return send(builder, submit_message(builder, published_, columns, geometry_.vocab));
}

shm::Result<std::uint64_t> RelayedRing::submit(std::span<const croupier_column> columns) {
    CROUPIER_TRY(may_write());
    CROUPIER_TRY(shm::check_step(geometry_, count_rows(columns), published_ - taken_));
    CROUPIER_TRY(send_submit(columns));
    StepSent& slot = slot_of(published_);
    slot.uids.clear();
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
        slot.uids.push_back(entries_[i]->uid);
        // The rows of a window stand one after another.
        if (i > 0 && entries_[i] == entries_[i - 1]) {
            sequences_.enter_row(*entries_[i], i);
        } else {
            sequences_.enter(*entries_[i], published_, i);
        }
    }
    slot.entries = entries_;
    slot.record = last_record_;
    return published_++;
}

shm::Result<bool> RelayedRing::give_up(std::uint64_t step) {
    // Steps in flight may still be given up while the daemon drains.
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

void RelayedRing::tell_owed_take() {
    if (!take_owed_) return;
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, last_record_ + 1, wire::CreateTakeSteps(builder, taken_));
    const auto sent = send_if_room(builder);
    if (!sent) fault_ = Fault{0, sent.error()};
    if (sent && sent.value()) take_owed_ = false;
    if (readable_.get() >= 0) take_in_answers();
}

void RelayedRing::take_window(Entry& entry, std::span<const croupier_decision> rows) {
    const bool current = !entry.is_void_in(taken_);
    bool ended = false;
    for (const croupier_decision& decision : rows) {
        // A token that was decided before this client attached is in the output already.
        const bool next = decision.error == 0 && decision.output_index == entry.place.output.size();
        if (current && next) entry.place.output.push_back(decision.token);
        ended = ended || (decision.flags & CROUPIER_STOPPED) != 0 ||
                proto::is_failure(static_cast<proto::DecisionError>(decision.error));
    }
    const bool gone = sequences_.leave(entry, taken_, static_cast<std::uint32_t>(rows.size())).has_value();
    if (!gone && current && ended) sequences_.make_void(entry);
}

shm::Result<bool> RelayedRing::take(std::span<const croupier_decision> decisions) {
    const StepSent& step = slot_of(taken_);
    for (std::size_t column = 0, next = 0; column < decisions.size(); column = next) {
        Entry* entry = step.entries[column];
        while (next < decisions.size() && step.entries[next] == entry) ++next;
        take_window(*entry, decisions.subspan(column, next - column));
    }
    ++taken_;
    take_owed_ = true;
    // The decisions are valid even if the relay is gone, which fails the next call.
    tell_owed_take();
    return true;
}

}  // namespace croupier::client
