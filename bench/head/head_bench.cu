// Checks the fused head on a GPU, and times it beside cuBLAS:
//     head_bench [--seconds 100] [--records FILE] [--only checks|times]
// Jobs run in a process of their own. If one of them fails in CUDA, crashes or takes too long, the next
// process goes on behind it, without the tile shape that it was about.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "bench/head/checks.h"
#include "bench/head/timing.h"

namespace croupier::gpu_writer::head {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

struct Options {
    seconds all{100};
    std::string records;
    std::string only;
};

Options options_of(int count, char** words) {
    Options options;
    for (int i = 1; i + 1 < count; i += 2) {
        if (std::strcmp(words[i], "--seconds") == 0) options.all = seconds(std::stoi(words[i + 1]));
        if (std::strcmp(words[i], "--records") == 0) options.records = words[i + 1];
        if (std::strcmp(words[i], "--only") == 0) options.only = words[i + 1];
    }
    return options;
}

[[noreturn]] void run_jobs(const std::vector<Job>& jobs, JobContext context) {
    try {
        check(cudaFree(nullptr), "starting CUDA");
        for (const proto::Dtype dtype : {proto::Dtype::bf16, proto::Dtype::fp16})
            check(load_head_kernels(dtype), "loading kernels");
        for (std::size_t at = context.progress.at; at < jobs.size(); context.progress.at = ++at) {
            const Job& job = jobs[at];
            if (!job.variant.empty() && context.is_dead(job.variant.c_str())) {
                context.report(false, job.name + ": left out");
                continue;
            }
            const auto begin = Clock::now();
            std::printf("     %s\n", job.name.c_str());
            job.run(context);
            std::printf("     %.2f s\n", std::chrono::duration<double>(Clock::now() - begin).count());
            (void)std::fflush(stdout);
        }
    } catch (const std::exception& error) {
        std::printf("FAIL %s: %s\n", jobs[context.progress.at].name.c_str(), error.what());
        (void)std::fflush(stdout);
        _exit(1);
    }
    _exit(0);
}

// Returns whether the process came to the end of its jobs. It is killed after so long, or when one job takes
// too long.
bool watch(pid_t child, const Progress& progress, Clock::time_point end) {
    constexpr seconds kOneJob{30};
    sigset_t ended;
    (void)sigemptyset(&ended);
    (void)sigaddset(&ended, SIGCHLD);
    std::size_t at = progress.at;
    auto since = Clock::now();
    for (;;) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (progress.at != at) {
            at = progress.at;
            since = Clock::now();
        }
        if (Clock::now() > end || Clock::now() - since > kOneJob) {
            std::printf("FAIL job %zu took too long\n", at);
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &status, 0);
            return false;
        }
        const timespec half{0, 500'000'000};
        (void)sigtimedwait(&ended, nullptr, &half);
    }
}

int run(const Options& options) {
    std::vector<Job> jobs;
    if (options.only != "times") jobs = check_jobs();
    if (options.only != "checks") {
        for (Job& job : timing_jobs()) jobs.push_back(std::move(job));
    }
    sigset_t ended;
    (void)sigemptyset(&ended);
    (void)sigaddset(&ended, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &ended, nullptr);
    void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    auto* progress = new (shared) Progress;
    std::vector<std::string> dead;
    unsigned deaths = 0;
    const auto end = Clock::now() + options.all;
    while (progress->at < jobs.size() && Clock::now() < end) {
        (void)std::fflush(stdout);
        const pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) run_jobs(jobs, {*progress, dead, options.records});
        if (watch(child, *progress, end)) break;
        ++deaths;
        if (progress->at >= jobs.size()) break;
        if (!jobs[progress->at].variant.empty()) dead.push_back(jobs[progress->at].variant);
        ++progress->at;
    }
    std::printf("%u checks failed, %u jobs ended early, %zu of %zu jobs done\n",
                progress->failed_checks.load(), deaths, progress->at.load(), jobs.size());
    return progress->failed_checks == 0 && deaths == 0 && progress->at >= jobs.size() ? 0 : 1;
}

}  // namespace
}  // namespace croupier::gpu_writer::head

int main(int count, char** words) {
    return croupier::gpu_writer::head::run(croupier::gpu_writer::head::options_of(count, words));
}
