#include "gpu_writer/wish_server.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "gpu_writer/decided_tokens.h"
#include "shm/clock.h"
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
// A sampler may die between its wish and the count that announces it.
constexpr std::chrono::milliseconds kLookAtAll{2};
// A GPU that waits for what nobody will ask for, because the daemon is gone for good, hangs who waits for the
// GPU: as long as engines wait for one call of a worker, no longer.
constexpr std::chrono::seconds kAnsweredAtMost{300};
// Where rows stay the GPU need not wait for that at all.
constexpr std::chrono::seconds kUntilRest{1};

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

WishServer::WishServer(const shm::Segment& segment, std::uint32_t rank, Calls calls)
    : segment_(segment),
      rank_(rank),
      calls_(std::move(calls)),
      seen_(segment.geometry().slots),
      answered_(std::size_t{segment.geometry().slots} * segment.geometry().max_batch),
      answered_in_(segment.geometry().slots, ~0ULL),
      rested_(segment.geometry().slots),
      thread_([this] { serve(); }) {}

WishServer::~WishServer() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

// Under mutex_. Whether there was one.
template <typename Which>
bool WishServer::stop_watching(Which which) {
    return std::erase_if(watched_, [&](const WatchedStep& each) {
               if (!which(each)) return false;
               calls_.end(each);
               return true;
           }) > 0;
}

void WishServer::watch(const WatchedStep& step) {
    const std::uint64_t number = step.begun.step;
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
            return over_ || std::none_of(watched_.begin(), watched_.end(), [&](const WatchedStep& each) {
                       return each.begun.step != number &&
                              segment_.slot_of(each.begun.step) == segment_.slot_of(number);
                   });
        });
        // Nobody is still looking at it as it was.
        if (stop_watching([&](const WatchedStep& each) { return each.begun.step == number; })) {
            const std::lock_guard looked(looking_);
        }
        watched_.push_back(step);
    }
    changed_.notify_all();
}

void WishServer::leave_slot(std::uint32_t slot) {
    {
        const std::lock_guard lock(mutex_);
        stop_watching([&](const WatchedStep& each) { return segment_.slot_of(each.begun.step) == slot; });
    }
    changed_.notify_all();
    const std::lock_guard looked(looking_);
}

bool WishServer::is_over(const BegunStep& step) const {
    // An error: its slot holds a later step.
    const auto decided = is_decided(segment_, step.step, step.columns);
    return !decided || decided.value() || session_over();
}

bool WishServer::is_too_old(const WatchedStep& step, Clock::time_point now) const {
    return now - step.since > kAnsweredAtMost && !calls_.stays(step);
}

void WishServer::let_rest(const WatchedStep& step, Clock::time_point now) {
    auto& rested = rested_[segment_.slot_of(step.begun.step)];
    if (now - std::max(rested, step.since) < kUntilRest) return;
    rested = now;
    if (calls_.rest(step)) forget_answers(step.begun.step);
}

void WishServer::forget_answers(std::uint64_t step) {
    const std::uint32_t slot = segment_.slot_of(step);
    const std::uint32_t columns = segment_.geometry().max_batch;
    const auto own = std::span(answered_).subspan(std::size_t{slot} * columns, columns);
    std::fill(own.begin(), own.end(), 0);
    seen_[slot] = 0;
}

void WishServer::ask_again(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    again_.push_back(step);
}

bool WishServer::session_over() const {
    const auto state = segment_.header().state.load(std::memory_order_acquire);
    return state == proto::SessionState::closed || state == proto::SessionState::fenced;
}

// How many wishes are on their way to their answers since the last look.
std::size_t WishServer::look(const WatchedStep& watched, bool at_all) {
    const BegunStep& step = watched.begun;
    const std::uint32_t slot = segment_.slot_of(step.step);
    const shm::Wishes wishes(segment_, step.step, shm::writer_epochs(segment_));
    const std::uint64_t posted = wishes.posted();
    if (posted == seen_[slot] && !at_all) return 0;
    // A word comes round after 2^28 steps: that of another step answers none of this one's.
    if (std::exchange(answered_in_[slot], step.step) != step.step) forget_answers(step.step);
    std::size_t found = 0;
    bool all = true;
    for (std::uint32_t column = 0; column < step.columns; ++column) {
        const std::uint64_t word = wishes.unanswered(column, rank_);
        std::uint64_t& answered = answered_[std::size_t{slot} * segment_.geometry().max_batch + column];
        if (word == 0 || word == answered) continue;
        if (calls_.answer(watched, {column, word, wishes.bits(column)})) {
            answered = word;
            ++found;
        } else {
            all = false;
        }
    }
    if (all) seen_[slot] = posted;
    return found;
}

WishServer::Found WishServer::look_at(std::span<const WatchedStep> steps) {
    const auto now = Clock::now();
    const bool at_all = now - looked_at_all_ >= kLookAtAll;
    if (at_all) looked_at_all_ = now;
    Found found;
    for (const WatchedStep& step : steps) {
        if (is_over(step.begun) || is_too_old(step, now)) {
            ended_.push_back(step);
            continue;
        }
        let_rest(step, now);
        const bool ready = shm::slice_ready(segment_, step.begun.step, rank_);
        found.logits = found.logits || ready;
        found.fresh = found.fresh || (ready && note_ready(step.begun.step));
        if (!ready) continue;
        found.wishes += look(step, at_all);
        calls_.follow(step);
    }
    return found;
}

void WishServer::serve() {
    // The kernel's default slack of 50 us would more than double each sleep.
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    shm::WaitStrategy patience(kAfterLogits);
    std::vector<WatchedStep> steps;
    const auto sleep = [](std::chrono::nanoseconds longest) { std::this_thread::sleep_for(longest); };
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return over_ || !watched_.empty(); });
        if (over_) return;
        steps.assign(watched_.begin(), watched_.end());
        for (const std::uint64_t step : again_) forget_answers(step);
        again_.clear();
        std::unique_lock looking(looking_);
        lock.unlock();
        const Found found = look_at(steps);
        looking.unlock();
        if (found.wishes > 0) last_wish_ = Clock::now();
        const bool soon = forecast_.due(shm::monotonic_ns());
        if ((found.logits || soon) && Clock::now() - last_wish_ < kWishesFollow) {
            patience.idle(found.wishes + (found.fresh ? 1 : 0), sleep, soon);
        } else if (ended_.empty()) {
            sleep(kBetweenLooks);
        }
        lock.lock();
        forget_ended();
    }
}

// Whether nobody had seen the step's logits.
bool WishServer::note_ready(std::uint64_t step) {
    if (step < next_ready_) return false;
    next_ready_ = step + 1;
    forecast_.note(step, shm::monotonic_ns());
    return true;
}

// One that is watched anew meanwhile has another opening.
void WishServer::forget_ended() {
    if (ended_.empty()) return;
    stop_watching([this](const WatchedStep& each) {
        return std::any_of(ended_.begin(), ended_.end(), [&each](const WatchedStep& of) {
            return of.begun.step == each.begun.step && of.opening == each.opening;
        });
    });
    ended_.clear();
    changed_.notify_all();
}

}  // namespace croupier::gpu_writer
