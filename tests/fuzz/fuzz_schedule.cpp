// Clients and writers may write anything into their segment: whatever the bytes of a step, its sequences and
// its rows are, whole or in parts, every column is decided or the record is refused, and nothing outside is
// read or written.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "daemon/worker/column_decider.h"
#include "daemon/worker/session_view.h"
#include "proto/lean_part.h"
#include "sampler/workspace.h"
#include "shm/block_requests.h"
#include "shm/logits_publisher.h"
#include "shm/schedule_publisher.h"
#include "shm/segment.h"
#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "tests/fuzz/fuzz_directory.h"

namespace {

using namespace croupier;
using proto::DecisionError;

constexpr std::uint32_t kVocab = 200;
constexpr std::uint32_t kBatch = 4;
constexpr std::uint32_t kSampler = 1;

void require(bool condition) {
    if (!condition) std::abort();
}

struct Region {
    std::byte* begin;
    std::size_t bytes;
};

// One session with a sound step of four sequences, and the image to which every run returns.
class World {
  public:
    explicit World(bool lean) : segment_(create(lean)), view_(attach()), workspace_(kVocab) {
        ::unlink(segment_.path().c_str());
        publish_sound_step();
        if (lean) publish_parts();
        const auto& layout = segment_.layout();
        std::byte* base = reinterpret_cast<std::byte*>(&segment_.header());
        patched_ = {{base + layout.schedule, layout.schedule_stride},
                    {base + layout.sequences, layout.sequence_stride * kBatch},
                    {base + layout.masks, layout.mask_stride},
                    {base + layout.inputs, layout.input_stride},
                    {base + layout.order, layout.hot_blocks - layout.order},
                    {base + layout.logits, layout.logits_stride}};
        for (std::uint32_t rank = 0; lean && rank < segment_.geometry().tp; ++rank)
            patched_.push_back(
                {segment_.lean(0, rank), proto::lean_layout_of(segment_.geometry(), rank).bytes});
        std::erase_if(patched_, [](const Region& each) { return each.bytes == 0; });
        image_.assign(base, base + layout.total_bytes);
    }

    // The input is a list of patches: region, two bytes of offset, length, bytes.
    void lay_over(const std::uint8_t* data, std::size_t size) {
        std::memcpy(static_cast<void*>(&segment_.header()), image_.data(), image_.size());
        while (size > 4) {
            const Region& region = patched_[data[0] % patched_.size()];
            const std::size_t offset = (data[1] | static_cast<std::size_t>(data[2]) << 8U) % region.bytes;
            const std::size_t length = std::min({std::size_t{data[3]} + 1, size - 4, region.bytes - offset});
            std::memcpy(region.begin + offset, data + 4, length);
            data += 4 + length;
            size -= 4 + length;
        }
    }

    void decide() {
        daemon::CheckedStep step;
        const auto fault = daemon::check_record(segment_, 0, step);
        const shm::StepClaims claims(segment_, 0);
        if (fault != DecisionError::none) {
            claims.refuse(fault);
            require(shm::step_refusal(segment_, 0) == fault);
            return;
        }
        require(step.columns >= 1 && step.columns <= kBatch);
        for (std::uint32_t column = 0; column < step.columns; ++column) {
            require(claims.try_claim(column, kSampler));
            const auto answered = decide(step, column);
            if (!answered) return;
            const proto::Decision& decision = *answered;
            require(decision.error < DecisionError::count_);
            const bool decided = decision.error == DecisionError::none;
            require(decided == (decision.token >= 0 && decision.token < static_cast<std::int32_t>(kVocab)));
            claims.commit(column, step.columns, decision);
            require(claims.is_committed(column));
        }
        require(shm::step_complete(segment_, 0, step.columns));
    }

  private:
    // Again, as long as the column lacks blocks that the ranks can be asked for. Nothing: it waits for
    // others.
    std::optional<proto::Decision> decide(const daemon::CheckedStep& step, std::uint32_t column) {
        for (std::uint32_t tries = 0; tries <= segment_.geometry().blocks(); ++tries) {
            const auto decided = daemon::decide_column(*view_, step, column, {}, races_, workspace_);
            if (!decided.deferred) return decided.decision;
            if (!answer(step, column)) return std::nullopt;
        }
        std::abort();
    }

    // Answers the ranks' requests as if the blocks had been written, whatever bytes are in their places.
    bool answer(const daemon::CheckedStep& step, std::uint32_t column) {
        if (!segment_.geometry().is_lean()) return false;
        const shm::BlockRequests requests(segment_, step.step, shm::writer_epochs(segment_));
        bool some = false;
        for (std::uint32_t rank = 0; rank < segment_.geometry().tp; ++rank) {
            const std::uint64_t word = requests.unanswered(column, rank);
            if (word != 0) requests.answer(column, rank).store(word);
            some = some || word != 0;
        }
        return some;
    }

