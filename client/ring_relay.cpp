#include "client/ring_relay.h"

#include <utility>
#include <variant>

#include "client/record_messages.h"
#include "proto/fan_out_frame.h"
#include "proto/segment_header.h"

namespace croupier::client {
namespace {

using shm::Errc;

// No sequence is added to a part of the answer to AttachSession that has reached this size. The last one that
// was added and the steps in flight still fit into the message.
constexpr std::uint64_t kPartBytes = proto::kMaxAnswerBytes / 2;
constexpr std::uint64_t kMostOfSequence =
    2 * sizeof(std::int32_t) * std::uint64_t{proto::kMaxLength + proto::kMaxListTokens};
constexpr std::uint64_t kMostOfSteps = std::uint64_t{proto::kMaxSlots} * proto::kMaxBatch *
                                       (sizeof(std::uint64_t) + sizeof(std::uint32_t) + sizeof(bool));
static_assert(kPartBytes + kMostOfSequence + kMostOfSteps + (1U << 20U) < proto::kMaxAnswerBytes);

AnswerBytes bytes_of(const flatbuffers::FlatBufferBuilder& builder) {
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

template <typename Body>
AnswerBytes sealed(flatbuffers::FlatBufferBuilder& builder, std::uint64_t record,
                   flatbuffers::Offset<Body> body) {
    wire::finish(builder, record, body);
    return bytes_of(builder);
}

AnswerBytes refusal_message(std::uint64_t record, const shm::Error& error) {
    flatbuffers::FlatBufferBuilder builder;
    return sealed(
        builder, record,
        wire::CreateRefusalDirect(builder, static_cast<std::uint32_t>(error.code), error.message.c_str()));
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<wire::StepInFlight>>> steps_message(
    flatbuffers::FlatBufferBuilder& builder, const LocalRing& ring) {
    std::vector<flatbuffers::Offset<wire::StepInFlight>> steps;
    for (std::uint64_t step = ring.next_to_take(); step < ring.next_to_publish(); ++step) {
        const auto uids = ring.uids_of(step);
        std::vector<bool> voids(uids.size());
        std::vector<std::uint32_t> slots(uids.size());
        for (std::size_t column = 0; column < uids.size(); ++column) {
            voids[column] = ring.is_void(step, column);
            slots[column] = ring.slot_in(step, column);
        }
        const auto all_uids = builder.CreateVector(uids.data(), uids.size());
        const auto all_voids = builder.CreateVector(voids);
        steps.push_back(wire::CreateStepInFlight(builder, all_uids, all_voids, builder.CreateVector(slots)));
    }
    return builder.CreateVector(steps);
}

}  // namespace

std::optional<AnswerBytes> RingRelay::apply(std::span<const std::uint8_t> record) {
    const auto parsed = wire::parse(record.data(), record.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        return refusal(last_record_, {Errc::wrong_version, "a record is none: " + fault->message});
    }
    const wire::Message& message = *std::get<const wire::Message*>(parsed);
    const bool begins = message.body_type() == wire::Body::AttachSession;
    const std::uint64_t number = message.request();
    if (!begins && (ring_ == nullptr || number != last_record_ + 1)) {
        // A farewell may be late: its session has ended by itself, or another one has begun on this channel.
        if (message.body_type() == wire::Body::DetachSession) return std::nullopt;
        // Under the record's own number, because it may be of an earlier session.
        if (ring_ == nullptr) {
            return refusal(number, {Errc::session_closed, "the relay holds no session: attach one first"});
        }
        return refusal(number,
                       {Errc::corrupt_header, "record " + std::to_string(number) + " came after record " +
                                                  std::to_string(last_record_)});
    }
    last_record_ = number;
    if (auto done = carry_out(message); !done) return refusal(number, done.error());
    if (!begins) return std::nullopt;
    untold_.resize(ring_->list({}));
    ring_->list(untold_);
    return attached_part();
}

shm::Result<bool> RingRelay::carry_out(const wire::Message& message) {
    switch (message.body_type()) {
        case wire::Body::AttachSession:
            return attach(*message.body_as_AttachSession());
        case wire::Body::AddSequence:
            return add(*message.body_as_AddSequence());
        case wire::Body::ForkSequence: {
            const auto& fork = *message.body_as_ForkSequence();
            return ring_->fork({fork.parent(), fork.uid(), fork.outputs(), fork.child()});
        }
        case wire::Body::FinishSequence:
            return ring_->finish(message.body_as_FinishSequence()->uid());
        case wire::Body::TruncateSequence: {
            const auto& cut = *message.body_as_TruncateSequence();
            return ring_->truncate(cut.uid(), cut.outputs());
        }
        case wire::Body::SubmitStep:
            return submit(*message.body_as_SubmitStep());
        case wire::Body::GiveUpStep:
            return ring_->give_up(message.body_as_GiveUpStep()->step());
        case wire::Body::TakeSteps:
            return take(*message.body_as_TakeSteps());
        case wire::Body::DetachSession:
            let_go("its scheduler let go of it");
            return true;
        default:
            break;
    }
    return shm::fail(Errc::bad_argument, std::string("a ") + wire::EnumNameBody(message.body_type()) +
                                             " is no record that a relay carries out");
}

shm::Result<bool> RingRelay::attach(const wire::AttachSession& record) {
    let_go("its scheduler attaches to another");
    name_ = record.name() == nullptr ? std::string() : record.name()->str();
    if (record.segment_version() != proto::kSegmentVersion) {
        return shm::fail(Errc::wrong_version, "the scheduler is of segment version " +
                                                  std::to_string(record.segment_version()) +
                                                  ", the relay of " + std::to_string(proto::kSegmentVersion));
    }
    if (allowed_path_.empty() || record.session_id() != allowed_id_) {
        return shm::fail(Errc::bad_argument, "session " + std::to_string(record.session_id()) +
                                                 " was not opened through this relay: open it first");
    }
    const std::string& path = allowed_path_;
    CROUPIER_TRY_VALUE(ring, LocalRing::attach(path, record.randoms_supplied()));
    const proto::SegmentHeader& header = ring->header();
    if (header.session_id != record.session_id()) {
        return shm::fail(Errc::bad_argument, path + " is session " + std::to_string(header.session_id) +
                                                 ", not " + std::to_string(record.session_id()));
    }
    name_ = header.name;  // with what the relay has put behind the scheduler's
    CROUPIER_TRY_VALUE(signal, ring->start_signal());
    ring_ = std::move(ring);
    signal_ = std::move(signal);
    sender_.emplace(ring_->segment());
    alive_told_.reset();
    news_.push_back({RelayNews::Kind::attached, name_, path});
    return true;
}

AnswerBytes RingRelay::attached_part() {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<wire::LiveSequenceInfo>> sequences;
    for (; !untold_.empty() && builder.GetSize() < kPartBytes; untold_.pop_back()) {
        const std::uint64_t uid = untold_.back();
        const auto live = ring_->found_text(uid);
        if (!live) continue;
        const std::uint32_t slot = ring_->slot_of(uid).value_or(0);
        const shm::Segment& segment = ring_->segment();
        const proto::SamplingParams params = segment.params(slot);
        sequences.push_back(
            live_message(builder, live.value(), slot, segment.sequence(slot).prompt_length, params.rng));
    }
    const bool more_follow = !untold_.empty();
    const auto steps = more_follow ? 0 : steps_message(builder, *ring_);
    const auto geometry = geometry_bytes(builder, ring_->geometry());
    const auto all_sequences = builder.CreateVector(sequences);
    return sealed(builder, last_record_,
                  wire::CreateSessionAttached(builder, geometry, ring_->next_to_take(), steps, all_sequences,
                                              ring_->params_bytes(), more_follow));
}

shm::Result<bool> RingRelay::add(const wire::AddSequence& record) {
    KnownSequence known;
    if (auto fault = read_sequence(record, known)) return shm::fail(Errc::bad_argument, *fault);
    return ring_->add(known.linked());
}

shm::Result<bool> RingRelay::submit(const wire::SubmitStep& record) {
    if (record.step() != ring_->next_to_publish()) {
        return shm::fail(Errc::corrupt_header, "step " + std::to_string(record.step()) +
                                                   " was submitted where step " +
                                                   std::to_string(ring_->next_to_publish()) + " was due");
    }
    if (auto fault = read_columns(record, ring_->geometry().vocab, columns_)) {
        return shm::fail(Errc::bad_argument, *fault);
    }
    CROUPIER_TRY(ring_->submit(columns_));
    return true;
}

shm::Result<bool> RingRelay::take(const wire::TakeSteps& record) {
    while (ring_->next_to_take() < record.taken()) {
        if (!ring_->next_complete()) {
            return shm::fail(Errc::bad_argument, "step " + std::to_string(ring_->next_to_take()) +
                                                     " is to be taken, and is not decided");
        }
        CROUPIER_TRY(ring_->take({}));
    }
    return true;
}

AnswerBytes RingRelay::refusal(std::uint64_t record, const shm::Error& error) {
    news_.push_back({RelayNews::Kind::refused, ring_ == nullptr ? std::string() : name_, error.message});
    return refusal_message(record, error);
}

void RingRelay::let_go(const std::string& why) {
    if (ring_ == nullptr) return;
    news_.push_back({RelayNews::Kind::let_go, name_, why});
    signal_.reset();  // its thread reads the ring
    ring_.reset();
    untold_.clear();
}

std::uint64_t RingRelay::steps_in_flight() const {
    return ring_ == nullptr ? 0 : ring_->next_to_publish() - ring_->next_to_take();
}

std::optional<AnswerBytes> RingRelay::news() {
    if (ring_ == nullptr) return std::nullopt;
    if (!untold_.empty()) return attached_part();
    signal_->clear();
    // Read before the decided steps, so that steps decided before the session ended go out first.
    const auto usable = ring_->check_usable();
    flatbuffers::FlatBufferBuilder builder;
    const bool is_ours = usable || usable.error().code == Errc::session_closed;
    if (is_ours && sender_->pack(ring_->segment(), last_record_, builder)) {
        sender_->advance();
        return bytes_of(builder);
    }
    if (!usable) {
        // No record was refused: the session is over.
        const AnswerBytes answer = refusal_message(last_record_, usable.error());
        let_go(usable.error().message);
        return answer;
    }
    const bool alive = ring_->daemon_alive();
    if (alive == alive_told_) return std::nullopt;
    alive_told_ = alive;
    return sealed(builder, last_record_, wire::CreateDaemonSeen(builder, alive));
}

}  // namespace croupier::client
