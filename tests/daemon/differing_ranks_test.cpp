// Steps that some ranks send lean and others as rows bring the tokens that rows bring, whoever dies before
// all of it is there. Hosts' writers send lean here as GPUs' do where a session offers it.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "proto/lean_part.h"
#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kVocab = 26170;

EngineShape shape_of(std::uint32_t tp) {
    EngineShape shape;
    shape.vocab = kVocab;
    shape.tp = tp;
    shape.max_logprobs = 5;
    return shape;
}

void order_blocks(EngineShape& shape) {
    const std::uint32_t blocks = proto::blocks_of(shape.vocab);  // a prime
    for (std::uint32_t i = 0; i < blocks; ++i) shape.order.push_back(i * 37 % blocks);
}

// A rank for each bit.
void send_lean(SmallEngine& engine, std::uint32_t tp, std::uint32_t lean_ranks) {
    for (std::uint32_t rank = 0; rank < tp; ++rank) engine.send_lean(rank, (lean_ranks >> rank & 1U) != 0);
}

// What they ask of a row differs: some are drawn where it is, of some all of it stands there.
std::vector<client::Sequence> all_kinds() {
    std::vector<client::Sequence> all;
    const auto add = [&all](auto change) {
        client::Sequence made = SmallEngine::sequence(all.size() + 1, kVocab);
        change(made);
        all.push_back(std::move(made));
    };
    const auto as_it_is = [](client::Sequence&) {};
    const auto plain = [](client::Sequence& of) {
        of.params.top_k = 0;
        of.params.top_p = 1.0;
        of.params.repetition_penalty = 1.0;
        of.params.frequency_penalty = of.params.presence_penalty = 0.0;
        of.params.flags |= CROUPIER_NO_LOGPROB;
        of.bias.clear();
    };
    add(as_it_is);
    add(plain);
    add([](client::Sequence& of) { of.params.typical_p = 0.9; });
    add(plain);
    add([](client::Sequence& of) { of.params.top_n_sigma = 2.0; });
    add([](client::Sequence& of) { of.params.mirostat = 2; });
    add([](client::Sequence& of) { of.params.logprobs = 5; });
    add(as_it_is);
    return all;
}

proto::SliceFormat format_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank) {
    return segment.ready(segment.slot_of(step), rank).format;
}

}  // namespace

TEST_CASE("ranks may send a step each in its own way, and another one otherwise") {
    const DaemonProcess daemon(GENERATE("{count: 1}", "{count: 3, wait: spin}"));
    EngineShape shape = shape_of(GENERATE(2U, 3U));
    shape.masked = GENERATE(false, true);
    shape.summaries = GENERATE(false, true);
    if (GENERATE(false, true)) order_blocks(shape);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    const std::uint32_t ways = 1U << shape.tp;
    for (std::uint32_t step = 0; step < 2 * ways; ++step) {
        send_lean(engine, shape.tp, step % ways);
        engine.step();
        const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
        REQUIRE(segment);
        for (std::uint32_t rank = 0; rank < shape.tp; ++rank) {
            const bool lean = format_of(segment.value(), step, rank) == proto::SliceFormat::lean;
            CHECK(lean == ((step % ways >> rank & 1U) != 0));
        }
    }
}

TEST_CASE("a host's writer sends rows where lean steps are offered") {
    const DaemonProcess daemon(kTwoSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", shape_of(1));
    engine.admit(8);
    engine.steps(3);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    CHECK(segment.value().geometry().offered_lean_blocks == proto::kUsualLeanBlocks / 2);
    CHECK(format_of(segment.value(), 2, 0) == proto::SliceFormat::full_tiles);
}

TEST_CASE("steps in flight that ranks send each in its own way are decided in their order") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    shape.steps_in_flight = 4;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t round = 0; round < 8; ++round) {
        for (std::uint32_t i = 0; i < shape.steps_in_flight; ++i) engine.submit();
        for (std::uint32_t i = 0; i < shape.steps_in_flight; ++i) {
            send_lean(engine, shape.tp, (round + i) % 4);
            engine.write();
            engine.collect();
        }
    }
}

TEST_CASE("a writer that leaves before it has answered is followed by one that sends otherwise") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t round = 0; round < 24; ++round) {
        send_lean(engine, shape.tp, round % 4);
        const std::uint64_t step = engine.submit();
        engine.write(step);
        // Anywhere between its first wish and its last.
        std::this_thread::sleep_for(std::chrono::microseconds(40 * round));
        engine.detach_writers();
        engine.attach_writers();
        send_lean(engine, shape.tp, round / 4 % 4);
        engine.write_if_wanted();
        engine.collect();
    }
}

TEST_CASE("samplers and the daemon die while ranks' rows are awaited: the same tokens") {
    DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t round = 0; round < 12; ++round) {
        send_lean(engine, shape.tp, 1 + round % 2);
        engine.submit();
        engine.write();
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        if (round % 3 == 2) {
            daemon.kill_now();
            daemon.start();
        } else {
            const pid_t sampler = daemon.sampler_pid(0);
            if (sampler > 0) ::kill(sampler, SIGKILL);
        }
        engine.collect();
        REQUIRE(eventually([&] { return daemon.await_ready(); }));
    }
}
