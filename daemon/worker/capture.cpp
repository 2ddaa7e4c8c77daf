#include "daemon/worker/capture.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "event_log/event_log.h"
#include "sampler/blocked_row.h"
#include "shm/futex.h"

namespace croupier::daemon {
namespace {

template <typename T>
std::uint32_t append(std::vector<std::byte>& to, std::span<const T> from) {
    const auto bytes = std::as_bytes(from);
    to.insert(to.end(), bytes.begin(), bytes.end());
    return static_cast<std::uint32_t>(from.size());
}

}  // namespace

bool CapturedColumn::keep_row(const sampler::RowView& row, sampler::Workspace& workspace) {
    const sampler::BlockedRow blocks = sampler::lay_in_blocks(row, workspace);
    const std::size_t block_bytes = std::size_t{sampler::kBlock} * proto::element_bytes(row.dtype);
    // Under a mask nobody needs to read what it hides, but a capture has the row as it stands.
    if (blocks.lean != nullptr && blocks.lean->masked_in_part) blocks.lean->forget_told();
    for (std::uint32_t b = 0; b < blocks.blocks; ++b) (void)blocks.block(b);
    if (blocks.lacks_blocks()) return false;
    head_ = {};
    head_.dtype = row.dtype;
    head_.vocab = row.vocab;
    const std::size_t row_bytes = std::size_t{row.vocab} * proto::element_bytes(row.dtype);
    bytes_.resize(sizeof(head_) + proto::captured_row_bytes(head_));
    for (std::uint32_t b = 0; b < blocks.blocks; ++b) {
        const std::size_t at = b * block_bytes;
        std::memcpy(bytes_.data() + sizeof(head_) + at, blocks.block(b),
                    std::min(block_bytes, row_bytes - at));
    }
    return true;
}

void CapturedColumn::keep_request(const sampler::Request& request, std::span<const std::int32_t> stop_words,
                                  bool randoms_supplied, request::DecisionPath path) {
    head_.max_length = request.max_length;
    head_.random = request.random;
    head_.randoms_supplied = randoms_supplied ? 1 : 0;
    head_.feedback = request.feedback;
    head_.params = *request.params;
    std::strncpy(head_.path, request::name_of(path), sizeof(head_.path) - 1);
    head_.mask_words = append(bytes_, request.mask);
    head_.prompt = append(bytes_, request.prompt);
    head_.output = append(bytes_, request.output);
    head_.biases = append(bytes_, request.bias);
    head_.stop_ids = append(bytes_, request.stop_ids);
    head_.allowed_ids = append(bytes_, request.allowed_ids);
    head_.bad_words = append(bytes_, request.bad_words);
    head_.breakers = append(bytes_, request.dry_breakers);
    head_.hot_blocks = append(bytes_, request.hot_blocks);
    head_.stop_words = append(bytes_, stop_words);
    kept_ = true;
}

void CapturedColumn::forget() {
    bytes_ = {};
    kept_ = false;
}

std::vector<std::byte> CapturedColumn::take(const AskedCapture& asked, std::uint64_t session_id,
                                            std::uint64_t step, std::uint32_t column,
                                            const proto::Decision& decision) {
    head_.magic = proto::kCaptureMagic;
    head_.version = proto::kCaptureVersion;
    head_.bytes = sizeof(head_);
    head_.number = asked.number;
    head_.session_id = session_id;
    head_.step = step;
    head_.column = column;
    head_.decision = decision;
    std::memcpy(bytes_.data(), &head_, sizeof(head_));
    kept_ = false;
    return std::exchange(bytes_, {});
}

Captures Captures::attach(const std::string& directory, const std::string& instance) {
    Captures captures;
    auto queue = shm::CaptureExchange::attach(directory, instance);
    if (queue) {
        captures.queue_.emplace(std::move(queue).value());
    } else if (queue.error().code != shm::Errc::not_found) {
        event_log::write(event_log::Event::capture_failed, {},
                         "/explain cannot record decisions of this sampler: {}", queue.error().message);
    }
    return captures;
}

std::optional<AskedCapture> Captures::asked(std::uint64_t session_id) const {
    if (!queue_) return std::nullopt;
    const proto::CaptureExchange& words = queue_->words();
    if (words.asked.load(std::memory_order_relaxed) == 0) return std::nullopt;
    // SYNC: acquire; pairs with the supervisor's release, after what is asked for.
    const std::uint64_t number = words.asked.load(std::memory_order_acquire);
    const AskedCapture asked{number, words.uid.load(std::memory_order_relaxed)};
    if (number == 0 || words.session_id.load(std::memory_order_relaxed) != session_id) return std::nullopt;
    // SYNC: acquire; the words were those of this request if its number still stands behind them.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (words.asked.load(std::memory_order_relaxed) != number) return std::nullopt;
    return asked;
}

void Captures::give(const AskedCapture& asked, const std::vector<std::byte>& captured) const {
    proto::CaptureExchange& words = queue_->words();
    if (words.asked.load(std::memory_order_relaxed) != asked.number) return;
    const auto left = queue_->leave(captured);
    // Another sampler was first, with an earlier decision or this one.
    if (!left && left.error().code == shm::Errc::already_held) return;
    if (!left) {
        event_log::write(event_log::Event::capture_failed, {}, "/explain lost a decision: {}",
                         left.error().message);
    }
    auto& answered = left ? words.given : words.failed;
    // SYNC: release; pairs with the supervisor's acquire: the file is there.
    answered.store(asked.number, std::memory_order_release);
    std::uint64_t number = asked.number;
    words.asked.compare_exchange_strong(number, 0, std::memory_order_relaxed);
    words.bell.fetch_add(1, std::memory_order_release);
    shm::futex_wake_all(words.bell);
}

}  // namespace croupier::daemon
