// A client may write anything into its segment: whatever the bytes of a step and its sequences are, every
// column is decided or the record is refused, and nothing outside is read or written.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "daemon/worker/column_decider.h"
#include "daemon/worker/session_view.h"
#include "sampler/workspace.h"
#include "shm/schedule_publisher.h"
#include "shm/segment.h"
#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "tests/fuzz/fuzz_directory.h"

namespace {

using namespace croupier;
using proto::DecisionError;

constexpr std::uint32_t kVocab = 70;
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
    World() : segment_(create()), view_(attach_ordered()), workspace_(kVocab) {
        ::unlink(segment_.path().c_str());
        publish_sound_step();
        const auto& layout = segment_.layout();
        std::byte* base = reinterpret_cast<std::byte*>(&segment_.header());
        patched_ = {{base + layout.schedule, layout.schedule_stride},
                    {base + layout.sequences, layout.sequence_stride * kBatch},
                    {base + layout.masks, layout.mask_stride},
                    {base + layout.inputs, layout.input_stride},
                    {base + layout.order, layout.hot_blocks - layout.order},
                    {base + layout.logits, layout.logits_stride}};
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
            const proto::Decision decision =
                daemon::decide_column(*view_, step, column, {}, races_, workspace_).decision;
            require(decision.error < DecisionError::count_);
            const bool decided = decision.error == DecisionError::none;
            require(decided == (decision.token >= 0 && decision.token < static_cast<std::int32_t>(kVocab)));
            claims.commit(column, step.columns, decision);
            require(claims.is_committed(column));
        }
        require(shm::step_complete(segment_, 0, step.columns));
    }

  private:
    static shm::Segment create() {
        static const testing::FuzzDirectory directory;
        shm::SegmentSpec spec;
        spec.directory = directory.path();
        spec.instance = "fuzz";
        spec.session_id = static_cast<std::uint64_t>(::getpid());
        spec.name = "fuzz";
        auto& geometry = spec.geometry;
        geometry.vocab = kVocab;
        geometry.tp = 2;
        geometry.max_batch = kBatch;
        geometry.dtype = proto::Dtype::fp32;
        geometry.tile = 64;  // of which the maxima are used
        geometry.has_summaries = 1;
        geometry.max_sequences = kBatch;
        geometry.max_length = 32;
        geometry.max_bias = 4;
        geometry.max_stop_ids = 4;
        geometry.max_list_tokens = 16;
        geometry.mask_rows = 2;
        geometry.has_order = 1;
        proto::fill_even_shards(geometry);
        return shm::Segment::create(spec).value();
    }

    // An order is checked when a sampler attaches: what is written over it later must not matter.
    std::unique_ptr<daemon::SessionView> attach_ordered() {
        std::iota(segment_.model_order().begin(), segment_.model_order().end(), 0U);
        for (std::uint32_t rank = 0; rank < segment_.geometry().tp; ++rank) {
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
    static World world;
    world.lay_over(data, size);
    world.decide();
    return 0;
}
