#include "fan_out/nccl_fan_out.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <thread>

#include "fan_out/nccl_broadcast.h"
#include "fan_out/zmq_fan_out.h"
#include "proto/fan_out_frame.h"

namespace croupier::fan_out {
namespace {

using proto::FanOutAnnouncement;
using proto::FanOutReceipt;
using shm::Errc;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// NCCL takes seconds to connect, even if all ranks are there.
constexpr milliseconds kMeetTimeout{60000};
// The interval between two checks of the connection during a broadcast.
constexpr milliseconds kLook{5};
// The time that members have to receive the last records before the root leaves.
constexpr milliseconds kLinger{1000};

std::span<const std::uint8_t> bytes_of(const ncclUniqueId& id) {
    return {reinterpret_cast<const std::uint8_t*>(id.internal), sizeof(id.internal)};
}

// The common part of both ends. A ZMQ group beside the communicator carries joins, announcements of records,
// and answers. A member starts a kernel only for an announced record: a kernel that waited for the next one
// would keep a multiprocessor busy, and would share the GPU in time slices with a worker in another process.
class NcclEnd : public FanOut {
  public:
    NcclEnd(const FanOutOptions& options, std::unique_ptr<FanOut> control)
        : options_(options), control_(std::move(control)) {}

  protected:
    shm::Result<bool> meet(const ncclUniqueId& id) {
        auto joined = NcclBroadcast::join(id, options_.members, options_.member, options_.device,
                                          kMeetTimeout, [this] { return look_at_control(); });
        if (!joined) return fail_for_good(joined.error());
        gpus_ = std::move(joined).value();
        return true;
    }
    // Reads the messages that have come, and fails if a peer is gone.
    virtual shm::Result<bool> look_at_control() = 0;

    shm::Error fail_for_good(const shm::Error& error) {
        failed_ = error;
        // The broadcasts that it waits for never come.
        gpus_.reset();
        return error;
    }

    FanOutOptions options_;
    std::unique_ptr<FanOut> control_;
    std::unique_ptr<NcclBroadcast> gpus_;
    std::optional<shm::Error> failed_;
};

class NcclRoot final : public NcclEnd {
  public:
    NcclRoot(const FanOutOptions& options, std::unique_ptr<FanOut> control)
        : NcclEnd(options, std::move(control)), received_(options.members) {}
    ~NcclRoot() override;

    shm::Result<bool> begin();
    shm::Result<bool> send(std::span<const std::uint8_t> record) override;
    shm::Result<std::optional<Answer>> receive_answer(milliseconds timeout) override;
    int descriptor() const override { return control_->descriptor(); }

  private:
    // Reads all messages: each record brings a receipt from each member.
    shm::Result<bool> look_at_control() override {
        auto heard = hear(milliseconds::zero());
        while (heard && heard.value()) heard = hear(milliseconds::zero());
        return heard;
    }
    // False: no message came.
    shm::Result<bool> hear(milliseconds timeout);
    std::uint64_t received_by_all() const {
        return *std::min_element(received_.begin() + 1, received_.end());
    }
    shm::Result<bool> busy(std::size_t bytes);

