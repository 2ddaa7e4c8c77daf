#include "gpu_writer/wish_server.h"

#include <sys/prctl.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "gpu_writer/decided_tokens.h"
#include "shm/logits_publisher.h"
#include "shm/wait_strategy.h"
#include "shm/wishes.h"

namespace croupier::gpu_writer {
namespace {

using Clock = std::chrono::steady_clock;

// Many sessions ask for nothing. Where somebody did lately, an answer is worth a core while logits are there.
constexpr std::chrono::microseconds kBetweenLooks{20};
constexpr std::chrono::milliseconds kWishesFollow{100};
constexpr shm::WaitSettings kAfterLogits{shm::WaitMode::adaptive, std::chrono::milliseconds(2),
                                         std::chrono::microseconds(20)};
constexpr std::size_t kLongestList = 1024;
// A sampler may die between its wish and the count that announces it.
constexpr std::chrono::milliseconds kLookAtAll{2};

}  // namespace

void own_bits(std::span<const std::uint64_t> all, std::uint32_t first_block, std::uint32_t blocks,
              std::span<std::uint64_t> own) {
    const std::size_t word = first_block / 64;
    const std::uint32_t shift = first_block % 64;
    for (std::size_t i = 0; i < own.size(); ++i) {
        const std::uint64_t low = word + i < all.size() ? all[word + i] >> shift : 0;
        const bool more = shift > 0 && word + i + 1 < all.size();
        own[i] = more ? low | all[word + i + 1] << (64 - shift) : low;
    }
    // The next rank's first blocks.
    if (blocks % 64 != 0) own[blocks / 64] &= (std::uint64_t{1} << (blocks % 64)) - 1;
}

void list_bits(std::span<const std::uint64_t> own, std::vector<std::uint16_t>& list) {
    list.clear();
    for (std::size_t word = 0; word < own.size(); ++word) {
        for (std::uint64_t bits = own[word]; bits != 0; bits &= bits - 1) {
            const std::size_t block = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
            list.push_back(static_cast<std::uint16_t>(block));
        }
        if (list.size() > kLongestList) return list.clear();
    }
}

WishServer::WishServer(const shm::Segment& segment, std::uint32_t rank, Answer answer)
    : segment_(segment),
      rank_(rank),
      answer_(std::move(answer)),
      seen_(segment.geometry().slots),
      answered_(std::size_t{segment.geometry().slots} * segment.geometry().max_batch),
      thread_([this] { serve(); }) {}

WishServer::~WishServer() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void WishServer::watch(const BegunStep& step) {
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
            return over_ || std::none_of(watched_.begin(), watched_.end(), [&](const BegunStep& each) {
                       return each.step != step.step &&
                              segment_.slot_of(each.step) == segment_.slot_of(step.step);
                   });
        });
        std::erase_if(watched_, [&](const BegunStep& each) { return each.step == step.step; });
        watched_.push_back(step);
    }
    changed_.notify_all();
}

bool WishServer::is_over(const BegunStep& step) const {
    // An error: its slot holds a later step.
    const auto decided = is_decided(segment_, step.step, step.columns);
    return !decided || decided.value() || session_over();
}

bool WishServer::session_over() const {
    const auto state = segment_.header().state.load(std::memory_order_acquire);
    return state == proto::SessionState::closed || state == proto::SessionState::fenced;
}

bool WishServer::look(const BegunStep& step, bool at_all) {
    const std::uint32_t slot = segment_.slot_of(step.step);
    const shm::Wishes wishes(segment_, step.step, shm::slice_epochs(segment_, step.step));
    const std::uint64_t posted = wishes.posted();
    if (posted == seen_[slot] && !at_all) return false;
    seen_[slot] = posted;
    wishes_.clear();
    for (std::uint32_t column = 0; column < step.columns; ++column) {
        const std::uint64_t word = wishes.unanswered(column, rank_);
        std::uint64_t& answered = answered_[std::size_t{slot} * segment_.geometry().max_batch + column];
        if (word == 0 || word == answered) continue;
        answered = word;
        wishes_.push_back({column, word, wishes.bits(column)});
    }
    if (!wishes_.empty()) answer_(step, wishes_);
    return !wishes_.empty();
}

// One look at each of them; those that are over go to `over`.
WishServer::Found WishServer::look_at(std::span<const BegunStep> steps, std::vector<std::uint64_t>& over) {
    const auto now = Clock::now();
    const bool at_all = now - looked_at_all_ >= kLookAtAll;
    if (at_all) looked_at_all_ = now;
    Found found;
    for (const BegunStep& step : steps) {
        if (is_over(step)) {
            over.push_back(step.step);
            continue;
        }
        const bool ready = shm::slice_ready(segment_, step.step, rank_);
        found.logits = found.logits || ready;
        if (ready && look(step, at_all)) ++found.wishes;
    }
    return found;
}

void WishServer::serve() {
    // The kernel's default slack of 50 us would more than double each sleep.
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    shm::WaitStrategy patience(kAfterLogits);
    std::vector<BegunStep> steps;
    std::vector<std::uint64_t> done;
    const auto sleep = [](std::chrono::nanoseconds longest) { std::this_thread::sleep_for(longest); };
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return over_ || !watched_.empty(); });
        if (over_) return;
        steps.assign(watched_.begin(), watched_.end());
        done.clear();
        lock.unlock();
        const Found found = look_at(steps, done);
        if (found.wishes > 0) last_wish_ = Clock::now();
        if (found.logits && Clock::now() - last_wish_ < kWishesFollow) {
            patience.idle(found.wishes, sleep);
        } else if (done.empty()) {
            sleep(kBetweenLooks);
        }
        lock.lock();
        std::erase_if(watched_, [&done](const BegunStep& each) {
            return std::find(done.begin(), done.end(), each.step) != done.end();
        });
        if (!done.empty()) changed_.notify_all();
    }
}

}  // namespace croupier::gpu_writer
