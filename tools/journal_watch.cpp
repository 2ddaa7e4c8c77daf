#include "tools/journal_watch.h"

#include <utility>

namespace croupier::tools {

using shm::JournalPart;
using shm::JournalReader;
using shm::Plane;

namespace {

bool same_daemon(const Plane& a, const Plane& b) {
    return a.header().daemon_pid == b.header().daemon_pid && a.header().started_ns == b.header().started_ns;
}

void append(JournalPart& to, JournalPart&& more) {
    to.columns.insert(to.columns.end(), more.columns.begin(), more.columns.end());
    to.steps.insert(to.steps.end(), more.steps.begin(), more.steps.end());
    to.lost += more.lost;
}

}  // namespace

JournalWatch::JournalWatch(std::string directory, std::string instance, JournalReader::From from)
    : directory_(std::move(directory)), instance_(std::move(instance)), from_(from) {}

shm::Result<bool> JournalWatch::follow_successor(JournalPart& part) {
    CROUPIER_TRY_VALUE(plane, Plane::attach(directory_, instance_, shm::Access::read_only));
    if (followed_ && same_daemon(plane, followed_->plane)) return true;
    // The predecessor may have written records after the last read.
    if (followed_) append(part, followed_->reader.read(followed_->plane));
    const auto from = followed_ ? JournalReader::From::oldest : from_;
    JournalReader reader(plane, from);
    followed_.emplace(Followed{std::move(plane), std::move(reader)});
    return true;
}

shm::Result<JournalPart> JournalWatch::read() {
    JournalPart part;
    if (!daemon_alive()) {
        const auto found = follow_successor(part);
        if (!found && !followed_) return found.error();
    }
    append(part, followed_->reader.read(followed_->plane));
    return part;
}

}  // namespace croupier::tools
