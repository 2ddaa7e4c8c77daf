#include "shm/memory_placement.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>

namespace croupier::shm {
namespace {

constexpr std::uint64_t kMaxNodes = 1024;
constexpr std::uint64_t kMiB = 1U << 20U;

std::uint64_t huge_page_bytes() {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    std::uint64_t bytes = 0;
    return file >> bytes ? bytes : 2 * kMiB;
}

// By the mapping's own account: what was asked for says nothing about what was had.
std::uint64_t bytes_in_huge_pages(const Mapping& mapping) {
    std::ifstream file("/proc/self/smaps");
    const auto begin = reinterpret_cast<std::uintptr_t>(mapping.get_address());
    bool within = false;
    for (std::string line; std::getline(file, line);) {
        std::uintptr_t from = 0;
        const auto end = std::from_chars(line.data(), line.data() + line.size(), from, 16);
        if (end.ec == std::errc() && *end.ptr == '-') within = from == begin;
        constexpr std::string_view kField = "ShmemPmdMapped:";
        if (within && line.starts_with(kField)) return std::stoull(line.substr(kField.size())) * 1024;
    }
    return 0;
}

}  // namespace

void place_on_node(const Mapping& mapping, std::int32_t node) {
    if (node < 0 || static_cast<std::uint64_t>(node) >= kMaxNodes) return;
    const auto place = static_cast<std::uint64_t>(node);
    std::array<std::uint64_t, kMaxNodes / 64> nodes{};
    nodes[place / 64] = std::uint64_t{1} << (place % 64);
    // Preferred, not bound: a session on a far node is slower, one that finds no memory is none.
    ::syscall(SYS_mbind, mapping.get_address(), mapping.get_size(), MPOL_PREFERRED, nodes.data(), kMaxNodes,
              0);
}

void ask_for_huge_pages(const Mapping& mapping, std::uint64_t bytes) {
    ::madvise(mapping.get_address(), bytes, MADV_HUGEPAGE);
    // By faults, not by fallocate: only a fault knows the advice. What does not fit is told by allocate().
    ::madvise(mapping.get_address(), bytes, MADV_POPULATE_WRITE);
}

Result<std::string> huge_pages_had(const Mapping& mapping, std::uint64_t bytes, Hugepages wanted,
                                   const std::string& directory) {
    if (wanted == Hugepages::off) return std::string();
    const std::uint64_t page = huge_page_bytes();
    const std::uint64_t whole = bytes / page * page;
    const std::uint64_t had = bytes_in_huge_pages(mapping);
    const std::string said =
        std::to_string(had / kMiB) + " of " + std::to_string(whole / kMiB) + " MiB lie in huge pages";
    if (had >= whole) return said;
    const std::string why =
        said + ": the huge= option of the tmpfs at " + directory +
        " would have to be advise, within_size or always, and the memory free in such pieces";
    if (wanted == Hugepages::require) return fail(Errc::no_memory, "shm.hugepages is require, but " + why);
    return why + "; ordinary pages are used for the rest";
}

}  // namespace croupier::shm
