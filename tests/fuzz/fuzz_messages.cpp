// Whatever comes from a socket is refused or can be read to its last field.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "proto/wire.h"

using namespace croupier::wire;

namespace {

// Keeps the compiler from dropping the reads.
volatile std::uint64_t sink;

void use(std::uint64_t value) {
    sink = sink + value;
}

void use(const flatbuffers::String* text) {
    if (text == nullptr) return;
    for (const char c : *text) use(static_cast<std::uint64_t>(c));
}

void walk_open(const Open& open) {
    use(open.name());
    use(std::uint64_t{open.vocab()} + open.tp() + open.max_batch() + open.slots() + open.dtype() +
        open.tile() + open.max_sequences() + open.max_length() + open.max_bias() + open.max_stop_ids() +
        open.mask_rows() + open.max_list_tokens());
    use(static_cast<std::uint64_t>(open.takeover()) + static_cast<std::uint64_t>(open.resume()) +
        static_cast<std::uint64_t>(open.summaries()));
    if (open.shards() != nullptr) {
        for (const Shard* shard : *open.shards()) use(std::uint64_t{shard->first_id()} + shard->count());
    }
    if (open.order() != nullptr) {
        for (const std::uint32_t block : *open.order()) use(block);
    }
}

void walk_info(const SessionInfo& info) {
    use(info.session_id());
    use(info.segment_path());
    use(info.shm_directory());
    use(info.instance());
}

void walk_decisions(const StepDecisions& step) {
    use(step.session_id() + step.step() + step.refused());
    if (step.decisions() == nullptr) return;
    for (const DecisionEntry* entry : *step.decisions()) {
        use(entry->sequence_uid() + entry->position() + entry->flags() + entry->error());
        use(static_cast<std::uint64_t>(entry->token()));
    }
}

void walk(const Message& message) {
    use(message.request());
    if (message.version() != kWireVersion || message.body() == nullptr) std::abort();
    if (const auto* open = message.body_as_Open()) walk_open(*open);
    if (const auto* info = message.body_as_SessionInfo()) walk_info(*info);
    if (const auto* body = message.body_as_Close()) use(body->session_id());
    if (const auto* body = message.body_as_Closed()) use(body->session_id());
    if (const auto* body = message.body_as_Configure()) use(body->session_id());
    if (const auto* body = message.body_as_Configured()) use(body->session_id());
    if (const auto* body = message.body_as_Draining()) use(body->sessions());
    if (const auto* body = message.body_as_StatisticsReply()) use(body->json());
    if (const auto* body = message.body_as_Refusal()) use(body->message());
    if (const auto* step = message.body_as_StepDecisions()) walk_decisions(*step);
}

std::vector<std::uint8_t> valid_message(unsigned int seed) {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<Shard> shards = {Shard(0, 10), Shard(10, 10)};
    const std::vector<std::uint32_t> order = {2, 0, 1};
    const std::vector<DecisionEntry> entries = {DecisionEntry(1, 2, -0.5F, 3, 4, 0),
                                                DecisionEntry(5, -1, 0, 6, 0, 7)};
    switch (seed % 4) {
        case 0:
            finish(builder, seed,
                   CreateOpenDirect(builder, "engine", 20, 2, 4, 2, 0, 4, 8, 64, 4, 4, 1, &shards, &order,
                                    true, true, 16));
            break;
        case 1:
            finish(builder, seed, CreateSessionInfoDirect(builder, 1, "a.seg", "/dev/shm", "main", true));
            break;
        case 2:
            finish(builder, seed, CreateRefusalDirect(builder, 3, "why"));
            break;
        default:
            finish(builder, seed, CreateStepDecisionsDirect(builder, 1, 2, 0, &entries));
            break;
    }
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

// Starts from valid messages, so that the run needs no corpus.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room,
                                               unsigned int seed) {
    const auto valid = valid_message(seed);
    if ((size < 16 || seed % 64 == 0) && valid.size() <= room) {
        std::memcpy(data, valid.data(), valid.size());
        size = valid.size();
    }
    return LLVMFuzzerMutate(data, size, room);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // Copied, so that the frame is aligned as a socket's is and a read past its end is seen.
    const std::vector<std::uint8_t> frame(data, data + size);
    const auto parsed = parse(frame.data(), frame.size());
    if (const auto* message = std::get_if<const Message*>(&parsed)) {
        walk(**message);
    } else if (std::get<WireFault>(parsed).message.empty()) {
        std::abort();
    }
    return 0;
}
