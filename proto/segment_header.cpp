#include "proto/segment_header.h"

#include <cstddef>

#include "proto/checksum.h"

namespace croupier::proto {

std::uint64_t header_checksum(const SegmentHeader& header) {
    Checksum checksum;
    checksum.add(&header, offsetof(SegmentHeader, checksum));
    return checksum.value();
}

}  // namespace croupier::proto
