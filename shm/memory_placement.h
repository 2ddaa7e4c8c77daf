// Where a segment's memory lies, and in pages of which size. Asked for before the memory is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "shm/file.h"

namespace croupier::shm {

enum class Hugepages { off, try_to, require };

// The mapping's file prefers that node; a full node, or a kernel without NUMA, gives another one's memory.
void place_on_node(const Mapping& mapping, std::int32_t node);
// Allocates what the file system gives in huge pages.
// Of its first bytes, which are allocated at once.
void ask_for_huge_pages(const Mapping& mapping, std::uint64_t bytes);
// What of the mapping's first bytes lies in huge pages, in words; empty when they were not asked for. Fails
// where they are required and not there.
Result<std::string> huge_pages_had(const Mapping& mapping, std::uint64_t bytes, Hugepages wanted,
                                   const std::string& directory);

}  // namespace croupier::shm
