#include "shm/column_journal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace croupier::shm {

using proto::JournalKind;
using proto::JournalStamp;
using proto::kJournalEntries;

namespace {

using Words = std::array<std::uint64_t, proto::kJournalWords>;

struct Whole {
    JournalKind kind;
    Words words;
};

std::uint64_t oldest_of(std::uint64_t written) {
    return written > kJournalEntries ? written - kJournalEntries : 0;
}

// nullopt: its writer has come round to it again, or died over it.
std::optional<Whole> read_entry(const proto::JournalEntry& entry, std::uint64_t number) {
    // SYNC: acquire; pairs with the release in lay(): the words are no older than the stamp.
    const std::uint64_t stamp = entry.stamp.load(std::memory_order_acquire);
    const JournalKind kind = JournalStamp::kind(stamp);
    if (JournalStamp::number(stamp) != number || kind == JournalKind::unfinished) return std::nullopt;
    Whole whole{kind, {}};
    for (std::size_t i = 0; i < whole.words.size(); ++i)
        whole.words[i] = entry.words[i].load(std::memory_order_relaxed);
    // SYNC: acquire; pairs with the release fence in lay(): whoever read a word of a later entry sees here
    // that the stamp is gone.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.stamp.load(std::memory_order_relaxed) != stamp) return std::nullopt;
    return whole;
}

}  // namespace

template <typename Record>
void JournalWriter::lay(const Record& record, JournalKind kind) {
    if (ring_ == nullptr) return;
    const std::uint64_t number = ring_->written.load(std::memory_order_relaxed);
    proto::JournalEntry& entry = ring_->entries[number % kJournalEntries];
    const auto words = std::bit_cast<Words>(record);
    entry.stamp.store(JournalStamp::pack(number, JournalKind::unfinished), std::memory_order_relaxed);
    // SYNC: release; pairs with the acquire fence in read_entry: no word of this entry is seen before the
    // stamp of the one that stood here is gone.
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i) entry.words[i].store(words[i], std::memory_order_relaxed);
    // SYNC: release; pairs with the first acquire in read_entry.
    entry.stamp.store(JournalStamp::pack(number, kind), std::memory_order_release);
    // SYNC: release; pairs with the acquire in JournalReader: the entry below it is whole. A writer that dies
    // before this line has its entry written over by its successor.
    ring_->written.store(number + 1, std::memory_order_release);
    // The next line comes while a column is decided: this one's stores were not waited for either.
    __builtin_prefetch(&ring_->entries[(number + 1) % kJournalEntries], 1);
}

void JournalWriter::write(const proto::ColumnRecord& record) {
    lay(record, JournalKind::column);
}

void JournalWriter::write(const proto::StepRecord& record) {
    lay(record, JournalKind::step);
}

JournalReader::JournalReader(const Plane& plane, From from) {
    for (const proto::JournalRing& ring : plane.journals()) {
        const std::uint64_t written = ring.written.load(std::memory_order_acquire);
        next_.push_back(from == From::now ? written : oldest_of(written));
    }
}

JournalPart JournalReader::read(const Plane& plane) {
    JournalPart part;
    const auto rings = plane.journals();
    const std::uint32_t threads = std::max(plane.header().threads_per_sampler, 1U);
    for (std::uint32_t ring = 0; ring < std::min(rings.size(), next_.size()); ++ring) {
        // SYNC: acquire; pairs with the release in lay().
        const std::uint64_t end = rings[ring].written.load(std::memory_order_acquire);
        std::uint64_t& next = next_[ring];
        const std::uint64_t oldest = oldest_of(end);
        if (next < oldest) part.lost += oldest - next;
        for (next = std::max(next, oldest); next < end; ++next) {
            const auto whole = read_entry(rings[ring].entries[next % kJournalEntries], next);
            if (!whole) {
                ++part.lost;
            } else if (whole->kind == JournalKind::column) {
                const auto record = std::bit_cast<proto::ColumnRecord>(whole->words);
                part.columns.push_back({ring / threads, ring % threads, record});
            } else {
                part.steps.push_back(std::bit_cast<proto::StepRecord>(whole->words));
            }
        }
    }
    return part;
}

}  // namespace croupier::shm