    std::vector<std::uint64_t> received_;  // records, by member
    std::uint64_t sent_ = 0;
    std::deque<Answer> answers_;
};

NcclRoot::~NcclRoot() {
    // Destroying the communicator drops the records that it has not delivered.
    const auto deadline = Clock::now() + kLinger;
    try {
        while (gpus_ && received_by_all() < sent_ && Clock::now() < deadline) {
            if (const auto heard = hear(kLook); !heard) (void)fail_for_good(heard.error());
        }
    } catch (const std::exception&) {
        // As after a failed hearing: what is not received by now is lost.
        gpus_.reset();
    }
    if (!gpus_ || received_by_all() < sent_) control_->skip_farewell();
}

shm::Result<bool> NcclRoot::begin() {
    CROUPIER_TRY_VALUE(id, NcclBroadcast::fresh_id(options_.device));
    CROUPIER_TRY(control_->send(bytes_of(id)));
    return meet(id);
}

shm::Result<bool> NcclRoot::hear(milliseconds timeout) {
    CROUPIER_TRY_VALUE(answer, control_->receive_answer(timeout));
    if (!answer) return false;
    Answer& heard = *answer;
    FanOutReceipt receipt;
    if (heard.bytes.size() < sizeof(receipt)) {
        return shm::fail(Errc::wrong_version,
                         "member " + std::to_string(heard.member) + " answered with " +
                             std::to_string(heard.bytes.size()) +
                             " bytes, which have no receipt: is its transport NCCL too?");
    }
    std::memcpy(&receipt, heard.bytes.data(), sizeof(receipt));
    std::uint64_t& received = received_[heard.member];
    received = std::max(received, std::min(receipt.received, sent_));
    if (receipt.answers == 0) return true;
    heard.bytes.erase(heard.bytes.begin(), heard.bytes.begin() + sizeof(receipt));
    answers_.push_back(std::move(heard));
    return true;
}

shm::Result<bool> NcclRoot::busy(std::size_t bytes) {
    CROUPIER_TRY(look_at_control());
    if (sent_ - received_by_all() >= options_.window) return true;
    if (bytes == 0) return false;
    CROUPIER_TRY_VALUE(free, gpus_->may_send(bytes));
    return !free;
}

shm::Result<bool> NcclRoot::send(std::span<const std::uint8_t> record) {
    if (failed_) return *failed_;
    if (record.size() > proto::kMaxRecordBytes) {
        return shm::fail(Errc::bad_argument, "the record has " + std::to_string(record.size()) +
                                                 " bytes, allowed is 0 to " +
                                                 std::to_string(proto::kMaxRecordBytes));
    }
    auto waits = busy(record.size());
    if (!waits) return fail_for_good(waits.error());
    if (waits.value()) return false;
    const FanOutAnnouncement announcement{record.size(), proto::fan_out_checksum(record)};
    std::array<std::uint8_t, sizeof(announcement)> bytes{};
    std::memcpy(bytes.data(), &announcement, sizeof(announcement));
    auto told = control_->send(bytes);
    if (!told) return fail_for_good(told.error());
    if (!told.value()) return false;
    ++sent_;
    if (record.empty()) return true;
    if (auto sent = gpus_->send(record); !sent) return fail_for_good(sent.error());
    return true;
}

shm::Result<std::optional<Answer>> NcclRoot::receive_answer(milliseconds timeout) {
    std::optional<Answer> answer;
    const auto deadline = Clock::now() + timeout;
    while (answers_.empty()) {
        if (failed_) return *failed_;
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
        if (auto heard = hear(std::max(left, milliseconds::zero())); !heard)
            return fail_for_good(heard.error());
        if (answers_.empty() && left <= milliseconds::zero()) return answer;
    }
    answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
}

class NcclMember final : public NcclEnd {
  public:
    using NcclEnd::NcclEnd;

    shm::Result<bool> begin();
    shm::Result<std::optional<std::span<const std::uint8_t>>> receive(milliseconds timeout,
                                                                      int wake) override;
    shm::Result<bool> answer(std::span<const std::uint8_t> bytes) override {
        if (failed_) return *failed_;
        return send_receipt({received_, 1}, bytes);
    }
    bool closed_by_root() const override { return control_->closed_by_root(); }

  private:
    shm::Result<bool> send_receipt(const FanOutReceipt& receipt, std::span<const std::uint8_t> answer);
    shm::Result<bool> look_at_control() override { return hear(milliseconds::zero(), -1); }
    shm::Result<bool> hear(milliseconds timeout, int wake);
    shm::Result<bool> begin_next(Clock::time_point deadline, int wake);
    shm::Result<bool> await_broadcast(Clock::time_point deadline);

