// The kernels by which a CUDA graph's replay finds its lean step, compiled for this CPU.
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/lean_replay.cu"  // NOLINT(bugprone-suspicious-include)
#include "tests/gpu_kernels/emulated_lean.h"
#include "tests/gpu_kernels/emulated_step.h"
#include "tests/gpu_kernels/replay_ring.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

class EmulatedReplay final : public LeanSide {
  public:
    Laid lay(const LeanCase& of) override {
        Laid laid = poisoned(of);
        Laid elsewhere = poisoned(of);
        const gpu_writer::LeanShape shape = gpu_writer::lean_shape(of.geometry, of.rank, of.columns());
        const std::vector<uint4> logits = aligned_rows(of);
        // Masks and names are the record's.
        gpu_writer::LeanRows rows =
            rows_at(reinterpret_cast<const std::byte*>(logits.data()), nullptr, nullptr, of, shape);
        rows.masks = {};
        rows.names = {};
        ReplayRing ring(2, of.geometry.max_batch);
        std::vector<uint4> scratch = aligned_memory(
            gpu_writer::lean_scratch_bytes(of.geometry.dtype, shape.slice.blocks, of.geometry.max_batch));
        std::vector<uint4> spread_scratch = aligned_memory(gpu_writer::spread_scratch_bytes());
        // The first time to where nobody looks: what that leaves in memory is what the next one finds.
        std::uint64_t ticket = 0;
        for (Laid* to : {&elsewhere, &laid}) {
            StepWords words;
            gpu_writer::LeanRecord record = record_of(of, ++ticket);
            record.part = address(to->part.data());
            record.slice = slice_at(to->slice, of);
            record.end = words.end(ticket);
            record.end.next = ring.next();
            ring.begin(record, of.wants);
            gpu_writer::launch_find_step(rows, {}, ring.get(), nullptr);
            gpu_writer::launch_found_lean(rows, false, {of.geometry.max_batch}, {0, shape.layout, shape.room},
                                          ring.get(), scratch.data(), spread_scratch.data(), nullptr);
            words.check(of.columns(), ticket);
            const auto& found = ring.rows_of(record.slot);
            if (found.opening != record.opening || found.logits != rows.logits)
                throw std::runtime_error("a replay does not tell of its rows");
        }
        return laid;
    }
    Bytes answer(const LeanCase&, const std::vector<Asked>&) override {
        throw std::logic_error("answers are not emulated");
    }

  private:
    static gpu_writer::LeanRecord record_of(const LeanCase& of, std::uint64_t ticket) {
        gpu_writer::LeanRecord record;
        record.ticket = ticket;
        record.opening = 10 + ticket;
        record.slot = static_cast<std::uint32_t>(ticket % 2);
        record.masks = {of.masks.data(), of.mask_words()};
        record.names = {of.names.data()};
        record.order = proto::LeanOrder(of.columns());
        return record;
    }
};

}  // namespace

std::unique_ptr<LeanSide> make_emulated_replay() {
    return std::make_unique<EmulatedReplay>();
}

}  // namespace croupier::testing
