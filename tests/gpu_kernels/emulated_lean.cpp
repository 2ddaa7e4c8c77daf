// The kernels of lean steps, compiled for this CPU.
#include "tests/gpu_kernels/emulated_lean.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "gpu_writer/head_product.h"
#include "gpu_writer/lean_bf16.cu"     // NOLINT(bugprone-suspicious-include)
#include "gpu_writer/lean_fp16.cu"     // NOLINT(bugprone-suspicious-include)
#include "gpu_writer/lean_fp32.cu"     // NOLINT(bugprone-suspicious-include)
#include "gpu_writer/lean_kernels.cu"  // NOLINT(bugprone-suspicious-include)
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/measured_row.h"
#include "tests/gpu_kernels/emulated_step.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

class EmulatedLean final : public LeanSide {
  public:
    explicit EmulatedLean(bool is_measured) : is_measured_(is_measured) {}

    Laid lay(const LeanCase& of) override {
        Laid laid = poisoned(of);
        const gpu_writer::LeanShape shape = gpu_writer::lean_shape(of.geometry, of.rank, of.columns());
        std::vector<uint4> logits = aligned_rows(of);
        gpu_writer::LeanRows rows = rows_at(reinterpret_cast<const std::byte*>(logits.data()),
                                            of.masks.data(), of.names.data(), of, shape);
        rows.has_maxima = is_measured_ && rows.entries > 0;
        rows.has_sums = rows.has_maxima && of.columns() % 2 == 0;
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
        const std::vector<uint4> left = rows.has_maxima ? left_of(of, rows, shape, logits) : logits;
        send(of, rows, left, target, shape);
        return laid;
    }
    Bytes answer(const LeanCase&, const std::vector<Asked>&) override {
        throw std::logic_error("answers are not emulated");
    }

  private:
    // Of the measured rows, those that are left of columns that are drawn alone.
    static std::vector<uint4> left_of(const LeanCase& of, const gpu_writer::LeanRows& rows,
                                      const gpu_writer::LeanShape& shape, std::vector<uint4>& all) {
        std::vector<uint4> left = all;
        const std::size_t size = proto::element_bytes(rows.dtype);
        const auto first = static_cast<std::size_t>(static_cast<const std::byte*>(rows.logits) -
                                                    reinterpret_cast<const std::byte*>(all.data()));
        for (std::size_t column = 0; column < of.columns(); ++column) {
            const std::size_t at = first + column * rows.row_stride * size;
            const gpu_writer::MeasuredRow row(shape, reinterpret_cast<const std::byte*>(all.data()) + at, 0);
            const std::uint32_t floor = floor_of(row, shape, of.wants[column]);
            for (std::size_t block = 0; block < row.maxima.size(); ++block) {
                if (bound_of(row, shape, of.wants[column], block) >= floor) continue;
                const std::size_t begin = std::max<std::size_t>(block * proto::kBlockIds, rows.lead);
                const std::size_t end =
                    std::min<std::size_t>((block + 1) * proto::kBlockIds, rows.lead + rows.entries);
                if (begin >= end) continue;
                std::memset(reinterpret_cast<std::byte*>(left.data()) + at + (begin - rows.lead) * size, 0x7F,
                            (end - begin) * size);
            }
        }
        return left;
    }
    // What some token scores in the column's race, if it is drawn alone and can be.
    static std::uint32_t floor_of(const gpu_writer::MeasuredRow& row, const gpu_writer::LeanShape& shape,
                                  const gpu_writer::LeanWant& want) {
        const auto is_odd = [](float most) { return std::isnan(most) || most > FLT_MAX; };
        if (!gpu_writer::head::is_drawn_alone(want)) return 0;
        if (std::any_of(row.maxima.begin(), row.maxima.end(), is_odd)) return 0;
        std::uint32_t floor = 0;
        for (std::size_t i = 0; i < row.maxima.size() * proto::kBlockIds; i += 7) {
            const std::uint32_t id = shape.first_block * proto::kBlockIds + static_cast<std::uint32_t>(i);
            const float logit = row.value(i);
            if (!(logit >= -FLT_MAX)) continue;
            const float ln_arrival =
                want.temperature > 0.0F ? proto::race::ln(proto::race::arrival(want.key, id)) : 0.0F;
            const float score =
                want.temperature > 0.0F ? proto::race::score(logit, want.temperature, ln_arrival) : logit;
            floor = std::max(floor, gpu_writer::rank_of(score + 0.0F));
        }
        return floor;
    }
    static std::uint32_t bound_of(const gpu_writer::MeasuredRow& row, const gpu_writer::LeanShape& shape,
                                  const gpu_writer::LeanWant& want, std::size_t block) {
        const std::uint32_t most = gpu_writer::rank_of(row.maxima[block]);
        if (!(want.temperature > 0.0F)) return most;
        const std::uint32_t word = proto::race::word_of(
            want.key, proto::race::kBlockStream, shape.first_block + static_cast<std::uint32_t>(block));
        return gpu_writer::race_rank(most, want.temperature,
                                     proto::race::ln(proto::race::first_arrival(word)));
    }

