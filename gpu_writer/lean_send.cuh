// How the CUDA blocks of one column send it: each measures a chunk of its row, and the one that is last with
// that sends what can matter of the whole.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cfloat>

#include "gpu_writer/device_only.cuh"
#include "gpu_writer/device_words.cuh"
#include "gpu_writer/element_codes.h"
#include "gpu_writer/lean_draw.cuh"
#include "gpu_writer/lean_entries.cuh"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_measure.cuh"
#include "gpu_writer/lean_racers.cuh"
#include "gpu_writer/lean_ranks.cuh"
#include "gpu_writer/lean_rows.cuh"
#include "proto/lean_order.h"

namespace croupier::gpu_writer {

// Copies the column's maxima to where they go, and ranks its blocks by them, with all warps but the last.
template <proto::Dtype D>
__device__ void send_maxima(const LeanTarget& target, std::uint32_t column, const Scratch& scratch,
                            const BlockRanks& ranks) {
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    constexpr std::uint32_t kSending = kLeanThreads - 32;
    constexpr std::uint32_t kTogether = 2;
    const auto* from =
        reinterpret_cast<const uint4*>(scratch.maxima + std::uint64_t{column} * scratch.maxima_stride);
    auto* to =
        reinterpret_cast<uint4*>(target.part + target.layout.maxima + column * target.layout.maxima_stride);
    const std::uint32_t end = ranks.places() / kElements;
    for (std::uint32_t base = threadIdx.x; base < end; base += kSending * kTogether) {
        uint4 codes[kTogether];
#pragma unroll
        for (std::uint32_t i = 0; i < kTogether; ++i) {
            if (base + i * kSending < end) codes[i] = __ldcg(from + base + i * kSending);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kTogether; ++i) {
            const std::uint32_t at = base + i * kSending;
            if (at >= end) break;
            if (at * kElements < ranks.blocks) to[at] = codes[i];
            Unit<D> unit;
            *reinterpret_cast<uint4*>(unit.codes) = codes[i];
#pragma unroll
            for (std::uint32_t k = 0; k < kElements; ++k) {
                ranks.of(0)[at * kElements + k] = rank_of(value_of<D>(unit.codes[k]));
            }
        }
    }
}

// They are there behind wait_for_race().
__device__ inline void fetch_race(std::uint32_t column, const Scratch& scratch, const BlockRanks& ranks) {
    constexpr std::uint32_t kRanks = 4;
    const std::uint32_t* from = scratch.race + std::uint64_t{column} * scratch.race_stride;
    for (std::uint32_t i = threadIdx.x * kRanks; i < ranks.places(); i += kLeanThreads * kRanks) {
        __pipeline_memcpy_async(ranks.of(1) + i, from + i, kRanks * sizeof(*from));
    }
    __pipeline_commit();
}
__device__ inline void wait_for_race() {
    __pipeline_wait_prior(0);
}

template <proto::Dtype D>
__device__ void send_blocks(const RowReader<D>& reader, const LeanTarget& target, std::uint32_t column,
                            const ChoiceRoom& room) {
    constexpr std::uint32_t kListed = 16 / sizeof(std::uint16_t);
    auto* list =
        reinterpret_cast<uint4*>(target.part + target.layout.blocks + column * target.layout.blocks_stride);
    for (std::uint32_t i = threadIdx.x; i * kListed < room.sent; i += kLeanThreads) {
        list[i] = reinterpret_cast<const uint4*>(room.list)[i];
    }
    void* elements = reinterpret_cast<void*>(target.part + target.layout.elements +
                                             column * target.layout.elements_stride);
    copy_blocks<D, kLeanThreads>(
        reader, column, room.sent, [&](std::uint32_t i) { return std::uint32_t{room.list[i]}; },
        [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
            unit.store(elements, std::uint64_t{i} * kBlockUnits<D> + within);
        });
}

// The logits of the ids that the request names, behind the blocks.
template <proto::Dtype D>
__device__ void send_named(const RowReader<D>& reader, const LeanRows& rows, const LeanTarget& target,
                           std::uint32_t column, const LeanWant& want, std::uint32_t sent) {
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    constexpr std::uint32_t kFours = kElements / 4;
    const std::uint32_t first_id = rows.first_block * proto::kBlockIds + rows.lead;
    const auto* list = reinterpret_cast<const uint4*>(rows.names.of(want));
    auto* to = reinterpret_cast<uint4*>(target.part + target.layout.named_values(column, sent));
    static_assert(sizeof(proto::NamedValues) == sizeof(uint4) && StepNames::kHeadWords == 4);
    if (threadIdx.x == 0) to[0] = list[0];
    for (std::uint32_t i = threadIdx.x; i * kElements < want.named; i += kLeanThreads) {
        Unit<D> unit;
#pragma unroll
        for (std::uint32_t four = 0; four < kFours; ++four) {
            const uint4 ids = list[1 + i * kFours + four];
            unit.codes[4 * four] = reader.code(column, ids.x - first_id);
            unit.codes[4 * four + 1] = reader.code(column, ids.y - first_id);
            unit.codes[4 * four + 2] = reader.code(column, ids.z - first_id);
            unit.codes[4 * four + 3] = reader.code(column, ids.w - first_id);
        }
        unit.store(to + 1, i);
    }
}

// What each block weighs, behind the blocks.
__device__ inline void send_weights(const LeanTarget& target, std::uint32_t column, std::uint32_t blocks,
                                    const Scratch& scratch) {
    const auto* from =
        reinterpret_cast<const uint4*>(scratch.weights + std::uint64_t{column} * scratch.race_stride);
    auto* to = reinterpret_cast<uint4*>(target.part + target.layout.block_weights(column, blocks));
    for (std::uint32_t i = threadIdx.x; i * sizeof(uint4) < blocks; i += kLeanThreads)
        to[i] = __ldcg(from + i);
}

struct RowSums {
    double weight;
    double weight_at_scale;
};

// Joins the chunks' sums, by one warp; both are 0 where the largest entry is not finite.
__device__ inline RowSums sum_row(const LeanScales& scales, const ChunkSums* of_chunks) {
    const ChunkSums all = join_sums(scales, gridDim.x, [&](std::uint32_t i) {
        return ChunkSums{__ldcg(&of_chunks[i].most), __ldcg(&of_chunks[i].at_one),
                         __ldcg(&of_chunks[i].at_scale)};
    });
    // Not above -FLT_MAX: all is -inf, or there is a NaN.
    if (!(all.most > -FLT_MAX && all.most <= FLT_MAX)) return {};
    return {scales.at_one != 0.0F ? all.at_one : 0.0F, scales.at_scale != 0.0F ? all.at_scale : 0.0F};
}

// The code that finds racers takes registers and shared memory, and that for masks and for named ids as
// well: steps without have a kernel that lacks it, and are up to two microseconds shorter. The one for
// steps that select, by a mask or by names, has all.
template <bool kFindsRacers>
struct OptionalRacerRoom {};
template <>
struct OptionalRacerRoom<true> {
    RacerRoom racing;
};

// What a column's CUDA block knows when it sends it.
template <bool kFindsRacers>
struct Sending : OptionalRacerRoom<kFindsRacers> {
    ChoiceRoom room;
    EntryRoom listing;
    RowSums sums;
    Contender drawn;  // 0: the column is not drawn
    bool weighed;     // each block is
    bool listed;      // the best entries are
    bool nothing;     // no entry that counts is above -inf

