#include "sim/whole_row.h"

#include <limits>

#include "proto/philox.h"

namespace croupier::sim {
namespace {

// A single column of one rank, in wide tiles, with blocks ordered by id: as different from the segment's
// layout as possible.
constexpr std::uint32_t kTile = 1024;

}  // namespace

WholeRow::WholeRow(const World& world) : world_(world) {
    const proto::Geometry& geometry = world.vocabulary.geometry;
    const std::uint32_t padded = (geometry.vocab + kTile - 1) / kTile * kTile;
    row_.resize(std::size_t{padded} * proto::element_bytes(geometry.dtype));
    for (std::uint32_t id = geometry.vocab; id < padded; ++id)
        world.rows.set_value(row_.data(), id, -std::numeric_limits<float>::infinity());
    slice_ = {row_.data(), geometry.vocab, 0};
}

sampler::RowView WholeRow::write(const Request& request, std::span<const std::int32_t> prompt,
                                 std::span<const std::int32_t> output) {
    const proto::Geometry& geometry = world_.vocabulary.geometry;
    const std::int32_t previous = output.empty() ? prompt.back() : output.back();
    world_.rows.write(request, static_cast<std::uint32_t>(output.size()), previous, 0, geometry.vocab,
                      row_.data());
    return {geometry.dtype, geometry.vocab, kTile, 1, 0, {&slice_, 1}};
}

sampler::Request asked_at(const World& world, const Request& request, std::span<const std::int32_t> prompt,
                          std::span<const std::int32_t> output) {
    sampler::Request asked;
    asked.params = &request.params;
    asked.bias = request.bias;
    asked.stop_ids = request.stop_ids;
    asked.allowed_ids = request.allowed_ids;
    asked.bad_words = request.bad_words;
    asked.dry_breakers = request.dry_breakers;
    asked.prompt = prompt;
    asked.output = output;
    asked.mask = world.masks.row(request, static_cast<std::uint32_t>(output.size()));
    asked.max_length = world.vocabulary.geometry.max_length;
    asked.random =
        proto::random_at(request.params.seed, sampler::random_position(asked), request.params.child, 0);
    return asked;
}

}  // namespace croupier::sim