    // Twice with the same scratch memory: what a launch leaves there is what the next one finds.
    static void send(const LeanCase& of, const gpu_writer::LeanRows& rows, const std::vector<uint4>& left,
                     const gpu_writer::LeanTarget& target, const gpu_writer::LeanShape& shape) {
        std::vector<uint4> scratch =
            aligned_memory(gpu_writer::lean_scratch_bytes(rows.dtype, rows.blocks, of.geometry.max_batch));
        for (const std::uint64_t ticket : {kReadyWord, kReadyWord + 1}) {
            StepWords words;
            if (rows.has_maxima) measure(of, rows, shape, scratch.data());
            gpu_writer::LeanRows sent = rows;
            sent.logits = reinterpret_cast<const std::byte*>(left.data()) +
                          std::size_t{of.skipped} * proto::element_bytes(rows.dtype);
            gpu_writer::launch_lean(sent, target, of.wants, words.end(ticket), scratch.data(), nullptr);
            words.check(of.columns(), ticket);
        }
    }
    // Of the rows without masks, as the host measures them. Behind the last entry's block stands anything.
    static void measure(const LeanCase& of, const gpu_writer::LeanRows& rows,
                        const gpu_writer::LeanShape& shape, void* scratch) {
        const std::size_t size = proto::element_bytes(rows.dtype);
        const auto* first = static_cast<const std::byte*>(rows.logits);
        const gpu_writer::LeanMeasured to =
            gpu_writer::lean_measured(scratch, rows.dtype, rows.blocks, of.columns());
        std::memset(to.maxima, kPoison, to.maxima_stride * of.columns());
        const std::size_t blocks = (rows.lead + rows.entries + proto::kBlockIds - 1) / proto::kBlockIds;
        for (std::size_t column = 0; column < of.columns(); ++column) {
            const gpu_writer::MeasuredRow row(shape, first + column * rows.row_stride * size, 0);
            to.floors[column] = floor_of(row, shape, of.wants[column]);
            for (std::size_t block = 0; block < blocks; ++block) {
                const std::uint32_t code = row.code_of_maximum(block);
                std::memcpy(to.maxima + column * to.maxima_stride + block * size, &code, size);
                to.sums[column * to.sums_stride + block] =
                    sums_of(row, block, gpu_writer::LeanScales(of.wants[column]));
            }
        }
    }

    static gpu_writer::LeanSums sums_of(const gpu_writer::MeasuredRow& row, std::size_t block,
                                        const gpu_writer::LeanScales& scales) {
        double at_one = 0.0;
        double at_scale = 0.0;
        for (std::size_t i = 0; i < proto::kBlockIds; ++i) {
            const double apart = double{row.value(block * proto::kBlockIds + i)} - double{row.maxima[block]};
            at_one += std::exp2(apart * scales.at_one);
            at_scale += std::exp2(apart * scales.at_scale);
        }
        return {static_cast<float>(at_one), static_cast<float>(at_scale)};
    }

    bool is_measured_;
};

}  // namespace

std::unique_ptr<LeanSide> make_emulated_lean() {
    return std::make_unique<EmulatedLean>(false);
}

std::unique_ptr<LeanSide> make_emulated_lean_of_maxima() {
    return std::make_unique<EmulatedLean>(true);
}

}  // namespace croupier::testing
