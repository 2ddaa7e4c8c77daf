#include "proto/wire.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace croupier::wire;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const flatbuffers::FlatBufferBuilder& builder) {
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Bytes open_message() {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<Shard> shards = {Shard(0, 500), Shard(500, 500)};
    const std::vector<std::uint32_t> order = {3, 1, 2};
    const auto body = CreateOpenDirect(builder, "engine-0", 1000, 2, 8, 2, 0, 64, 16, 128, 64, 8, 0, &shards,
                                       &order, true, false, 128);
    finish(builder, 42, body);
    return bytes_of(builder);
}

std::string fault_of(const Bytes& bytes) {
    const auto parsed = parse(bytes.data(), bytes.size());
    const auto* fault = std::get_if<WireFault>(&parsed);
    return fault == nullptr ? "" : fault->message;
}

}  // namespace

TEST_CASE("a message is read as it was written") {
    const Bytes bytes = open_message();
    const auto parsed = parse(bytes.data(), bytes.size());
    REQUIRE(std::holds_alternative<const Message*>(parsed));
    const Message& message = *std::get<const Message*>(parsed);
    CHECK(message.request() == 42);
    REQUIRE(message.body_as_Open() != nullptr);
    const Open& open = *message.body_as_Open();
    CHECK(open.name()->str() == "engine-0");
    CHECK(open.vocab() == 1000);
    CHECK(open.shards()->Get(1)->first_id() == 500);
    CHECK(open.order()->Get(0) == 3);
    CHECK(open.takeover());
    CHECK_FALSE(open.resume());
    CHECK(open.max_list_tokens() == 128);
}

TEST_CASE("step decisions carry every field of every column") {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<DecisionEntry> entries = {DecisionEntry(9, 17, -1.5F, 3, 2, 0),
                                                DecisionEntry(10, -1, 0, 4, 0, 5)};
    finish(builder, 0, CreateStepDecisionsDirect(builder, 77, 5, 0, &entries));
    const auto parsed = parse(builder.GetBufferPointer(), builder.GetSize());
    REQUIRE(std::holds_alternative<const Message*>(parsed));
    const auto* step = std::get<const Message*>(parsed)->body_as_StepDecisions();
    REQUIRE(step != nullptr);
    CHECK(step->step() == 5);
    REQUIRE(step->decisions()->size() == 2);
    CHECK(step->decisions()->Get(0)->token() == 17);
    CHECK(step->decisions()->Get(1)->error() == 5);
}

TEST_CASE("a message of another wire version is refused, naming both versions") {
    flatbuffers::FlatBufferBuilder builder;
    const auto body = CreateDrain(builder);
    FinishMessageBuffer(builder, CreateMessage(builder, kWireVersion + 1, 1, Body::Drain, body.Union()));
    const std::string fault = fault_of(bytes_of(builder));
    CHECK(fault.find("wire version " + std::to_string(kWireVersion + 1)) != std::string::npos);
    CHECK(fault.find("this build speaks " + std::to_string(kWireVersion)) != std::string::npos);
}

TEST_CASE("step decisions that are not aligned are refused") {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<DecisionEntry> entries = {DecisionEntry(9, 17, -1.5F, 3, 2, 0)};
    finish(builder, 0, CreateStepDecisionsDirect(builder, 77, 5, 0, &entries));
    Bytes bytes = bytes_of(builder);
    const auto* step = GetMessage(bytes.data())->body_as_StepDecisions();
    // The vector was built first and so lies last: four bytes before it move nothing but it.
    const auto* vector = reinterpret_cast<const std::uint8_t*>(step->decisions());
    const auto* field =
        reinterpret_cast<const flatbuffers::Table*>(step)->GetAddressOf(StepDecisions::VT_DECISIONS);
    const auto vector_at = vector - bytes.data();
    const auto field_at = static_cast<std::size_t>(field - bytes.data());
    const auto reach = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(field) + 4;
    flatbuffers::WriteScalar(bytes.data() + field_at, reach);
    bytes.insert(bytes.begin() + vector_at, 4, 0);
    CHECK(fault_of(bytes).find("do not begin at a multiple of 8") != std::string::npos);
}

TEST_CASE("survivors that are not aligned are refused") {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<SurvivorEntry> survivors = {SurvivorEntry(17, 0, 0.5)};
    finish(builder, 0, CreateStepDecisionsDirect(builder, 77, 5, 0, nullptr, nullptr, nullptr, &survivors));
    Bytes bytes = bytes_of(builder);
    const auto* step = GetMessage(bytes.data())->body_as_StepDecisions();
    const auto* vector = reinterpret_cast<const std::uint8_t*>(step->support());
    const auto* field =
        reinterpret_cast<const flatbuffers::Table*>(step)->GetAddressOf(StepDecisions::VT_SUPPORT);
    const auto vector_at = vector - bytes.data();
    const auto field_at = static_cast<std::size_t>(field - bytes.data());
    flatbuffers::WriteScalar(bytes.data() + field_at,
                             flatbuffers::ReadScalar<flatbuffers::uoffset_t>(field) + 4);
    bytes.insert(bytes.begin() + vector_at, 4, 0);
    CHECK(fault_of(bytes).find("the survivors of the message do not begin at a multiple of 8") !=
          std::string::npos);
}

TEST_CASE("a message without a body is refused") {
    flatbuffers::FlatBufferBuilder builder;
    FinishMessageBuffer(builder, CreateMessage(builder, kWireVersion, 1));
    CHECK(fault_of(bytes_of(builder)) == "the message has no body");
}

TEST_CASE("a frame that is no croupier message is refused as such") {
    CHECK(fault_of({}).find("not a croupier message") != std::string::npos);
    CHECK(fault_of(Bytes(7, 0)).find("not a croupier message") != std::string::npos);
    CHECK(fault_of(Bytes(64, 0xFF)).find("not a croupier message") != std::string::npos);
    Bytes other = open_message();
    std::copy_n("NOPE", 4, other.begin() + 4);
    CHECK(fault_of(other).find("identified as CRP1") != std::string::npos);
}

TEST_CASE("a message that is cut short anywhere is refused") {
    const Bytes whole = open_message();
    for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
        // A copy of exactly this size, so that a sanitizer sees a read past its end.
        const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        const auto parsed = parse(cut.data(), cut.size());
        if (!std::holds_alternative<const Message*>(parsed)) continue;
        // Only padding at the end may be missed.
        INFO("cut to " << size << " of " << whole.size());
        REQUIRE(whole.size() - size < 8);
    }
}

TEST_CASE("random bytes behind the identifier never parse to something that cannot be walked") {
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        Bytes bytes = open_message();
        for (int flips = 0; flips < 3; ++flips) {
            bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
        }
        const auto parsed = parse(bytes.data(), bytes.size());
        if (const auto* message = std::get_if<const Message*>(&parsed)) {
            REQUIRE((*message)->version() == kWireVersion);
            if (const auto* open = (*message)->body_as_Open(); open != nullptr && open->name() != nullptr) {
                REQUIRE(open->name()->size() < bytes.size());
            }
        }
    }
}
