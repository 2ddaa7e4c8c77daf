#include "sampler/workspace.h"

#include <cstring>
#include <new>

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
    const std::size_t padded = std::size_t{workspace.blocks} * kBlock;
    carver.deal(workspace.row, padded);
    carver.deal(workspace.adjusted, padded);
    carver.deal(workspace.block_max, workspace.blocks);
    carver.deal(workspace.block_mass, workspace.blocks);
    carver.deal(workspace.counts, workspace.vocab);
    carver.deal(workspace.touched, workspace.vocab);
    carver.deal(workspace.positions, workspace.vocab);
    carver.deal(workspace.candidates, workspace.vocab);
    carver.deal(workspace.sort_buffer, workspace.vocab);
    carver.deal(workspace.classes, workspace.vocab);
    carver.deal(workspace.digit_counts, std::size_t{kSortDigits} << kDigitBits);
    return carver.used();
}

}  // namespace

void Workspace::Release::operator()(std::byte* memory) const noexcept {
    ::operator delete[](memory, std::align_val_t{kLine});
}

Workspace::Workspace(std::uint32_t vocabulary)
    : vocab(vocabulary), blocks((vocabulary + kBlock - 1) / kBlock) {
    const std::size_t bytes = deal_all(*this, nullptr);
    memory_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kLine})));
    std::memset(memory_.get(), 0, bytes);
    deal_all(*this, memory_.get());
}

}  // namespace croupier::sampler
