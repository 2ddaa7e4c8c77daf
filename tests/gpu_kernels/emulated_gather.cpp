#include "tests/gpu_kernels/emulated_gather.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "gpu_writer/lean_layout.h"
#include "gpu_writer/lean_replay.h"
#include "tests/gpu_kernels/emulated_answer.h"
#include "tests/gpu_kernels/emulated_step.h"
#include "tests/gpu_kernels/replay_ring.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

using gpu_writer::EnqueuedRows;
using gpu_writer::LeanRecord;
using gpu_writer::LeanRows;
using gpu_writer::LeanWant;
using gpu_writer::SentPlace;
using proto::RowInput;
using Random = std::mt19937_64;

void need_that(bool holds, const char* what) {
    if (!holds) throw std::runtime_error(what);
}

// What an engine enqueues of a case, and what it should come to.
class GatheredRows {
  public:
    GatheredRows(const LeanCase& of, const GatherCase& how, Random& random)
        : of_(of), row_of_(of.columns() + kOthers), numbers_(of.columns()), wants_(of.wants) {
        number_rows(how.windows, random);
        scatter(random);
        for (std::uint32_t column = 0; column < of.columns(); ++column) {
            inputs_.push_back(static_cast<std::int32_t>(random() % 1000) - 2);
            parents_.push_back(static_cast<std::int32_t>(random() % (column + 1)));
            positions_.push_back(static_cast<std::int32_t>(of.wants[column].key.position) - 1);
            // As the host guesses it.
            if (positions_.back() >= 0) wants_[column].key.position /= 2;
            if (how.one_in_without == 0 || random() % how.one_in_without != 0) continue;
            row_of_[column] = missing(random);
            without_.push_back(column);
        }
        if (random() % 2 == 0) parents_.clear();
    }

    EnqueuedRows given() const {
        EnqueuedRows given;
        given.logits = logits();
        given.row_stride = of_.rows.stride;
        given.row_of = row_of_.data();
        given.row_end = rows();
        given.inputs = inputs_.data();
        given.parents = parents_.empty() ? nullptr : parents_.data();
        given.positions = positions_.data();
        return given;
    }
    // As an engine's later work leaves them.
    void overwrite() {
        std::fill(row_of_.begin(), row_of_.end(), 0);
        std::fill(inputs_.begin(), inputs_.end(), -7);
    }
    const std::byte* logits() const { return reinterpret_cast<const std::byte*>(logits_.data()) + skipped(); }
    std::vector<std::uint64_t> words() const {
        std::vector<std::uint64_t> words;
        for (std::uint32_t column = 0; column < of_.columns(); ++column) {
            const std::uint32_t before = column == 0 ? 0 : column - 1;
            const auto row = static_cast<std::uint32_t>(row_of_[column]);
            const RowInput input{row >= rows() ? RowInput::kNone : inputs_[column],
                                 parents_.empty() ? before : static_cast<std::uint32_t>(parents_[column])};
            words.push_back(input.pack());
        }
        return words;
    }
    const std::vector<std::uint16_t>& numbers() const { return numbers_; }
    const std::vector<LeanWant>& wants() const { return wants_; }
    const std::vector<std::uint32_t>& without() const { return without_; }

  private:
    static constexpr std::uint32_t kOthers = 3;  // rows of nobody's

    std::uint32_t rows() const { return of_.columns() + kOthers; }
    // A number that is of no row.
    std::int32_t missing(Random& random) const {
        if (random() % 2 == 0) return -1 - static_cast<std::int32_t>(random() % 2);
        return static_cast<std::int32_t>(rows() + random() % 2 * 1000);
    }
    std::size_t skipped() const {
        return std::size_t{of_.skipped} * proto::element_bytes(of_.geometry.dtype);
    }
    void number_rows(bool windows, Random& random) {
        for (std::size_t column = 1; column < numbers_.size(); ++column) {
            if (windows && random() % 4 != 0)
                numbers_[column] = static_cast<std::uint16_t>(numbers_[column - 1] + 1);
        }
    }
    void scatter(Random& random) {
        std::iota(row_of_.begin(), row_of_.end(), 0);
        std::shuffle(row_of_.begin(), row_of_.end(), random);
        row_of_.resize(of_.columns());
        const std::size_t bytes = of_.rows.stride * proto::element_bytes(of_.geometry.dtype);
        logits_ = aligned_memory(skipped() + (of_.columns() + kOthers) * bytes);
        auto* const to = reinterpret_cast<unsigned char*>(logits_.data());
        std::fill_n(to, logits_.size() * sizeof(uint4), kPoison);
        for (std::size_t column = 0; column < of_.columns(); ++column) {
            std::copy_n(of_.rows.bytes.data() + skipped() + column * bytes, bytes,
                        to + skipped() + static_cast<std::size_t>(row_of_[column]) * bytes);
        }
    }

