#include "gpu_writer/lean_layout.h"
#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {
namespace {

class HostLean final : public LeanSide {
  public:
    Laid lay(const LeanCase& of) override {
        Laid laid = poisoned(of);
        std::vector<const void*> rows;
        for (std::uint32_t column = 0; column < of.columns(); ++column) rows.push_back(row(of, column));
        gpu_writer::lay_lean(shape(of), of.wants, rows,
                             {reinterpret_cast<std::byte*>(laid.part.data()), laid.slice.data()});
        return laid;
    }
    Bytes answer(const LeanCase& of, const std::vector<Asked>& asked) override {
        Bytes slice = poisoned(of).slice;
        for (const Asked& each : asked) {
            gpu_writer::lay_blocks(shape(of), of.wants[each.column].place, row(of, each.column), each.bitmap,
                                   slice.data());
        }
        return slice;
    }

  private:
    static gpu_writer::LeanShape shape(const LeanCase& of) {
        gpu_writer::LeanShape shape = gpu_writer::lean_shape(of.geometry, of.rank, of.columns());
        shape.masks = {of.masks.data(), of.mask_words()};
        shape.names = {of.names.data()};
        return shape;
    }
    static const void* row(const LeanCase& of, std::uint32_t column) {
        return of.rows.bytes.data() +
               (of.skipped + column * of.rows.stride) * proto::element_bytes(of.geometry.dtype);
    }
};

}  // namespace

Laid poisoned(const LeanCase& of) {
    const std::size_t tile_row =
        std::size_t{of.places()} * of.geometry.tile * proto::element_bytes(of.geometry.dtype);
    return {Bytes(proto::lean_layout_of(of.geometry, of.rank).bytes, kPoison),
            Bytes(of.geometry.tiles(of.rank) * tile_row, kPoison)};
}

std::unique_ptr<LeanSide> make_host_lean() {
    return std::make_unique<HostLean>();
}

}  // namespace croupier::testing
