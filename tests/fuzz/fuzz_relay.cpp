// Whatever a scheduler's network sends, a relay refuses it or carries it out, and the session stays sound.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "client/record_messages.h"
#include "client/ring_relay.h"
#include "croupier/client.hpp"
#include "proto/fan_out_frame.h"
#include "shm/segment.h"
#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "tests/fuzz/fuzz_directory.h"

using namespace croupier;
using Bytes = std::vector<std::uint8_t>;
using flatbuffers::FlatBufferBuilder;

namespace {

constexpr std::uint64_t kSession = 1;
constexpr const char* kName = "fuzz";
constexpr std::uint32_t kVocab = 200;
constexpr std::size_t kLongestChunk = 0xffff;
constexpr std::size_t kMostChunks = 64;

void require(bool holds) {
    if (!holds) std::abort();
}

// An input is a list of chunks: how one comes, how long it is, its bytes.
enum How : std::uint8_t {
    kNumbered = 1,     // it is given the number that is due, when it is a message at all
    kDecidedFirst = 2  // samplers have answered the oldest step by then
};

struct Chunk {
    std::uint8_t how = 0;
    Bytes bytes;
};

std::vector<Chunk> chunks_of(const std::uint8_t* data, std::size_t size) {
    std::vector<Chunk> chunks;
    while (size >= 3 && chunks.size() < kMostChunks) {
        const std::size_t length =
            std::min<std::size_t>(data[1] | static_cast<unsigned>(data[2]) << 8U, size - 3);
        chunks.push_back({data[0], Bytes(data + 3, data + 3 + length)});
        data += 3 + length;
        size -= 3 + length;
    }
    return chunks;
}

Bytes bytes_of(const std::vector<Chunk>& chunks) {
    Bytes all;
    for (const Chunk& chunk : chunks) {
        all.push_back(chunk.how);
        all.push_back(static_cast<std::uint8_t>(chunk.bytes.size() & 0xffU));
        all.push_back(static_cast<std::uint8_t>(chunk.bytes.size() >> 8U));
        all.insert(all.end(), chunk.bytes.begin(), chunk.bytes.end());
    }
    return all;
}

template <typename Make>
Bytes record(Make&& make) {
    FlatBufferBuilder builder;
    wire::finish(builder, 1, make(builder));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Bytes add_record(std::uint64_t uid) {
    static const std::vector<std::int32_t> ids = {1, 2, 3, 150};
    static const std::vector<croupier_bias> biases = {{5, 1.5F}, {77, -2.0F}};
    client::Params params;
    params.seed = uid;
    croupier_sequence sequence;
    croupier_sequence_init(&sequence);
    sequence.uid = uid;
    sequence.params = &params;
    sequence.prompt = ids.data();
    sequence.prompt_count = ids.size();
    sequence.output = ids.data();
    sequence.output_count = 2;
    sequence.stop_ids = ids.data();
    sequence.stop_count = 2;
    sequence.bias = biases.data();
    sequence.bias_count = biases.size();
    return record([&](FlatBufferBuilder& builder) { return client::add_message(builder, sequence); });
}

Bytes submit_record(std::uint64_t step, std::uint64_t uid) {
    static const std::vector<std::uint32_t> mask(client::mask_words(kVocab), 0x5555'5555);
    const std::vector<croupier_column> columns = {{uid, nullptr, 1, 0}, {uid + 1, mask.data(), 1, 0}};
    return record(
        [&](FlatBufferBuilder& builder) { return client::submit_message(builder, step, columns, kVocab); });
}

Bytes sound_record(std::minstd_rand& random) {
    const std::uint64_t small = random() % 4;
    switch (random() % 9) {
        case 0:
            return record([&](FlatBufferBuilder& builder) {
                return wire::CreateAttachSessionDirect(builder, kSession, kName, proto::kSegmentVersion,
                                                       false);
            });
        case 1:
        case 2:
            return add_record(1 + small);
        case 3:
        case 4:
            return submit_record(small, 1 + random() % 3);
        case 5:
            return record(
                [&](FlatBufferBuilder& builder) { return wire::CreateFinishSequence(builder, 1 + small); });
        case 6:
            return record([&](FlatBufferBuilder& builder) {
                return wire::CreateTruncateSequence(builder, 1 + small, 1);
            });
        case 7:
            return record([&](FlatBufferBuilder& builder) { return wire::CreateGiveUpStep(builder, small); });
        default:
            return record([&](FlatBufferBuilder& builder) { return wire::CreateTakeSteps(builder, small); });
    }
}

// A session as a daemon leaves it to its client; laid anew for each input.
class Session {
  public:
    Session() : segment_(create()) {
        const auto* begin = reinterpret_cast<const std::byte*>(&segment_.header());
        image_.assign(begin, begin + segment_.header().total_bytes);
    }

    void begin() { std::memcpy(static_cast<void*>(&segment_.header()), image_.data(), image_.size()); }

    void decide_oldest() {
        const auto& header = segment_.header();
        const std::uint64_t step = header.taken.load(std::memory_order_relaxed);
        if (step < header.published.load(std::memory_order_relaxed)) {
            shm::StepClaims(segment_, step).refuse(proto::DecisionError::bad_record);
        }
    }

    void check() {
        require(shm::steps_in_flight(segment_).sound);
        require(shm::SequenceTable(segment_).live().size() <= segment_.geometry().max_sequences);
    }

    static const std::string& directory() {
        static const testing::FuzzDirectory directory;
        return directory.path();
    }

  private:
    static shm::Segment create() {
        shm::SegmentSpec spec;
        spec.directory = directory();
        spec.instance = kName;
        spec.session_id = kSession;
        spec.name = kName;
        auto& geometry = spec.geometry;
        geometry.vocab = kVocab;
        geometry.tp = 1;
        geometry.max_batch = 4;
        geometry.slots = 2;
        geometry.max_sequences = 4;
        geometry.max_length = 32;
        geometry.max_bias = 4;
        geometry.max_stop_ids = 4;
        geometry.max_list_tokens = 16;
        geometry.mask_rows = 2;
        proto::fill_even_shards(geometry);
        return shm::Segment::create(spec).value();
    }

    shm::Segment segment_;
    std::vector<std::byte> image_;
};

// A frame of the group, as a member reads it before it knows that there is a record in it.
void read_frames(const Bytes& bytes) {
    proto::FanOutFrame frame;
    if (const auto fault = proto::read_fan_out_frame(bytes, frame)) require(!fault->empty());
    proto::FanOutHeader header;
    header.kind = proto::FanOutKind::record;
    header.members = 2;
    const auto sound = proto::fan_out_frame(header, bytes);
    require(!proto::read_fan_out_frame(sound, frame));
    require(std::equal(bytes.begin(), bytes.end(), frame.payload.begin(), frame.payload.end()));
}

// The next one, when the bytes are a message.
void give_number(Bytes& bytes, std::uint64_t& last) {
    const auto parsed = wire::parse(bytes.data(), bytes.size());
    const auto* message = std::get_if<const wire::Message*>(&parsed);
    if (message == nullptr) return;
    const std::uint64_t number = ++last;
    const auto* table = reinterpret_cast<const flatbuffers::Table*>(*message);
    const auto* at = table->GetAddressOf(wire::Message::VT_REQUEST);
    if (at != nullptr) std::memcpy(const_cast<std::uint8_t*>(at), &number, sizeof(number));
}

void check_answer(const std::optional<client::AnswerBytes>& answer) {
    if (answer)
        require(std::holds_alternative<const wire::Message*>(wire::parse(answer->data(), answer->size())));
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

// Starts from sound records, so that the run needs no corpus.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room,
                                               unsigned int seed) {
    std::minstd_rand random(seed);
    auto chunks = chunks_of(data, size);
    const std::size_t which = chunks.empty() ? 0 : random() % chunks.size();
    if (chunks.empty() || (random() % 3 == 0 && chunks.size() < kMostChunks)) {
        chunks.push_back(
            {static_cast<std::uint8_t>(random() % 4 | (random() % 8 == 0 ? 0U : std::uint32_t{kNumbered})),
             sound_record(random)});
    } else if (random() % 8 == 0) {
        chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
        Bytes& bytes = chunks[which].bytes;
        const std::size_t before = bytes.size();
        bytes.resize(std::min(before + 64, kLongestChunk));
        bytes.resize(LLVMFuzzerMutate(bytes.data(), before, bytes.size()));
    }
    const Bytes all = bytes_of(chunks);
    if (all.size() > room) return LLVMFuzzerMutate(data, size, room);
    std::copy(all.begin(), all.end(), data);
    return all.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Session session;
    session.begin();
    client::RingRelay relay;
    relay.allow(kSession, shm::segment_path(Session::directory(), kName, kSession));
    std::uint64_t number = 0;
    for (Chunk& chunk : chunks_of(data, size)) {
        read_frames(chunk.bytes);
        if ((chunk.how & kNumbered) != 0) give_number(chunk.bytes, number);
        if ((chunk.how & kDecidedFirst) != 0) session.decide_oldest();
        check_answer(relay.apply(chunk.bytes));
        check_answer(relay.news());
        (void)relay.take_news();
        session.check();
    }
    return 0;
}
