// A segment whose header was overwritten is refused or is the valid one; it never crashes who attaches.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "shm/segment.h"

using namespace croupier;

namespace {

constexpr std::size_t kFixedBytes = offsetof(proto::SegmentHeader, checksum) + sizeof(std::uint64_t);

proto::Geometry small_geometry() {
    proto::Geometry g;
    g.vocab = 20;
    g.tp = 2;
    g.max_batch = 2;
    g.tile = 1;
    g.max_length = 8;
    proto::fill_even_shards(g);
    return g;
}

// One file for the whole run: the input replaces the fixed part of its header.
class Target {
  public:
    Target() : directory_("/dev/shm/croupier-fuzz-XXXXXX") {
        if (::mkdtemp(directory_.data()) == nullptr) std::abort();
        auto created = shm::Segment::create(
            {directory_, "fuzz", 1, "engine", small_geometry(), {}, shm::Hugepages::off});
        if (!created) std::abort();
        segment_.emplace(std::move(created).value());
        std::memcpy(valid_, &segment_->header(), kFixedBytes);
    }
    ~Target() {
        ::unlink(segment_->path().c_str());
        ::rmdir(directory_.c_str());
    }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    const unsigned char* valid() const { return valid_; }
    shm::Segment& segment() { return *segment_; }

  private:
    std::string directory_;
    std::optional<shm::Segment> segment_;
    unsigned char valid_[kFixedBytes];
};

Target& target() {
    static Target one;
    return one;
}

volatile std::uint32_t seen;  // what is read for the sake of reading

template <typename T>
void look_at(const T* first, std::size_t count) {
    if (count == 0) return;
    const auto* bytes = reinterpret_cast<const unsigned char*>(first);
    seen = seen + bytes[0] + bytes[count * sizeof(T) - 1];
}

// Of this minor version, accepted is only what describes this very file. The last bytes of whatever is
// accepted must be within the mapping.
void walk(const shm::Segment& segment) {
    const bool ours = segment.header().minor == proto::kSegmentMinor;
    if (ours && segment.layout() != target().segment().layout()) std::abort();
    const auto& g = segment.geometry();
    const std::uint32_t slot = g.slots - 1;
    const std::uint32_t sequence = g.max_sequences - 1;
    look_at(&segment.sequence(sequence), 1);
    look_at(segment.params(sequence).place(), 1);
    look_at(&segment.feedback(sequence), 1);
    look_at(segment.token_log(sequence), g.max_length);
    look_at(segment.schedule_columns(slot)[g.max_batch - 1].place(), 1);
    look_at(segment.claims(slot), g.max_batch);
    look_at(segment.crashes(slot), g.max_batch);
    look_at(segment.decisions(slot)[g.max_batch - 1].place(), 1);
    look_at(segment.randoms(slot), g.max_batch);
    look_at(segment.support(slot, g.max_batch - 1).data(), segment.support(slot, g.max_batch - 1).size());
    if (g.max_support > 0) seen = seen + segment.support_head(slot, g.max_batch - 1).count;
    const auto ranked = segment.logprobs(slot, g.max_batch - 1);
    if (!ranked.empty()) look_at(ranked[ranked.size() - 1].place(), 1);
    if (g.mask_rows > 0) look_at(segment.mask_row(slot, g.mask_rows - 1), (g.vocab + 31) / 32);
    look_at(segment.model_order().data(), segment.model_order().size());
    look_at(segment.hot_blocks(1).data(), segment.hot_blocks(1).size());
    look_at(segment.token_table().data(), segment.token_table().size());
    look_at(segment.biases(sequence), g.max_bias);
    look_at(segment.stop_ids(sequence), g.max_stop_ids);
    look_at(segment.lists(sequence), g.max_list_tokens);
    if (g.is_lean()) {
        look_at(&segment.request_board(slot), 1);
        look_at(&segment.request_cell(slot, g.max_batch - 1), 1);
    }
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        look_at(&segment.ready(slot, rank), 1);
        look_at(segment.inputs(slot, rank), g.max_batch);
        if (g.is_lean()) look_at(segment.lean(slot, rank), segment.layout().lean_rank_stride);
        const std::size_t elements = std::size_t{g.tiles(rank)} * g.tile * g.max_batch;
        look_at(static_cast<const std::byte*>(segment.logits(slot, rank)), elements * element_bytes(g.dtype));
        look_at(segment.maxima(slot, rank).data(), segment.maxima(slot, rank).size());
    }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

// Half of the mutations are signed, so that they come past the checksum.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room,
                                               unsigned int seed) {
    if (room < kFixedBytes) return LLVMFuzzerMutate(data, size, room);
    if (size != kFixedBytes) std::memcpy(data, target().valid(), kFixedBytes);
    LLVMFuzzerMutate(data, kFixedBytes, kFixedBytes);
    if (seed % 2 == 0) {
        proto::SegmentHeader header{};
        std::memcpy(static_cast<void*>(&header), data, kFixedBytes);
        header.checksum = proto::header_checksum(header);
        std::memcpy(data, &header, kFixedBytes);
    }
    return kFixedBytes;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    void* header = &target().segment().header();
    std::memcpy(header, target().valid(), kFixedBytes);
    std::memcpy(header, data, std::min(size, kFixedBytes));
    auto attached = shm::Segment::attach(target().segment().path(), shm::Access::read_only);
    if (attached) {
        walk(attached.value());
    } else if (attached.error().message.find(target().segment().path()) == std::string::npos) {
        std::abort();  // a refusal names the file
    }
    return 0;
}
