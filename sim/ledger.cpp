#include "sim/ledger.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "shm/futex.h"

namespace croupier::sim {
namespace {

std::byte* map_shared(std::size_t bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::system_error(
            errno, std::generic_category(),
            "cannot map " + std::to_string(bytes) + " bytes for the ledger; use fewer --steps");
    }
    return static_cast<std::byte*>(memory);
}

constexpr std::size_t line_up(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

void copy_text(char* to, std::size_t room, const std::string& from) {
    std::strncpy(to, from.c_str(), room - 1);
    to[room - 1] = '\0';
}

}  // namespace

std::uint64_t text_hash(std::string_view text) {
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (const char byte : text) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3ULL;
    return hash;
}

void Ledger::Unmap::operator()(std::byte* memory) const {
    ::munmap(memory, bytes);
}

Ledger::Ledger(const RequestPlan& plan) : memory_(nullptr, Unmap{0}), starts_{0} {
    for (std::uint32_t i = 0; i < plan.size(); ++i)
        starts_.push_back(starts_.back() + plan[i].params.max_tokens);
    const std::size_t counts_at = line_up(sizeof(LedgerHead));
    const std::size_t claimed_at = counts_at + line_up(plan.size() * sizeof(*counts_));
    const std::size_t entries_at = claimed_at + line_up(plan.size() * sizeof(*claimed_));
    const std::size_t bytes = entries_at + std::size_t{starts_.back()} * sizeof(LedgerEntry);
    memory_ = {map_shared(bytes), Unmap{bytes}};
    head_ = new (memory_.get()) LedgerHead;
    counts_ = new (memory_.get() + counts_at) std::atomic<std::uint32_t>[plan.size()] {};
    claimed_ = new (memory_.get() + claimed_at) std::atomic<std::uint32_t>[plan.size()] {};
    // No initialisation: anonymous memory is zero, and entries are written before they are read.
    entries_ = reinterpret_cast<LedgerEntry*>(memory_.get() + entries_at);
}

std::uint32_t Ledger::count(std::uint32_t request) const {
    return counts_[request].load(std::memory_order_acquire);
}

const LedgerEntry& Ledger::entry(std::uint32_t request, std::uint32_t position) const {
    return entries_[starts_[request] + position];
}

bool Ledger::ended(std::uint32_t request) const {
    const std::uint32_t length = count(request);
    return length > 0 && entry(request, length - 1).last != 0;
}

Delivery Ledger::append(std::uint32_t request, std::uint32_t position, const LedgerEntry& entry) {
    const std::uint32_t length = count(request);
    if (position < length) return Delivery::repeated;
    if (position > length || position >= room(request) || ended(request)) return Delivery::gap;
    LedgerEntry& place = entries_[starts_[request] + position];
    const std::uint8_t anew = place.anew;
    place = entry;
    place.anew = anew;
    // SYNC: release; pairs with the acquire in count(). If the scheduler dies before this store, nothing is
    // delivered; after it, the whole entry is.
    counts_[request].store(position + 1, std::memory_order_release);
    head_->tokens.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t not_needed = entry.last != 0 ? room(request) - position - 1 : 0;
    head_->progress.fetch_add(1 + std::uint64_t{not_needed}, std::memory_order_relaxed);
    return Delivery::appended;
}

void Ledger::note_added_again(std::uint32_t request) {
    entries_[starts_[request] + count(request)].anew = 1;
}

void Ledger::recount() {
    std::uint64_t tokens = 0;
    std::uint64_t progress = 0;
    for (std::uint32_t i = 0; i + 1 < starts_.size(); ++i) {
        tokens += count(i);
        progress += ended(i) ? room(i) : count(i);
    }
    head_->tokens.store(tokens, std::memory_order_relaxed);
    head_->progress.store(progress, std::memory_order_relaxed);
}

double Ledger::progress() const {
    return static_cast<double>(head_->progress.load(std::memory_order_relaxed)) /
           static_cast<double>(starts_.back());
}

bool Ledger::claim_for_verification(std::uint32_t request) {
    if (!ended(request) || claimed_[request].load(std::memory_order_relaxed) != 0) return false;
    return claimed_[request].exchange(1, std::memory_order_relaxed) == 0;
}

void Ledger::ring() {
    head_->bell.fetch_add(1, std::memory_order_release);
    shm::futex_wake_all(head_->bell);
}

void Ledger::publish_segment(const std::string& path) {
    if (segment_path() == path) return;
    copy_text(head_->segment_path, sizeof(head_->segment_path), path);
    // SYNC: release; pairs with the acquire in segment_path().
    head_->segment_version.fetch_add(1, std::memory_order_release);
    ring();
}

std::string Ledger::segment_path() const {
    if (head_->segment_version.load(std::memory_order_acquire) == 0) return {};
    return head_->segment_path;
}

void Ledger::report_fault(const std::string& text) {
    // Only the first fault is kept: later ones are mostly its consequences.
    std::uint32_t none = 0;
    if (head_->faulty.compare_exchange_strong(none, 1, std::memory_order_relaxed)) {
        copy_text(head_->fault, sizeof(head_->fault), text);
        head_->faulty.store(2, std::memory_order_release);
    }
    ring();
}

std::string Ledger::fault() const {
    if (head_->faulty.load(std::memory_order_acquire) != 2) return {};
    return head_->fault;
}

}  // namespace croupier::sim