    // By all threads, which see it behind the next barrier.
    __device__ void begin(const LeanShares& shares, float reach) {
        room.begin(shares, reach);
        if constexpr (kFindsRacers) this->racing.begin();
        if (threadIdx.x != 0) return;
        listing.begin();
        sums = {};
        drawn = 0;
        weighed = false;
        listed = false;
        nothing = false;
    }
    __device__ proto::LeanHead head_of(const LeanWant& want) const {
        proto::LeanHead head{};
        if (want.flags.has(Want::whole)) head.flags.add(proto::Sent::whole_row);
        if (want.mask_row != 0) head.flags.add(proto::Sent::under_mask);
        if (weighed) head.flags.add(proto::Sent::weighed_blocks);
        if (want.named > 0 && drawn == 0 && !want.flags.has(Want::whole))
            head.flags.add(proto::Sent::named_values);
        if (listed) head.flags.add(proto::Sent::best_entries);
        if (nothing) head.flags.add(proto::Sent::nothing);
        if (sums_spread(want)) head.flags.add(proto::Sent::row_spread);
        if (drawn > 0) {
            head.flags.add(proto::Sent::draw_alone);
            head.draw = {want.key, want.temperature, token_of(drawn), score_of(drawn), 0.0F};
        }
        if constexpr (kFindsRacers) tell_best(want, this->racing.racers, head);
        head.sent = room.sent;
        head.scale = want.scale;
        head.weight = sums.weight;
        head.weight_at_scale = sums.weight_at_scale;
        return head;
    }

