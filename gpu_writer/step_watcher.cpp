#include "gpu_writer/step_watcher.h"

#include <algorithm>
#include <utility>

#include "gpu_writer/decided_tokens.h"
#include "shm/bell.h"
#include "shm/clock.h"
#include "shm/logits_publisher.h"

namespace croupier::gpu_writer {
namespace {

// An answer to a request is worth a core while a step has its logits: after a recent request the thread spins
// for so long since something last happened.
constexpr std::chrono::milliseconds kSpin{5};
constexpr std::chrono::microseconds kBetweenLateLooks{50};
// A step that has its logits is not decided for so long where no daemon is there.
constexpr std::chrono::seconds kUntilIdle{1};
// Many sessions request nothing. After a recent request, more are expected.
constexpr std::chrono::milliseconds kRequestsFollow{100};
// A sampler may die between its request and the count that announces it.
constexpr std::chrono::milliseconds kLookAtAll{2};
// Where rows stay the GPU need not wait for requests at all.
constexpr std::chrono::seconds kUntilRest{1};

}  // namespace

StepWatcher::StepWatcher(const shm::Segment& segment, std::uint32_t rank, Calls calls,
                         std::chrono::nanoseconds answered_at_most)
    : segment_(segment),
      rank_(rank),
      calls_(std::move(calls)),
      answered_at_most_(answered_at_most),
      rested_(segment.geometry().slots),
      sent_(segment.geometry().slots) {
    if (calls_.answer) answers_.emplace(segment, rank, calls_.answer);
    thread_ = std::thread([this] { serve(); });
}

StepWatcher::~StepWatcher() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

// Under mutex_. Whether there was one.
template <typename Which>
bool StepWatcher::stop_watching(Which which) {
    return std::erase_if(watched_, [&](const WatchedStep& each) {
               if (!which(each)) return false;
               calls_.end(each);
               return true;
           }) > 0;
}

std::uint64_t StepWatcher::watch(const BegunStep& step) {
    std::uint64_t opening = 0;
    {
        std::unique_lock lock(mutex_);
        ++asked_;
        changed_.notify_all();
        changed_.wait(lock, [&] {
            return over_ || std::none_of(watched_.begin(), watched_.end(), [&](const WatchedStep& each) {
                       return each.begun.step != step.step &&
                              segment_.slot_of(each.begun.step) == segment_.slot_of(step.step);
                   });
        });
        // Nobody is still looking at it as it was.
        if (stop_watching([&](const WatchedStep& each) { return each.begun.step == step.step; })) {
            const std::lock_guard looked(looking_);
        }
        opening = ++openings_;
        watched_.push_back({step, opening});
        ++asked_;
    }
    changed_.notify_all();
    return opening;
}

void StepWatcher::forget_after(std::uint64_t finished) {
    {
        const std::lock_guard lock(mutex_);
        stop_watching([&](const WatchedStep& each) { return each.begun.ticket > finished; });
    }
    const std::lock_guard looked(looking_);
}

void StepWatcher::repeat_answers(std::uint64_t step) {
    {
        const std::lock_guard lock(mutex_);
        repeated_.push_back(step);
        ++asked_;
    }
    changed_.notify_all();
}

bool StepWatcher::session_over() const {
    const auto state = segment_.header().state.load(std::memory_order_acquire);
    return state == proto::SessionState::closed || state == proto::SessionState::fenced;
}

bool StepWatcher::is_over(const WatchedStep& step, Clock::time_point now) {
    const std::uint64_t number = step.begun.step;
    const auto& head = segment_.decision_head(segment_.slot_of(number));
    // Before state_of(), which says whether the slot is still the step's.
    const std::uint64_t ready_ns = head.logits_ready_ns.load(std::memory_order_relaxed);
    const StepState state = state_of(segment_, number, step.begun.columns);
    if (state == StepState::overwritten) return true;
    if (state == StepState::decided) {
        // It may have been decided between two looks. 0: before all of it was there.
        if (ready_ns != 0) note_ready(number, ready_ns);
        calls_.landed(number);
        return true;
    }
    return session_over() || (answers_ && answered_for(step, now) > answered_at_most_ && !calls_.stays(step));
}

// Not since the step was begun: an engine may begin a step long before its model runs, and until then nothing
// is requested, nothing waits for requests, and it is not known whether the rows stay.
StepWatcher::Clock::duration StepWatcher::answered_for(const WatchedStep& step, Clock::time_point now) {
    if (!shm::slice_ready(segment_, step.begun.step, rank_)) return {};
    Sent& sent = sent_[segment_.slot_of(step.begun.step)];
    if (sent.opening != step.opening) sent = {step.opening, now};
    return now - sent.at;
}

// Rings for the first tiles, so that the samplers are awake when the last land, and for the last.
void StepWatcher::ring_if_landed(const BegunStep& step, bool all) {
    const bool some = all || shm::tiles_ready(segment_, step.step, rank_) > 0;
    if (!some || (!all && rung_for_first_ == step.step)) return;
    rung_for_first_ = step.step;
    shm::ring(segment_.header().bell);
}

void StepWatcher::let_rest(const WatchedStep& step, Clock::time_point now) {
    auto& rested = rested_[segment_.slot_of(step.begun.step)];
    if (now - std::max(rested, step.since) < kUntilRest) return;
    rested = now;
    if (calls_.rest(step)) answers_->repeat(step.begun.step);
}

// Whether nobody had seen the step's logits.
bool StepWatcher::note_ready(std::uint64_t step, std::uint64_t ready_ns) {
    if (step < next_ready_) return false;
    next_ready_ = step + 1;
    forecast_.note(step, ready_ns);
    return true;
}

StepWatcher::Found StepWatcher::look_at(std::span<const WatchedStep> steps) {
    const auto now = Clock::now();
    const bool at_all = now - looked_at_all_ >= kLookAtAll;
    if (at_all) looked_at_all_ = now;
    Found found;
    for (const WatchedStep& step : steps) {
        if (is_over(step, now)) {
            ended_.push_back(step);
            continue;
        }
        if (answers_) let_rest(step, now);
        const bool ready = shm::slice_ready(segment_, step.begun.step, rank_);
        const bool fresh = ready && note_ready(step.begun.step, shm::monotonic_ns());
        if (fresh) calls_.landed(step.begun.step);
        if (calls_.rings && (fresh || !ready)) ring_if_landed(step.begun, ready);
        found.progress = found.progress || fresh;
        found.logits = found.logits || ready;
        // All of it stands in its slice, and the bell has rung.
        if (ready && !answers_) ended_.push_back(step);
        if (!ready || !answers_ || answers_->look(step, at_all) == 0) continue;
        found.progress = true;
        last_request_ = now;
    }
    found.progress = found.progress || !ended_.empty();
    return found;
}

// One that is watched anew meanwhile has another opening.
void StepWatcher::forget_ended() {
    if (ended_.empty()) return;
    stop_watching([this](const WatchedStep& each) {
        return std::any_of(ended_.begin(), ended_.end(),
                           [&each](const WatchedStep& of) { return of.opening == each.opening; });
    });
    ended_.clear();
    changed_.notify_all();
}

// Under the lock.
std::chrono::nanoseconds StepWatcher::until_next_look(bool has_logits, Clock::time_point now) const {
    const auto quiet = now - last_progress_;
    if (has_logits && quiet < kSpin) return kBetweenLooks;
    if (has_logits) return quiet < kUntilIdle ? kBetweenLateLooks : kLongestSleep;
    const auto since_begun = watched_.empty() ? Clock::duration{} : now - watched_.front().since;
    return until_look_for_logits(forecast_, shm::monotonic_ns(), since_begun);
}

// Under the lock. `seen`: what had been asked of the thread before it looked.
void StepWatcher::pause(std::unique_lock<std::mutex>& lock, const Found& found, std::uint64_t seen) {
    const auto now = Clock::now();
    if (found.progress) {
        last_progress_ = now;
        return;
    }
    const bool spins = found.logits && now - last_request_ < kRequestsFollow;
    if (spins && now - last_progress_ < kSpin) return;
    changed_.wait_for(lock, until_next_look(found.logits, now), [&] { return asked_ != seen; });
}

void StepWatcher::serve() {
    begin_punctual_thread("croupier-watch");
    std::vector<WatchedStep> steps;
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return over_ || !watched_.empty(); });
        if (over_) return;
        steps.assign(watched_.begin(), watched_.end());
        for (const std::uint64_t step : repeated_) answers_->repeat(step);
        repeated_.clear();
        const std::uint64_t seen = asked_;
        std::unique_lock looking(looking_);
        lock.unlock();
        const Found found = look_at(steps);
        looking.unlock();
        lock.lock();
        forget_ended();
        pause(lock, found, seen);
    }
}

}  // namespace croupier::gpu_writer
