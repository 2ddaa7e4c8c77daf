// What the linker puts in the place of five functions of croupierd (--wrap in CMakeLists.txt).
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "daemon/worker/column_decider.h"
#include "daemon/worker/sampler_process.h"
#include "daemon/worker/session_view.h"
#include "tests/daemon/poison.h"

namespace croupier::testing {
namespace {

using daemon::CheckedStep;
using daemon::DecidedColumn;
using daemon::Lane;
using daemon::PreparedRaces;
using daemon::SessionView;

std::uint64_t seed_of(SessionView& session, const CheckedStep& step, std::uint32_t column) {
    const shm::Segment& segment = session.segment();
    const std::uint32_t slot = segment.schedule_columns(step.slot)[column].load().sequence_slot;
    return slot < segment.geometry().max_sequences ? segment.params(slot).load().seed : 0;
}

void take_poison(std::uint64_t seed) {
    switch (seed) {
        case kHangs:
            while (true) ::pause();
        case kKillsItself:
            ::raise(SIGKILL);
            break;
        case kExits:
            ::_exit(1);
        case kBadAlloc:
            throw std::bad_alloc();
        case kAborts:
            std::abort();
        default:
            break;
    }
}

}  // namespace

using Views = shm::Result<std::unique_ptr<SessionView>>;

DecidedColumn real_decide(SessionView&, const CheckedStep&, std::uint32_t, Lane, const PreparedRaces&,
                          sampler::Workspace&) asm("__real_" DECIDE_COLUMN);
DecidedColumn decide(SessionView&, const CheckedStep&, std::uint32_t, Lane, const PreparedRaces&,
                     sampler::Workspace&) asm("__wrap_" DECIDE_COLUMN);
bool real_prepare(SessionView&, const CheckedStep&, std::uint32_t, Lane,
                  PreparedRaces&) asm("__real_" PREPARE_COLUMN);
bool prepare(SessionView&, const CheckedStep&, std::uint32_t, Lane,
             PreparedRaces&) asm("__wrap_" PREPARE_COLUMN);
void real_rehearse(SessionView&, const CheckedStep&, std::uint32_t, Lane, const PreparedRaces&,
                   sampler::Workspace&) asm("__real_" REHEARSE_COLUMN);
void rehearse(SessionView&, const CheckedStep&, std::uint32_t, Lane, const PreparedRaces&,
              sampler::Workspace&) asm("__wrap_" REHEARSE_COLUMN);
Views real_make(shm::Segment, std::uint32_t, proto::StateTotals&) asm("__real_" MAKE_VIEW);
Views make(shm::Segment, std::uint32_t, proto::StateTotals&) asm("__wrap_" MAKE_VIEW);

int real_run(const daemon::SamplerOptions&) asm("__real_" RUN_SAMPLER);
int run(const daemon::SamplerOptions&) asm("__wrap_" RUN_SAMPLER);

DecidedColumn decide(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                     const PreparedRaces& races, sampler::Workspace& workspace) {
    const std::uint64_t seed = seed_of(session, step, column);
    take_poison(seed);
    DecidedColumn decided = real_decide(session, step, column, lane, races, workspace);
    if (seed == kAbortsBeforeCommit) std::abort();
    if (seed == kStopsBeforeCommit) ::raise(SIGSTOP);
    return decided;
}

bool prepare(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
             PreparedRaces& races) {
    if (seed_of(session, step, column) == kAbortsInPreparation) std::abort();
    return real_prepare(session, step, column, lane, races);
}

void rehearse(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
              const PreparedRaces& races, sampler::Workspace& workspace) {
    if (seed_of(session, step, column) == kAbortsInRehearsal) std::abort();
    real_rehearse(session, step, column, lane, races, workspace);
}

Views make(shm::Segment segment, std::uint32_t threads, proto::StateTotals& totals) {
    if (segment.name() == kUnattachable) throw std::bad_alloc();
    return real_make(std::move(segment), threads, totals);
}

int run(const daemon::SamplerOptions& options) {
    if (const char* slow = std::getenv(kSlowStart))
        std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(slow)));
    return real_run(options);
}

}  // namespace croupier::testing
