#include "daemon/sampler_end.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace croupier::daemon {
namespace {

volatile std::sig_atomic_t told_to_end = 0;

}  // namespace

void end_as_samplers_do(pid_t starter) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It may have died before the line above took effect.
    if (::getppid() != starter) ::_exit(1);
    struct sigaction action {};
    action.sa_handler = [](int) { told_to_end = 1; };
    ::sigaction(SIGTERM, &action, nullptr);
    // A terminal's ^C reaches the whole group; the starter tells us when it is time.
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
}

bool sampler_is_told_to_end() {
    return told_to_end != 0;
}

}  // namespace croupier::daemon