    static shm::Segment create(bool lean) {
        static const testing::FuzzDirectory directory;
        shm::SegmentSpec spec;
        spec.directory = directory.path();
        spec.instance = "fuzz";
        spec.session_id = 2 * static_cast<std::uint64_t>(::getpid()) + (lean ? 1 : 0);
        spec.name = "fuzz";
        auto& geometry = spec.geometry;
        geometry.vocab = kVocab;
        geometry.tp = 2;
        geometry.max_batch = kBatch;
        geometry.dtype = proto::Dtype::fp32;
        geometry.tile = 64;  // of which the maxima are used
        geometry.has_summaries = lean ? 0 : 1;
        geometry.lean_blocks = lean ? proto::kLeanGranule : 0;
        geometry.max_sequences = kBatch;
        geometry.max_length = 32;
        geometry.max_bias = 4;
        geometry.max_stop_ids = 4;
        geometry.max_list_tokens = 16;
        geometry.mask_rows = 2;
        geometry.has_order = lean ? 0 : 1;
        proto::fill_even_shards(geometry);
        return shm::Segment::create(spec).value();
    }

    // An order is checked when a sampler attaches: what is written over it later must not matter.
    std::unique_ptr<daemon::SessionView> attach() {
        const bool is_ordered = segment_.geometry().has_order != 0;
        if (is_ordered) std::iota(segment_.model_order().begin(), segment_.model_order().end(), 0U);
        for (std::uint32_t rank = 0; is_ordered && rank < segment_.geometry().tp; ++rank) {
            const auto order = segment_.order(rank);
            std::iota(order.begin(), order.end(), segment_.geometry().shards[rank].first_block());
        }
        return daemon::SessionView::make(
                   shm::Segment::attach(segment_.path(), shm::Access::read_write).value(), 1, totals_)
            .value();
    }

    void publish_sound_step() {
        auto publisher = shm::SchedulePublisher::attach(segment_).value();
        shm::SequenceTable table(segment_);
        std::vector<proto::ScheduleColumn> columns(kBatch);
        const std::vector<std::int32_t> prompt = {1, 2, 3};
        const std::vector<std::int32_t> output = {4};
        const std::vector<proto::TokenBias> bias = {{5, 1.0F}, {60, -2.0F}};
        const std::vector<std::int32_t> stops = {6, 65};
        const std::vector<std::int32_t> bad_words = {1, 7, 2, 4, 8};
        const std::vector<std::int32_t> breakers = {1, 2};
        for (std::uint32_t i = 0; i < kBatch; ++i) {
            shm::NewSequence sequence;
            sequence.uid = 100 + i;
            sequence.params.seed = i;
            sequence.params.temperature = i == 0 ? 0.0 : 1.0;
            sequence.params.top_k = i == 1 ? 10 : 0;
            sequence.params.top_p = i == 2 ? 0.9 : 1.0;
            sequence.params.repetition_penalty = 1.1;
            sequence.params.frequency_penalty = 0.5;
            sequence.params.mirostat = i == 3 ? 2 : 0;
            sequence.params.dry_multiplier = i == 2 ? 0.8 : 0.0;
            sequence.prompt = prompt;
            sequence.output = output;
            sequence.bias = bias;
            sequence.stop_ids = stops;
            sequence.bad_words = bad_words;
            sequence.dry_breakers = breakers;
            columns[i].sequence_slot = table.add(sequence).value();
            columns[i].sequence_uid = sequence.uid;
            columns[i].position = 1;
        }
        require(publisher.publish(columns).has_value());
    }

    // Of rows of zeros, of which no block was sent.
    void publish_parts() {
        for (std::uint32_t rank = 0; rank < segment_.geometry().tp; ++rank)
            require(shm::LogitsPublisher::attach(segment_, rank).value().publish_all(0).has_value());
    }

    shm::Segment segment_;
    proto::StateTotals totals_{};
    std::unique_ptr<daemon::SessionView> view_;
    daemon::PreparedRaces races_;
    sampler::Workspace workspace_;
    std::vector<Region> patched_;
    std::vector<std::byte> image_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static World rows(false);
    static World parts(true);
    if (size == 0) return 0;
    World& world = data[0] % 2 == 0 ? rows : parts;
    world.lay_over(data + 1, size - 1);
    world.decide();
    return 0;
}
