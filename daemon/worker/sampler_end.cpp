#include "daemon/worker/sampler_end.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

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
    ::sigaction(kEndSampler, &action, nullptr);
    // These may reach the whole group, as a terminal's ^C does; the starter tells us when it is time.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(signal, SIG_IGN);
}

std::string described_end(int status) {
    if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
}

bool sampler_is_told_to_end() {
    return told_to_end != 0;
}

}  // namespace croupier::daemon
