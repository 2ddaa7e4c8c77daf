#include "fan_out/relay.h"

#include <chrono>
#include <deque>
#include <stdexcept>
#include <thread>

#include "event_log/event_log.h"
#include "shm/clock.h"

namespace croupier::fan_out {
namespace {

using client::RelayNews;
using event_log::Event;
using shm::Errc;
using std::chrono::milliseconds;

// The longest delay until the relay sees a stop, a dead daemon or a closed session. A record or a decided
// step ends the wait at once.
constexpr milliseconds kLook{20};
// So long it waits for a root that took its hello and says nothing: another one may listen there by now.
constexpr std::chrono::seconds kInOnePlace{30};
// An earlier relay's place is free when the root has noticed that it left.
constexpr milliseconds kBeforeAnotherTry{200};

bool worth_another_try(Errc code) {
    return code == Errc::timed_out || code == Errc::refused || code == Errc::peer_gone;
}

void add(std::atomic<std::uint64_t>& to, std::uint64_t more) {
    to.fetch_add(more, std::memory_order_relaxed);
}

void log_news(const RelayNews& news) {
    switch (news.kind) {
        case RelayNews::Kind::attached:
            return event_log::write(Event::relay_attached,
                                    {{"session", news.session}, {"segment", news.text}},
                                    "session {}: attached at {}", news.session, news.text);
        case RelayNews::Kind::let_go:
            return event_log::write(Event::relay_let_go, {{"session", news.session}, {"reason", news.text}},
                                    "session {}: let go, {}", news.session, news.text);
        case RelayNews::Kind::refused:
            return event_log::write(Event::relay_refused_record, {{"session", news.session}},
                                    "refused a record: {}", news.text);
    }
}

void say_stopped() {
    event_log::write(Event::relay_stopped, {}, "stopped");
    event_log::report_all_left_out();
}

}  // namespace

void Relay::say_waiting(const std::string& refusal) {
    const std::string status =
        refusal.empty() ? "waiting for a scheduler at " + group_.endpoint : "not joined: " + refusal;
    if (status == said_) return;
    said_ = status;
    if (refusal.empty()) {
        event_log::write(Event::relay_waiting, {{"root", group_.endpoint}}, "{}", status);
    } else {
        event_log::write(Event::relay_not_joined, {{"root", group_.endpoint}, {"reason", refusal}}, "{}",
                         status);
    }
    observer_.on_status(status);
}

void Relay::run(const std::atomic<bool>& stop) {
    while (!stop.load(std::memory_order_relaxed)) (void)join_and_serve(stop);
    say_stopped();
}

void Relay::run_once(const std::atomic<bool>& stop) {
    while (!stop.load(std::memory_order_relaxed) && !join_and_serve(stop)) continue;
    say_stopped();
}

bool Relay::join_and_serve(const std::atomic<bool>& stop) {
    const auto look = [&] {
        observer_.on_look();
        event_log::report_left_out();
        return !stop.load(std::memory_order_relaxed);
    };
    look();
    FanOutOptions group = group_;
    const auto until = std::chrono::steady_clock::now() + kInOnePlace;
    // A relay that left and came again for each look could leave just when the scheduler has let it in.
    group.waits_on = [&] {
        say_waiting("");
        return look() && std::chrono::steady_clock::now() < until;
    };
    auto joined = fan_out::open_fan_out(group);
    if (joined) {
        serve_group(*joined.value(), stop);
        return true;
    }
    const shm::Error& error = joined.error();
    if (!worth_another_try(error.code)) throw std::runtime_error(error.message);
    if (error.code == Errc::timed_out) {
        say_waiting("");
        return false;
    }
    add(counts_.joins_refused, 1);
    say_waiting(error.message);
    std::this_thread::sleep_for(kBeforeAnotherTry);
    return false;
}

void Relay::serve_group(FanOut& group, const std::atomic<bool>& stop) {
    said_.clear();
    counts_.caught_up_at_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
    counts_.joined.store(true, std::memory_order_relaxed);
    add(counts_.groups, 1);
    event_log::write(Event::relay_joined, {{"member", group_.member}, {"members", group_.members}},
                     "joined as member {} of {}", group_.member, group_.members);
    observer_.on_status("serving the scheduler at " + group_.endpoint);
    client::RingRelay ring;
    client::ControlForwarder control(daemon_, group_.keys.peer_public);
    const std::string end = serve(group, ring, control, stop);
    counts_.answers_waiting.store(0, std::memory_order_relaxed);
    if (!end.empty()) {
        add(counts_.groups_lost, group.closed_by_root() ? 0 : 1);
        event_log::write(Event::relay_left, {{"reason", end}}, "{}", end);
    }
    ring.let_go(end.empty() ? "the relay stops" : "its scheduler is gone");
    note(ring);
    // Last, so that the other counts are right when it is 0.
    counts_.joined.store(false, std::memory_order_relaxed);
}

std::optional<client::AnswerBytes> Relay::apply(client::RingRelay& ring, client::ControlForwarder& control,
                                                std::span<const std::uint8_t> record) {
    if (client::ControlForwarder::is_request(record)) return control.forward(record);
    add(counts_.records, 1);
    add(counts_.record_bytes, record.size());
    const std::uint64_t begin = shm::monotonic_ns();
    auto answer = ring.apply(record);
    add(counts_.apply_ns, shm::monotonic_ns() - begin);
    return answer;
}

void Relay::note(client::RingRelay& ring) {
    counts_.attached.store(ring.attached(), std::memory_order_relaxed);
    counts_.steps_in_flight.store(ring.steps_in_flight(), std::memory_order_relaxed);
    for (const RelayNews& news : ring.take_news()) {
        add(counts_.attachments, news.kind == RelayNews::Kind::attached ? 1 : 0);
        add(counts_.records_refused, news.kind == RelayNews::Kind::refused ? 1 : 0);
        log_news(news);
    }
}

std::string Relay::serve(FanOut& group, client::RingRelay& ring, client::ControlForwarder& control,
                         const std::atomic<bool>& stop) {
    std::deque<client::AnswerBytes> answers;
    while (!stop.load(std::memory_order_relaxed)) {
        observer_.on_look();
        event_log::report_left_out();
        auto record = group.receive(milliseconds::zero());
        if (record && !record.value()) {
            counts_.caught_up_at_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
            record = group.receive(answers.empty() ? kLook : milliseconds(1), ring.descriptor());
        }
        if (!record) return record.error().message;
        if (record.value()) {
            if (auto answer = apply(ring, control, *record.value())) answers.push_back(std::move(*answer));
        }
        while (auto news = control.news()) {
            ring.allow(control.opened().id, control.opened().segment_path);
            answers.push_back(std::move(*news));
        }
        while (auto news = ring.news()) {
            observer_.on_look();
            answers.push_back(std::move(*news));
        }
        note(ring);
        while (!answers.empty()) {
            const auto sent = group.answer(answers.front());
            if (!sent) return sent.error().message;
            if (!sent.value()) break;
            answers.pop_front();
            add(counts_.answers, 1);
        }
        counts_.answers_waiting.store(answers.size(), std::memory_order_relaxed);
    }
    return "";
}

}  // namespace croupier::fan_out