  private:
    __device__ static void tell_best(const LeanWant& want, const proto::Racers& racers,
                                     proto::LeanHead& head) {
        if (racers.count == 0) return;
        head.flags.add(proto::Sent::draw_beside | proto::Sent::race_best);
        head.draw = {want.key, want.temperature, racers.best[0].token, racers.best[0].score,
                     racers.count > 1 ? racers.best[1].score : racers.rival};
    }
};

__device__ inline void send_racers(const LeanTarget& target, std::uint32_t column, std::uint32_t blocks,
                                   bool weighed, const proto::Racers& racers) {
    __syncthreads();
    if (racers.count == 0 || threadIdx.x >= sizeof(racers) / sizeof(uint4)) return;
    proto::SentFlags flags;
    if (weighed) flags.add(proto::Sent::weighed_blocks);
    auto* to = reinterpret_cast<uint4*>(target.part + target.layout.racers(column, flags, blocks));
    to[threadIdx.x] = reinterpret_cast<const uint4*>(&racers)[threadIdx.x];
}

// What a sampler needs to draw, or the winner.
template <proto::Dtype D, bool kFindsRacers, bool kNames>
__device__ void send_and_draw(const RowReader<D>& reader, const LeanRows& rows, const LeanTarget& target,
                              std::uint32_t column, const LeanWant& want, const ColumnPlan& plan,
                              const BlockRanks& ranks, const ColumnMask& mask, const Scratch& scratch,
                              Sending<kFindsRacers>& sending) {
    find_tops(ranks, sending.room);
    const bool can_be = can_be_drawn(sending.room.tops[0]);
    if (threadIdx.x == 0) sending.nothing = sending.room.tops[0] <= kEmptyRank;
    if (can_be && want.flags.has(Want::draw)) {
        // Blocks that cannot reach it are not opened: they need not be among the rows.
        if (threadIdx.x == 0) sending.drawn = Contender{scratch.floors[column]} << 32U;
        __syncthreads();
        draw_token<D>({reader, want, ranks, sending.room, column, rows.first_block, mask}, sending.drawn);
        return;
    }
    if (threadIdx.x == 0) sending.weighed = plan.weighs;
    if (plan.weighs) send_weights(target, column, rows.blocks, scratch);
    choose_blocks(ranks, {rows.lead, rows.entries, rows.blocks},
                  {plan.lists ? 1U : 0U, plan.racers ? 1U : ranks.ways}, sending.room);
    send_blocks(reader, target, column, sending.room);
    const std::uint32_t sent = sending.room.sent;
    std::size_t before = sent * target.layout.block_bytes;
    if constexpr (kNames) {
        if (want.named > 0) {
            send_named(reader, rows, target, column, want, sent);
            before += target.layout.bytes_of_named(want.named);
        }
    }
    bool needs_race = can_be && plan.racers;
    if (can_be && plan.lists) {
        if (threadIdx.x == 0) sending.listed = true;
        const bool reaches = list_entries<D>(
            rows, column, want, mask,
            reinterpret_cast<proto::BestEntries*>(target.part + target.layout.best_entries(column, before)),
            static_cast<std::uint32_t>(target.layout.room_for_entries(before, plan.taken)), &sending.room,
            &sending.listing);
        needs_race = needs_race && !reaches;
    }
    if constexpr (kFindsRacers) {
        if (!needs_race) return;
        find_racers<D>(rows, column, want, mask, &sending.room, &sending.racing);
        send_racers(target, column, rows.blocks, plan.weighs, sending.racing.racers);
    }
}

template <proto::Dtype D, bool kFindsRacers, bool kNames>
__device__ void send_column(const RowReader<D>& reader, const LeanRows& rows, const LeanTarget& target,
                            std::uint32_t column, const LeanWant& want, const ColumnPlan& plan,
                            const ColumnMask& mask, const Scratch& scratch) {
    __shared__ Sending<kFindsRacers> sending;
    const BlockRanks ranks(launch_memory(), rows.blocks, plan.races ? kWays : 1);
    // They are on their way while the maxima are sent.
    if (plan.races) fetch_race(column, scratch, ranks);
    sending.begin(plan.shares, want.reach);
    if (threadIdx.x < kLeanThreads - 32) send_maxima<D>(target, column, scratch, ranks);
    const LeanScales scales(want);
    RowSums sums{};
    if (threadIdx.x >= kLeanThreads - 32 && scales.any()) {
        sums = sum_row(scales, scratch.sums + std::uint64_t{column} * gridDim.x);
    }
    if (plan.races) wait_for_race();
    __syncthreads();
    if (threadIdx.x == kLeanThreads - 32) sending.sums = sums;
    if (!want.flags.has(Want::whole))
        send_and_draw<D, kFindsRacers, kNames>(reader, rows, target, column, want, plan, ranks, mask, scratch,
                                               sending);
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (rows.has_maxima) store_now(scratch.floors + column, 0U);
    auto* heads = reinterpret_cast<proto::LeanHead*>(target.part + target.layout.heads);
    heads[column] = sending.head_of(want);
}

// By each CUDA block that has sent its column: the last one of a part of the step says that the part is
// there, and the last one of all that the step is.
template <typename Order>
__device__ void finish_column(const LeanEnd& end, const Order& order, std::uint32_t place,
                              const Scratch& scratch) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    // Who sees this column counted sees its bytes, on the CPU too.
    __threadfence_system();
    const std::uint32_t part = order.part_at(place);
    if (part + 1 < order.parts() && atomicAdd(scratch.sent_of + part, 1U) + 1 == order.size_of(part)) {
        // The part's other columns come before the stamp.
        __threadfence_system();
        store_now(reinterpret_cast<std::uint64_t*>(end.stamps) + part, end.word);
        store_now(scratch.sent_of + part, 0U);
    }
    if (atomicAdd(scratch.sent, 1U) + 1 != order.columns()) return;
    // The other columns' bytes come before the word.
    __threadfence_system();
    if (end.next != nullptr) store_now(end.next, end.ticket);
    store_now(reinterpret_cast<std::uint64_t*>(end.ready), end.word);
    store_now(scratch.sent, 0U);
    __threadfence_system();
    store_now(reinterpret_cast<std::uint64_t*>(end.finished), end.ticket);
}

template <bool kSelects>
__device__ ColumnMask mask_of(const LeanRows& rows, const LeanWant& want) {
    if constexpr (kSelects) return {rows, want.mask_row};
    return {};
}

// The step's column at a place of its order, by a CUDA block for each of its chunks.
template <proto::Dtype D, bool kFindsRacers, bool kSelects, typename Order>
__device__ void send_in_order(const LeanRows& rows, const LeanTarget& target, const LeanWant& want,
                              const LeanEnd& end, const Scratch& scratch, const Order& order,
                              std::uint32_t place, std::uint32_t column) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const ColumnPlan plan(want, {rows.lead, rows.entries, rows.blocks}, target.room,
                          sizeof(typename Element<D>::Code));
    const auto mask = mask_of<kSelects>(rows, want);
    measure_chunk<D>(reader, column, want, plan, mask, rows, scratch);
    if (!arrives_last(scratch.arrived + column, gridDim.x)) return;
    send_column<D, kFindsRacers, kSelects>(reader, rows, target, column, want, plan, mask, scratch);
    finish_column(end, order, place, scratch);
}

}  // namespace croupier::gpu_writer