    const LeanCase& of_;
    std::vector<std::int32_t> row_of_, inputs_, parents_, positions_;
    std::vector<std::uint16_t> numbers_;
    std::vector<LeanWant> wants_;
    std::vector<std::uint32_t> without_;
    std::vector<uint4> logits_;
};

class Step {
  public:
    Step(const LeanCase& of, const GatherCase& how, Random& random)
        : of_(of),
          how_(how),
          rows_(of, how, random),
          shape_(gpu_writer::lean_shape(of_.geometry, of_.rank, of_.columns())),
          ring_(2, of_.geometry.max_batch),
          scratch_(aligned_memory(gpu_writer::lean_scratch_bytes(of_.geometry.dtype, shape_.slice.blocks,
                                                                 of_.geometry.max_batch))),
          spread_scratch_(aligned_memory(gpu_writer::spread_scratch_bytes())),
          inputs_(of_.columns()) {
        places_.resize(of_.columns());
        proto::WindowOrder(proto::LeanOrder(of_.columns())).lay(rows_.numbers(), places_);
    }

    void send(Laid& to) {
        StepWords words;
        const LeanRecord record = begin(to, words);
        gpu_writer::launch_find_step(launched(), rows_.given(), ring_.get(), nullptr);
        gpu_writer::launch_found_lean(launched(), rows_.given().has_arrays(), {of_.columns()}, target(),
                                      ring_.get(), scratch_.data(), spread_scratch_.data(), nullptr);
        check(record, words);
    }
    void send_apart(Laid& to) {
        StepWords words;
        const LeanRecord record = begin(to, words);
        gpu_writer::launch_find_step(launched(), rows_.given(), ring_.get(), nullptr);
        check_inputs();
        need_that(words.ready == 0 && std::all_of(std::begin(words.stamps), std::end(words.stamps),
                                                  [](std::uint64_t stamp) { return stamp == 0; }),
                  "a part of a step is announced before it is sent");
        gpu_writer::launch_found_whole_columns(launched(), ring_.get().step, nullptr);
        gpu_writer::launch_found_spreads(launched(), target(), ring_.get().step, spread_scratch_.data(),
                                         nullptr);
        gpu_writer::launch_send_found(launched(), target(), ring_.get(), of_.geometry.max_batch, true,
                                      scratch_.data(), nullptr);
        check(record, words);
    }
    Bytes answer(const std::vector<Asked>& asked) {
        Laid laid = poisoned(of_);
        StepWords words;
        const LeanRecord record = begin(laid, words);
        gpu_writer::launch_find_step(launched(), rows_.given(), ring_.get(), nullptr);
        if (how_.copies) gpu_writer::launch_keep_rows(launched(), ring_.get(), pitch(), nullptr);
        rows_.overwrite();
        LeanRows nowhere = launched();
        nowhere.logits = nullptr;
        nowhere.row_of = nullptr;
        nowhere.row_end = gpu_writer::kNoRowEnd;
        for (const Asked& each : asked) {
            answer_blocks(nowhere, record.slice, {each.column, of_.wants[each.column].place}, each.bitmap,
                          {&ring_.rows_of(record.slot), record.opening});
        }
        return laid.slice;
    }

    const std::vector<std::uint32_t>& without() const { return rows_.without(); }

