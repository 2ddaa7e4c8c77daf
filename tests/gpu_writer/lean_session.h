// A session whose steps are lean, with one writer: what samplers ask for of its rows.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "proto/lean_part.h"
#include "proto/schedule_slot.h"
#include "shm/block_requests.h"
#include "shm/logits_publisher.h"
#include "shm/step_claims.h"
#include "tests/gpu_writer/writer_under_test.h"

namespace croupier::testing {

constexpr std::uint32_t kLeanColumns = 3;

inline proto::Geometry lean_geometry() {
    proto::Geometry geometry = small_geometry();
    geometry.slots = 3;
    geometry.tile = proto::kBlockIds;
    geometry.lean_blocks = proto::kLeanGranule;
    return geometry;
}

// Two windows, the first of so many rows; or one of all columns.
inline std::uint64_t publish_window(shm::SchedulePublisher& client, std::uint32_t first = kLeanColumns) {
    std::vector<proto::ScheduleColumn> asked(kLeanColumns);
    for (std::uint32_t i = 0; i < kLeanColumns; ++i) {
        asked[i].sequence_uid = i < first ? 100 : 101;
        asked[i].row = static_cast<std::uint16_t>(i < first ? i : i - first);
        asked[i].ticket = asked[i].row;
    }
    return need(client.publish(asked, proto::kWindows));
}

inline std::vector<std::uint64_t> inputs_of(const shm::Segment& segment, std::uint64_t step,
                                            std::uint32_t rank) {
    const auto* words = segment.inputs(segment.slot_of(step), rank);
    return {words, words + kLeanColumns};
}

struct LeanSession {
    explicit LeanSession(Way way, const proto::Geometry& geometry)
        : files(geometry),
          client(need(shm::SchedulePublisher::attach(files.segment))),
          writer(way, files.segment.path(), 0, std::size_t{2} * geometry.max_batch * geometry.vocab * 2) {}

    Rows rows(std::uint32_t seed, std::uint32_t columns = kLeanColumns) const {
        return random_rows(files.segment.geometry(), 0, columns, files.segment.geometry().vocab, seed);
    }
    void await(std::uint64_t step) const {
        REQUIRE(soon([&] { return shm::slice_ready(files.segment, step, 0); }));
    }
    // Block 1 of column 2, once it is answered. `place`: where that stands in the slice.
    Bytes requested_block(std::uint64_t step, std::uint32_t place = 2) const {
        const shm::BlockRequests requests(files.segment, step, shm::writer_epochs(files.segment));
        std::vector<std::uint64_t> bits(requests.bits(0).size());
        bits[0] = 2;
        requests.ask(2, bits);
        REQUIRE(soon([&] { return requests.unanswered(2, 0) == 0; }));
        const std::uint32_t places = files.segment.geometry().row_places(kLeanColumns);
        return block_of(slice_of(files.segment, step, 0, std::size_t{2} * places * kBlockBytes), place,
                        places);
    }
    // The same of the rows themselves.
    Bytes that_block(const Rows& rows) const {
        return block_of(naive_slice(files.segment.geometry(), 0, kLeanColumns, {}, rows), 2, kLeanColumns);
    }

    using Graph = std::unique_ptr<CapturedGraph>;
    // Of an enqueue of rows that stand so many bytes behind where put() lays them.
    Failure try_capture(std::uint64_t stride, Graph& graph, std::size_t behind = 0) {
        const void* at = writer.memory().put(Bytes(16));
        writer.memory().synchronise();
        Failure failure;
        graph = writer.memory().capture([&] {
            failure.status =
                croupier_writer_enqueue(writer.get(), writer.memory().stream(),
                                        static_cast<const std::byte*>(at) + behind, stride, &failure.error);
        });
        return failure;
    }
    Graph capture(std::uint64_t stride, std::size_t behind = 0) {
        Graph graph;
        const Failure failure = try_capture(stride, graph, behind);
        INFO(failure.error.text);
        REQUIRE(failure.status == 0);
        return graph;
    }
    // By the graph's replay, where there is one.
    void send(const Rows& rows, const Graph& graph) {
        if (graph == nullptr) return writer.enqueue(rows);
        writer.memory().put(rows.bytes);
        graph->replay();
    }

    // Nothing stays on the GPU for its block requests then. Its columns' tokens are that one and those that
    // follow.
    void decide(std::uint64_t step, std::int32_t first_token = 0) {
        for (std::uint32_t column = 0; column < kLeanColumns; ++column) {
            const shm::StepClaims claims(files.segment, step);
            REQUIRE(claims.try_claim(column, 1));
            proto::Decision decision;
            decision.token = first_token + static_cast<std::int32_t>(column);
            claims.commit(column, kLeanColumns, decision);
        }
    }

    SessionFiles files;
    shm::SchedulePublisher client;
    WriterUnderTest writer;

  private:
    static constexpr std::ptrdiff_t kBlockBytes = std::ptrdiff_t{proto::kBlockIds} * 2;
    static Bytes block_of(const Bytes& slice, std::uint32_t place, std::uint32_t places) {
        const auto at = slice.begin() + (std::ptrdiff_t{places} + place) * kBlockBytes;
        return {at, at + kBlockBytes};
    }
};

}  // namespace croupier::testing
