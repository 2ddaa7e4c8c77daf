// The kernels of lean steps, compiled for this CPU.
#include "tests/gpu_kernels/emulated_lean.h"

#include <cstring>

#include "gpu_writer/lean_kernels.cu"  // NOLINT(bugprone-suspicious-include)
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/measured_row.h"
#include "tests/gpu_kernels/emulated_step.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

class EmulatedLean final : public LeanSide {
  public:
    explicit EmulatedLean(bool has_maxima) : has_maxima_(has_maxima) {}

    Laid lay(const LeanCase& of) override {
        Laid laid = poisoned(of);
        const gpu_writer::LeanShape shape = gpu_writer::lean_shape(of.geometry, of.rank, of.columns());
        const std::vector<uint4> logits = aligned_rows(of);
        gpu_writer::LeanRows rows = rows_at(reinterpret_cast<const std::byte*>(logits.data()),
                                            of.masks.data(), of.names.data(), of, shape);
        rows.has_maxima = has_maxima_ && rows.entries > 0;
        gpu_writer::launch_whole_columns(rows, slice_at(laid.slice, of), whole_columns(of), nullptr);
        const gpu_writer::LeanTarget target{address(laid.part.data()), shape.layout, shape.room};
        std::vector<uint4> scratch = aligned_memory(gpu_writer::spread_scratch_bytes());
        // The first time to where nobody looks: what that leaves in the scratch memory is what the next one
        // finds.
        Bytes elsewhere = laid.part;
        for (Bytes* part : {&elsewhere, &laid.part}) {
            gpu_writer::launch_spreads(rows, {address(part->data()), shape.layout, shape.room},
                                       spread_columns(of), scratch.data(), nullptr);
        }
        send(of, rows, target, shape);
        return laid;
    }
    Bytes answer(const LeanCase&, const std::vector<Asked>&) override {
        throw std::logic_error("answers are not emulated");
    }

  private:
    // Twice with the same scratch memory: what a launch leaves there is what the next one finds.
    static void send(const LeanCase& of, const gpu_writer::LeanRows& rows,
                     const gpu_writer::LeanTarget& target, const gpu_writer::LeanShape& shape) {
        std::vector<uint4> scratch =
            aligned_memory(gpu_writer::lean_scratch_bytes(rows.dtype, rows.blocks, of.geometry.max_batch));
        for (const std::uint64_t ticket : {kReadyWord, kReadyWord + 1}) {
            StepWords words;
            if (rows.has_maxima) lay_maxima(of, rows, shape, scratch.data());
            gpu_writer::launch_lean(rows, target, of.wants, words.end(ticket), scratch.data(), nullptr);
            words.check(of.columns(), ticket);
        }
    }
    // Of the rows without masks, as the host measures them. Behind the last entry's block stands anything.
    static void lay_maxima(const LeanCase& of, const gpu_writer::LeanRows& rows,
                           const gpu_writer::LeanShape& shape, void* scratch) {
        const std::size_t size = proto::element_bytes(rows.dtype);
        const auto* first = static_cast<const std::byte*>(rows.logits);
        const gpu_writer::LeanMaxima maxima = gpu_writer::lean_maxima(scratch, rows.dtype, rows.blocks);
        std::memset(maxima.codes, kPoison, maxima.stride * of.columns());
        const std::size_t blocks = (rows.lead + rows.entries + proto::kBlockIds - 1) / proto::kBlockIds;
        for (std::size_t column = 0; column < of.columns(); ++column) {
            const gpu_writer::MeasuredRow row(shape, first + column * rows.row_stride * size, 0);
            for (std::size_t block = 0; block < blocks; ++block) {
                const std::uint32_t code = row.code_of_maximum(block);
                std::memcpy(maxima.codes + column * maxima.stride + block * size, &code, size);
            }
        }
    }

    bool has_maxima_;
};

}  // namespace

std::unique_ptr<LeanSide> make_emulated_lean() {
    return std::make_unique<EmulatedLean>(false);
}

std::unique_ptr<LeanSide> make_emulated_lean_of_maxima() {
    return std::make_unique<EmulatedLean>(true);
}

}  // namespace croupier::testing