  private:
    LeanRows launched() const {
        // Masks and names are the record's.
        LeanRows launched = rows_at(rows_.logits(), nullptr, nullptr, of_, shape_);
        launched.logits = rows_.logits();
        launched.masks = {};
        launched.names = {};
        launched.row_of = rows_.given().row_of;
        launched.row_end = rows_.given().row_end;
        return launched;
    }
    LeanRecord begin(Laid& to, StepWords& words) {
        LeanRecord record;
        record.ticket = ++ticket_;
        record.opening = 10 + ticket_;
        record.slot = static_cast<std::uint32_t>(ticket_ % 2);
        record.masks = {of_.masks.data(), of_.mask_words()};
        record.names = {of_.names.data()};
        record.order = proto::LeanOrder(of_.columns());
        record.part = address(to.part.data());
        record.slice = slice_at(to.slice, of_);
        record.end = words.end(ticket_);
        record.end.next = ring_.next();
        if (how_.copies) record.kept = reinterpret_cast<std::byte*>(kept().data()) + lead_bytes();
        std::fill(inputs_.begin(), inputs_.end(), 0);
        if (how_.windows) {
            record.windows = 1;
            record.inputs = address(inputs_.data());
            for (const SentPlace& place : places_) {
                if (place.part < proto::kLeanStamps) ++record.part_sizes[place.part];
            }
        }
        ring_.begin(record, rows_.wants(),
                    how_.windows ? std::span<const SentPlace>(places_) : std::span<const SentPlace>());
        return record;
    }
    void check_inputs() const {
        need_that(!how_.windows || inputs_ == rows_.words(),
                  "what rows were computed from is not what the engine says");
    }
    void check(const LeanRecord& record, const StepWords& words) const {
        check_inputs();
        need_that(*std::as_const(ring_).get().next == record.ticket, "a step is sent, and is still next");
        if (!how_.windows) return words.check(of_.columns(), record.ticket);
        bool told = words.ready == record.ticket && words.finished == record.ticket;
        for (std::uint32_t part = 0; part < proto::kLeanStamps; ++part)
            told = told && (words.stamps[part] == record.ticket) == (record.part_sizes[part] > 0);
        need_that(told, "a step with windows ended, and its words do not say so");
    }

    gpu_writer::LeanTarget target() const { return {0, shape_.layout, shape_.room}; }
    std::size_t lead_bytes() const {
        return std::size_t{shape_.slice.lead} * proto::element_bytes(of_.geometry.dtype);
    }
    std::size_t pitch() const {
        return std::size_t{shape_.slice.blocks} * proto::kBlockIds * proto::element_bytes(of_.geometry.dtype);
    }
    std::vector<uint4>& kept() {
        if (kept_rows_.empty()) kept_rows_ = aligned_memory(of_.columns() * pitch());
        return kept_rows_;
    }

    const LeanCase& of_;
    const GatherCase& how_;
    GatheredRows rows_;
    gpu_writer::LeanShape shape_;
    ReplayRing ring_;
    std::vector<uint4> scratch_, spread_scratch_, kept_rows_;
    std::vector<std::uint64_t> inputs_;
    std::vector<SentPlace> places_;
    std::uint64_t ticket_ = 0;
};

class Gather final : public EmulatedGather {
  public:
    Gather(const GatherCase& how, Random& random) : how_(how), random_(random) {}

    Laid lay(const LeanCase& of) override {
        Step step(of, how_, random_);
        Laid laid = poisoned(of);
        Laid elsewhere = poisoned(of);
        // The first time to where nobody looks: what that leaves in memory is what the next one finds.
        step.send_apart(elsewhere);
        step.send(laid);
        without_ = step.without();
        return laid;
    }
    Bytes answer(const LeanCase& of, const std::vector<Asked>& asked) override {
        Step step(of, how_, random_);
        without_ = step.without();
        return step.answer(asked);
    }
    const std::vector<std::uint32_t>& without() const override { return without_; }

  private:
    GatherCase how_;
    Random& random_;
    std::vector<std::uint32_t> without_;
};

}  // namespace

std::unique_ptr<EmulatedGather> make_emulated_gather(const GatherCase& of, std::mt19937_64& random) {
    return std::make_unique<Gather>(of, random);
}

}  // namespace croupier::testing
