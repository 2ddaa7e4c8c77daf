// The kernels by which a CUDA graph's replay finds its lean step, compiled for this CPU.
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/lean_replay.cu"  // NOLINT(bugprone-suspicious-include)
#include "proto/hotness_order.h"
#include "tests/gpu_kernels/emulated_lean.h"
#include "tests/gpu_kernels/replay_ring.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

class EmulatedReplay final : public LeanSide {
  public:
    Laid lay(const LeanCase& of) override {
        Laid laid = poisoned(of);
        Laid elsewhere = poisoned(of);
        const gpu_writer::LeanShape shape =
            gpu_writer::lean_shape(of.geometry, of.rank, of.columns(), of.order);
        std::vector<uint4> logits(of.rows.bytes.size() / sizeof(uint4) + 1);
        std::copy(of.rows.bytes.begin(), of.rows.bytes.end(),
                  reinterpret_cast<unsigned char*>(logits.data()));
        gpu_writer::LeanRows rows =
            rows_at(reinterpret_cast<const std::byte*>(logits.data()), nullptr, nullptr, of, shape);
        rows.masks = {};
        rows.names = {};
        const std::vector<std::uint32_t> places =
            of.order.empty() ? std::vector<std::uint32_t>{} : proto::places_of(of.order, 0);
        ReplayRing ring(2, of.geometry.max_batch);
        Scratch scratch(of, shape);
        // The first time to where nobody looks: what that leaves in memory is what the next one finds.
        std::uint64_t ticket = 0;
        for (Laid* to : {&elsewhere, &laid}) {
            Words words;
            gpu_writer::LeanRecord record = words.record_of(of, ++ticket);
            record.part = address(to->part.data());
            record.slice = {address(to->slice.data()), of.order.empty() ? nullptr : places.data(),
                            of.geometry.tile, of.geometry.tiles(of.rank), of.columns()};
            record.end.next = ring.next();
            ring.begin(record, of.wants);
            gpu_writer::launch_found_lean(rows, {0, shape.layout, shape.room}, ring.get(),
                                          scratch.lean.data(), scratch.spreads.data(), nullptr);
            words.check(of, ticket);
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
    static std::uint64_t address(const void* of) { return reinterpret_cast<std::uint64_t>(of); }

    struct Scratch {
        Scratch(const LeanCase& of, const gpu_writer::LeanShape& shape)
            : lean(gpu_writer::lean_scratch_bytes(of.geometry.dtype, shape.slice.blocks,
                                                  of.geometry.max_batch) /
                       sizeof(uint4) +
                   1),
              spreads(gpu_writer::spread_scratch_bytes() / sizeof(std::uint64_t) + 1) {}
        std::vector<uint4> lean;
        std::vector<std::uint64_t> spreads;
    };

    struct Words {
        std::uint64_t ready = 0;
        std::uint64_t stamps[proto::kLeanStamps] = {};
        std::uint64_t finished = 0;

        gpu_writer::LeanRecord record_of(const LeanCase& of, std::uint64_t ticket) {
            gpu_writer::LeanRecord record;
            record.ticket = ticket;
            record.opening = 10 + ticket;
            record.slot = static_cast<std::uint32_t>(ticket % 2);
            record.masks = {of.masks.data(), of.mask_words()};
            record.names = of.names_at(of.names.data());
            record.end = {address(&ready), ticket, address(stamps), address(&finished), ticket};
            record.order = proto::LeanOrder(of.columns());
            return record;
        }
        void check(const LeanCase& of, std::uint64_t ticket) const {
            const proto::LeanOrder order(of.columns());
            bool told = ready == ticket && finished == ticket;
            for (std::uint32_t part = 0; part + 1 < order.parts(); ++part)
                told = told && stamps[part] == ticket;
            if (!told) throw std::runtime_error("a replay ended, and its words do not say so");
        }
    };
};

}  // namespace

std::unique_ptr<LeanSide> make_emulated_replay() {
    return std::make_unique<EmulatedReplay>();
}

}  // namespace croupier::testing
