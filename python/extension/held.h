// A handle of the C ABI as an object of Python's: used by one thread at a time, by the process that made it,
// and not after it is closed.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "python/extension/failure.h"

namespace croupier::python {

// Threads get their turn in the order in which they asked: one that waits for a step in slices would else
// keep all others out.
class Turns {
  public:
    enum class Patience { waits, looks };

    // Of a thread that only looks, whether it has one: not where another has, or asked before.
    class DueColumn {
      public:
        DueColumn(Turns& turns, Patience patience) : turns_(&turns) {
            std::unique_lock lock(turns.mutex_);
            if (patience == Patience::looks && turns.serving_ != turns.next_) return;
            const std::uint64_t mine = turns.next_++;
            turns.changed_.wait(lock, [&] { return turns.serving_ == mine; });
            taken_ = true;
        }
        DueColumn(const DueColumn&) = delete;
        DueColumn& operator=(const DueColumn&) = delete;
        ~DueColumn() {
            if (!taken_) return;
            const std::lock_guard lock(turns_->mutex_);
            ++turns_->serving_;
            turns_->changed_.notify_all();
        }

        bool is_taken() const { return taken_; }

      private:
        Turns* turns_;
        bool taken_ = false;
    };

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t next_ = 0;
    std::uint64_t serving_ = 0;
};

template <typename Handle>
class Held {
  public:
    // `what` as it stands in errors, such as "session".
    Held(const char* what, Handle* handle) : what_(what), handle_(handle) {}

    // Without the GIL and with the handle to itself.
    template <typename Body>
    auto use(Body&& body) {
        const nb::gil_scoped_release released;
        return use_without_gil(body);
    }

    // The same of a caller that has let go of the GIL.
    template <typename Body>
    auto use_without_gil(Body&& body) {
        check_home();
        const Turns::DueColumn turn(turns_, Turns::Patience::waits);
        return body(open_handle());
    }

    // As use(), of a body that never waits, which keeps the GIL: a thread that lets go of it gets it back
    // when others let go of theirs, which a busy one does every five milliseconds. Where another thread has
    // the handle, this one waits for it without the GIL.
    template <typename Body>
    auto use_briefly(Body&& body) {
        check_home();
        if (const Turns::DueColumn turn(turns_, Turns::Patience::looks); turn.is_taken())
            return body(open_handle());
        return use(body);
    }

    // The same, the last time; nothing happens where it was taken apart before.
    template <typename Body>
    void take_apart(Body&& body) {
        check_home();
        const nb::gil_scoped_release released;
        const Turns::DueColumn turn(turns_, Turns::Patience::waits);
        if (Handle* handle = std::exchange(handle_, nullptr); handle != nullptr) body(handle);
    }

    // For destructors, when no other thread can have a turn. A forked child can take nothing apart: what it
    // holds is a copy of its parent's.
    template <typename Body>
    void let_go(Body&& body) {
        if (::getpid() != home_ || handle_ == nullptr) return;
        const nb::gil_scoped_release released;
        body(std::exchange(handle_, nullptr));
    }

    bool is_open() const { return handle_ != nullptr; }

  private:
    Handle* open_handle() const {
        if (handle_ != nullptr) return handle_;
        throw Failure(CROUPIER_ERROR_SESSION_CLOSED, std::string("this ") + what_ +
                                                         " was closed or detached and can do nothing more: "
                                                         "make another");
    }

    // Before the lock: a thread of the parent's that held it does not exist in a forked child.
    void check_home() const {
        if (::getpid() == home_) return;
        throw Failure(CROUPIER_ERROR_FORKED, std::string("this ") + what_ + " is of process " +
                                                 std::to_string(home_) + ", and process " +
                                                 std::to_string(::getpid()) +
                                                 " is a forked child of it: make another here");
    }

    const char* what_;
    Handle* handle_;
    pid_t home_ = ::getpid();
    Turns turns_;
};

}  // namespace croupier::python
