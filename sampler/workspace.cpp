#include "sampler/workspace.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "proto/sampling.h"
#include "sampler/blocked_row.h"
#include "sampler/formulas.h"
#include "sampler/proposals.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

constexpr std::size_t kLine = 64;

// Measures when it has no memory yet, and deals it out when it has.
class Carver {
  public:
    explicit Carver(std::byte* memory) : memory_(memory) {}

    template <typename T>
    void deal(std::span<T>& span, std::size_t count) {
        if (memory_ != nullptr) span = {reinterpret_cast<T*>(memory_ + used_), count};
        used_ += (count * sizeof(T) + kLine - 1) / kLine * kLine;
    }
    std::size_t used() const { return used_; }

  private:
    std::byte* memory_;
    std::size_t used_ = 0;
};

std::size_t deal_all(Workspace& workspace, std::byte* memory) {
    Carver carver(memory);
    const std::size_t vocab = workspace.vocab;
    const std::size_t blocks = (vocab + kBlock - 1) / kBlock;
    const std::size_t bitmap = (vocab + 63) / 64;
    // Each slice may end in a block that is not all its own.
    carver.deal(workspace.runs, std::size_t{kMaxSlices} * 2);
    carver.deal(workspace.tails, std::size_t{kMaxSlices} * kBlock * sizeof(float));
    carver.deal(workspace.gathered, blocks * kBlock * sizeof(float));
    carver.deal(workspace.lean.at, blocks);
    carver.deal(workspace.lean.there, (blocks + 63) / 64);
    carver.deal(workspace.lean.missing, (blocks + 63) / 64);
    carver.deal(workspace.lean.nothing, kBlock * sizeof(float));
    carver.deal(workspace.lean.least_weight, blocks);
    carver.deal(workspace.lean.weighed_slices, kMaxSlices);
    carver.deal(workspace.lean.named, bitmap);
    carver.deal(workspace.lean.named_logits, vocab);
    carver.deal(workspace.block_max, blocks);
    carver.deal(workspace.ln_first_arrivals, blocks);
    carver.deal(workspace.race_bounds, blocks);
    carver.deal(workspace.replaced_max, blocks);
    carver.deal(workspace.block_mass, blocks);
    carver.deal(workspace.group_mass, blocks);
    carver.deal(workspace.head_mass, blocks);
    carver.deal(workspace.reached_blocks, blocks);
    carver.deal(workspace.found, vocab);
    carver.deal(workspace.special, bitmap);
    carver.deal(workspace.banned, bitmap);
    carver.deal(workspace.listed, bitmap);
    carver.deal(workspace.taken, bitmap);
    carver.deal(workspace.moved, bitmap);
    carver.deal(workspace.dropped, bitmap);
    carver.deal(workspace.candidates, vocab);
    carver.deal(workspace.sort_buffer, vocab);
    carver.deal(workspace.raised, vocab);
    carver.deal(workspace.lifts, vocab);
    carver.deal(workspace.changed, vocab);
    // One more than there are tokens: what is not read is written over by the next.
    carver.deal(workspace.counted, vocab + 1);
    carver.deal(workspace.contenders, vocab + kBlock);
    carver.deal(workspace.classes, vocab);
    carver.deal(workspace.class_order, vocab);
    carver.deal(workspace.value_classes, vocab);
    carver.deal(workspace.rank_ends, std::size_t{2} << 16U);
    carver.deal(workspace.value_counts, std::size_t{1} << 16U);
    carver.deal(workspace.code_masses, std::size_t{1} << 16U);
    carver.deal(workspace.counted_codes, std::size_t{1} << 16U);
    carver.deal(workspace.counted_values, std::min(vocab, std::size_t{1} << 16U));
    carver.deal(workspace.first_bias, vocab);
    carver.deal(workspace.next_bias, proto::kMaxBias);
    carver.deal(workspace.support, vocab);
    carver.deal(workspace.logprobs, std::size_t{proto::kMaxLogprobs} + 1);
    return carver.used();
}

}  // namespace

void Workspace::Release::operator()(std::byte* memory) const noexcept {
    std::byte* mapping = memory - kLine;
    std::size_t bytes = 0;
    std::memcpy(&bytes, mapping, sizeof(bytes));
    ::munmap(mapping, bytes);
}

Workspace::Workspace(std::uint32_t vocabulary) : vocab(vocabulary) {
    // A mapping of its own goes back to the kernel as a whole. In the heap it would leave a hole, which the
    // next vocabulary's does not fit into. The line before it says how large it is.
    const std::size_t bytes = deal_all(*this, nullptr) + kLine;
    void* mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    // Touched now, so that no decision has to wait for a page.
    std::memset(mapping, 0, bytes);
    std::memcpy(mapping, &bytes, sizeof(bytes));
    memory_.reset(static_cast<std::byte*>(mapping) + kLine);
    deal_all(*this, memory_.get());
}

}  // namespace croupier::sampler
