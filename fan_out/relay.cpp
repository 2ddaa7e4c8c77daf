#include "fan_out/relay.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <deque>
#include <stdexcept>
#include <thread>

namespace croupier::fan_out {
namespace {

using shm::Errc;
using std::chrono::milliseconds;

// How late a stop, a dead daemon or a closed session is seen; a record is seen at once.
constexpr milliseconds kLook{20};
// A place that an earlier relay has left is free again when the root has noticed.
constexpr milliseconds kBeforeAnotherTry{200};

bool worth_another_try(Errc code) {
    return code == Errc::timed_out || code == Errc::refused || code == Errc::peer_gone;
}

void log_line(client::RingRelay& ring) {
    if (const std::string line = ring.take_log_line(); !line.empty()) spdlog::info("{}", line);
}

}  // namespace

void Relay::run(const std::atomic<bool>& stop) {
    std::string last_said;
    const auto say_once = [&](const std::string& text) {
        if (text != last_said) spdlog::info("{}", text);
        last_said = text;
    };
    while (!stop.load(std::memory_order_relaxed)) {
        say_once("waiting for a scheduler at " + group_.endpoint);
        auto joined = fan_out::open_fan_out(group_);
        if (joined) {
            spdlog::info("joined as member {} of {}", group_.member, group_.members);
            client::RingRelay ring(directory_, instance_);
            const std::string end = serve(*joined.value(), ring, stop);
            say_once(end);
            ring.let_go("its scheduler is gone");
            log_line(ring);
            continue;
        }
        const shm::Error& error = joined.error();
        if (!worth_another_try(error.code)) throw std::runtime_error(error.message);
        if (error.code == Errc::timed_out) continue;
        say_once(error.message);
        std::this_thread::sleep_for(kBeforeAnotherTry);
    }
}

std::string Relay::serve(FanOut& group, client::RingRelay& ring, const std::atomic<bool>& stop) {
    std::deque<client::AnswerBytes> answers;
    while (!stop.load(std::memory_order_relaxed)) {
        const auto record = group.receive(answers.empty() ? kLook : milliseconds(1));
        if (!record) return record.error().message;
        if (record.value()) {
            if (auto answer = ring.apply(*record.value())) answers.push_back(std::move(*answer));
        }
        if (auto news = ring.news()) answers.push_back(std::move(*news));
        log_line(ring);
        while (!answers.empty()) {
            const auto sent = group.answer(answers.front());
            if (!sent) return sent.error().message;
            if (!sent.value()) break;
            answers.pop_front();
        }
    }
    return "stopped";
}

}  // namespace croupier::fan_out