    std::deque<FanOutAnnouncement> announced_;
    std::optional<FanOutAnnouncement> under_way_;
    std::uint64_t received_ = 0;
};

shm::Result<bool> NcclMember::send_receipt(const FanOutReceipt& receipt,
                                           std::span<const std::uint8_t> answer) {
    Record bytes(sizeof(receipt));
    std::memcpy(bytes.data(), &receipt, sizeof(receipt));
    bytes.insert(bytes.end(), answer.begin(), answer.end());
    return control_->answer(bytes);
}

shm::Result<bool> NcclMember::begin() {
    // The root starts NCCL when all members have joined, which may take longer than one join.
    CROUPIER_TRY_VALUE(first, control_->receive(kMeetTimeout));
    ncclUniqueId id{};
    if (!first || first->size() != sizeof(id.internal)) {
        return shm::fail(Errc::wrong_version, "the root at " + options_.endpoint +
                                                  " did not send NCCL's id: is its transport NCCL too?");
    }
    std::memcpy(id.internal, first->data(), sizeof(id.internal));
    return meet(id);
}

shm::Result<bool> NcclMember::hear(milliseconds timeout, int wake) {
    CROUPIER_TRY_VALUE(record, control_->receive(timeout, wake));
    if (!record) return true;
    FanOutAnnouncement announcement;
    if (record->size() != sizeof(announcement)) {
        return shm::fail(Errc::wrong_version, "the root at " + options_.endpoint + " announced with " +
                                                  std::to_string(record->size()) + " bytes, not " +
                                                  std::to_string(sizeof(announcement)));
    }
    std::memcpy(&announcement, record->data(), sizeof(announcement));
    if (announcement.length > proto::kMaxRecordBytes) {
        return shm::fail(Errc::wrong_size, "the root at " + options_.endpoint + " announced " +
                                               std::to_string(announcement.length) + " bytes, allowed is " +
                                               std::to_string(proto::kMaxRecordBytes));
    }
    announced_.push_back(announcement);
    return true;
}

shm::Result<bool> NcclMember::begin_next(Clock::time_point deadline, int wake) {
    if (announced_.empty()) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
        CROUPIER_TRY(hear(std::max(left, milliseconds::zero()), wake));
    }
    if (announced_.empty()) return false;
    under_way_ = announced_.front();
    announced_.pop_front();
    if (under_way_->length == 0) return true;
    return gpus_->receive(under_way_->length);
}

shm::Result<bool> NcclMember::await_broadcast(Clock::time_point deadline) {
    auto next_look = Clock::now() + kLook;
    while (true) {
        auto finished = under_way_->length == 0 ? shm::Result<bool>(true) : gpus_->finished();
        if (!finished || finished.value()) return finished;
        const auto now = Clock::now();
        if (now >= next_look) {
            CROUPIER_TRY(look_at_control());
            next_look = now + kLook;
        }
        if (now >= deadline) return false;
        std::this_thread::yield();
    }
}

shm::Result<std::optional<std::span<const std::uint8_t>>> NcclMember::receive(milliseconds timeout,
                                                                              int wake) {
    std::optional<std::span<const std::uint8_t>> record;
    if (failed_) return *failed_;
    const auto deadline = Clock::now() + timeout;
    if (!under_way_) {
        auto begun = begin_next(deadline, wake);
        if (!begun) return fail_for_good(begun.error());
        if (!begun.value()) return record;
    }
    auto finished = await_broadcast(deadline);
    if (!finished) return fail_for_good(finished.error());
    if (!finished.value()) return record;
    record = gpus_->received().first(under_way_->length);
    if (proto::fan_out_checksum(*record) != under_way_->checksum) {
        return fail_for_good({Errc::corrupt_header, "a record of " + std::to_string(record->size()) +
                                                        " bytes from the root at " + options_.endpoint +
                                                        " came damaged over NCCL"});
    }
    under_way_.reset();
    ++received_;
    // If a receipt finds no room, the next one replaces it, because receipts carry a count.
    if (auto told = send_receipt({received_, 0}, {}); !told) return fail_for_good(told.error());
    return record;
}

template <typename End>
shm::Result<std::unique_ptr<FanOut>> begun(std::unique_ptr<End> end) {
    CROUPIER_TRY(end->begin());
    return std::unique_ptr<FanOut>(std::move(end));
}

}  // namespace

shm::Result<std::unique_ptr<FanOut>> open_nccl_fan_out(const FanOutOptions& options) {
    // Checked before joining: the others would wait for a member without NCCL.
    CROUPIER_TRY(NcclLibrary::load());
    CROUPIER_TRY_VALUE(control, open_zmq_fan_out(options));
    if (options.member == 0) return begun(std::make_unique<NcclRoot>(options, std::move(control)));
    return begun(std::make_unique<NcclMember>(options, std::move(control)));
}

}  // namespace croupier::fan_out
