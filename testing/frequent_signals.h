// As of a profiler: this process handles a signal some ten thousand times a second.
#pragma once

#include <sys/time.h>

#include <csignal>

namespace croupier::testing {

class FrequentSignals {
  public:
    FrequentSignals() {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        ::sigaction(SIGALRM, &action, &before_);
        set(50);
    }
    ~FrequentSignals() {
        set(0);
        ::sigaction(SIGALRM, &before_, nullptr);
    }
    FrequentSignals(const FrequentSignals&) = delete;
    FrequentSignals& operator=(const FrequentSignals&) = delete;

  private:
    static void set(long microseconds) {
        const itimerval every{{0, microseconds}, {0, microseconds}};
        ::setitimer(ITIMER_REAL, &every, nullptr);
    }

    struct sigaction before_ {};
};

}  // namespace croupier::testing
