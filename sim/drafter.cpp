#include "sim/drafter.h"

#include "proto/schedule_slot.h"
#include "sampler/decide.h"
#include "sim/keyed_hash.h"

namespace croupier::sim {
namespace {

constexpr std::uint64_t kDraftKey = 10;
constexpr double kTrees = 0.25;
constexpr double kRight = 0.8;
constexpr double kAbsent = 0.1;  // of those that are not right
constexpr double kTwins = 0.1;   // of a tree's

}  // namespace

DraftedRow head_behind(std::span<const std::int32_t> output) {
    return {output.empty() ? proto::RowInput::kAny : output.back(), 0,
            static_cast<std::uint32_t>(output.size())};
}

std::vector<DraftedRow> replayed_behind(std::span<const std::int32_t> output,
                                        std::span<const std::int32_t> cut) {
    std::vector<DraftedRow> rows = {head_behind(output)};
    for (const std::int32_t token : cut) {
        const auto parent = static_cast<std::uint32_t>(rows.size()) - 1;
        rows.push_back({token, parent, rows.back().position + 1});
    }
    return rows;
}

Drafter::Drafter(const World& world)
    : world_(world), row_(world), workspace_(world.vocabulary.geometry.vocab) {}

std::int32_t Drafter::guess(const Request& request, std::span<const std::int32_t> prompt,
                            std::span<const std::int32_t> output) {
    const proto::Geometry& geometry = world_.vocabulary.geometry;
    const sampler::Request asked = asked_at(world_, request, prompt, output);
    sampler::SequenceState state(geometry.vocab, geometry.max_length);
    state.begin(request.params, asked.dry_breakers);
    return sampler::decide(row_.write(request, prompt, output), asked, state, workspace_).token;
}

const std::vector<DraftedRow>& Drafter::draft(const Request& request, std::span<const std::int32_t> prompt,
                                              std::span<const std::int32_t> output, std::uint32_t rows,
                                              std::uint32_t writers) {
    const auto position = static_cast<std::uint32_t>(output.size());
    KeyedStream random(key_of(world_.options.seed, kDraftKey, request.index, position, rows, writers));
    // The scheduler gives a mask for each row, and knows chains alone.
    const bool tree = !request.masked && random.chance(kTrees);
    rows_.assign(1, head_behind(output));
    path_.assign(output.begin(), output.end());
    std::uint32_t tip = 0;  // the last row of the path that is right
    std::int32_t next = guess(request, prompt, path_);
    for (std::uint32_t row = 1; row < rows; ++row) {
        DraftedRow drafted;
        drafted.parent = tree ? random.below(row) : row - 1;
        if (tree && row > 1 && random.chance(kTwins)) {
            drafted = rows_[row - 1];
        } else if (random.chance(kRight)) {
            drafted.input = next;
        } else if (!random.chance(kAbsent)) {
            drafted.input = static_cast<std::int32_t>(random.below(world_.options.vocab));
        }
        drafted.position = rows_[drafted.parent].position + 1;
        rows_.push_back(drafted);
        if (drafted.parent != tip || drafted.input != next || next < 0) continue;
        tip = row;
        path_.push_back(next);
        // Behind the sequence's end there is nothing to guess.
        if (prompt.size() + path_.size() < world_.vocabulary.geometry.max_length)
            next = guess(request, prompt, path_);
    }
    return rows_;
}

}  // namespace croupier::sim
