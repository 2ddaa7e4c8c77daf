// The kernels of lean steps, compiled for this CPU.
#include "tests/gpu_kernels/emulated_lean.h"

#include "gpu_writer/lean_kernels.cu"  // NOLINT(bugprone-suspicious-include)
#include "gpu_writer/lean_layout.h"
#include "proto/hotness_order.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

class EmulatedLean final : public LeanSide {
  public:
    Laid lay(const LeanCase& of) override {
        Laid laid = poisoned(of);
        const gpu_writer::LeanShape shape =
            gpu_writer::lean_shape(of.geometry, of.rank, of.columns(), of.order);
        // As aligned as a GPU's memory is.
        std::vector<uint4> logits(of.rows.bytes.size() / sizeof(uint4) + 1);
        std::copy(of.rows.bytes.begin(), of.rows.bytes.end(),
                  reinterpret_cast<unsigned char*>(logits.data()));
        const gpu_writer::LeanRows rows = rows_at(reinterpret_cast<const std::byte*>(logits.data()),
                                                  of.masks.data(), of.names.data(), of, shape);
        const std::vector<std::uint32_t> places =
            of.order.empty() ? std::vector<std::uint32_t>{} : proto::places_of(of.order, 0);
        const gpu_writer::LeanSlice slice{address(laid.slice), of.order.empty() ? nullptr : places.data(),
                                          of.geometry.tile, of.geometry.tiles(of.rank), of.columns()};
        gpu_writer::launch_whole_columns(rows, slice, whole_columns(of), nullptr);
        const gpu_writer::LeanTarget target{address(laid.part), shape.layout, shape.room};
        std::vector<std::uint64_t> scratch(gpu_writer::spread_scratch_bytes() / sizeof(std::uint64_t) + 1);
        // The first time to where nobody looks: what that leaves in the scratch memory is what the next one
        // finds.
        Bytes elsewhere = laid.part;
        for (Bytes* part : {&elsewhere, &laid.part}) {
            gpu_writer::launch_spreads(rows, {address(*part), shape.layout, shape.room}, spread_columns(of),
                                       scratch.data(), nullptr);
        }
        send(of, rows, target);
        return laid;
    }
    Bytes answer(const LeanCase&, const std::vector<Asked>&) override {
        throw std::logic_error("answers are not emulated");
    }

  private:
    static std::uint64_t address(const void* of) { return reinterpret_cast<std::uint64_t>(of); }
    static std::uint64_t address(Bytes& bytes) { return address(static_cast<const void*>(bytes.data())); }

    // Twice with the same scratch memory: what a launch leaves there is what the next one finds.
    static void send(const LeanCase& of, const gpu_writer::LeanRows& rows,
                     const gpu_writer::LeanTarget& target) {
        std::vector<uint4> scratch(
            gpu_writer::lean_scratch_bytes(rows.dtype, rows.blocks, of.geometry.max_batch) / sizeof(uint4) +
            1);
        const proto::LeanOrder order(of.columns());
        for (const std::uint64_t ticket : {kReadyWord, kReadyWord + 1}) {
            std::uint64_t ready = 0;
            std::uint64_t stamps[proto::kLeanStamps] = {};
            std::uint64_t finished = 0;
            gpu_writer::launch_lean(rows, target, of.wants,
                                    {address(&ready), ticket, address(stamps), address(&finished), ticket},
                                    scratch.data(), nullptr);
            bool told = ready == ticket && finished == ticket;
            for (std::uint32_t part = 0; part + 1 < order.parts(); ++part)
                told = told && stamps[part] == ticket;
            if (!told) throw std::runtime_error("a lean step ended, and its words do not say so");
        }
    }
};

}  // namespace

std::unique_ptr<LeanSide> make_emulated_lean() {
    return std::make_unique<EmulatedLean>();
}

}  // namespace croupier::testing
