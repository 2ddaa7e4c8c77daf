// Steps whose rows the writer computes: they are those of the same logits, computed by another kernel.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gpu_writer/lean_layout.h"
#include "tests/gpu_writer/gpu_lean.h"
#include "tests/gpu_writer/head_matrices.h"
#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/lean_checks.h"
#include "tests/gpu_writer/lean_session.h"
#include "tests/gpu_writer/naive_lean.h"

using namespace croupier;
using testing::Bytes;
using testing::Failure;
using testing::HeadMatrices;
using testing::LeanCase;
using testing::LeanSession;
using testing::Rows;
using testing::Way;

namespace {

using Random = std::mt19937_64;

constexpr std::uint32_t kColumns = testing::kLeanColumns;

bool can_multiply() {
    if (!testing::can_run(Way::copied)) return false;
    if (gpu_writer::head::load_head_kernels(proto::Dtype::bf16) == cudaSuccess) return true;
    WARN("skipped: the GPU is not of compute capability 9.0");
    return false;
}

// A step whose logits and maxima the product leaves.
class HeadSide final : public testing::LeanSide {
  public:
    explicit HeadSide(const HeadMatrices& matrices) : matrices_(matrices) {
        testing::need(gpu_writer::cuda_done(gpu_writer::head::load_head_kernels(proto::Dtype::fp16), "load"));
        testing::need(gpu_writer::cuda_done(gpu_writer::head::load_head_kernels(proto::Dtype::bf16), "load"));
    }
    testing::Laid lay(const LeanCase& of) override {
        testing::GpuLeanStep step(of);
        step.compute(matrices_.head());
        step.launch(testing::kReadyWord);
        step.synchronise();
        REQUIRE(step.ready(testing::kReadyWord));
        return {bytes_of(step.part), bytes_of(step.slice)};
    }
    Bytes answer(const LeanCase& of, const std::vector<testing::Asked>& asked) override {
        testing::GpuLeanStep step(of);
        step.compute(matrices_.head());
        step.ask(asked, 78);
        for (std::size_t i = 0; i < asked.size(); ++i)
            REQUIRE(testing::soon([&] { return step.answered(i, 78); }));
        step.synchronise();
        return bytes_of(step.slice);
    }

  private:
    static Bytes bytes_of(testing::MappedBytes& memory) {
        return {memory.data(), memory.data() + memory.size()};
    }

    const HeadMatrices& matrices_;
};

// The case with a product's logits for its rows.
void check_computed(LeanCase of, std::uint32_t elements, Random& random) {
    if (of.geometry.dtype == proto::Dtype::fp32) of.geometry.dtype = proto::Dtype::bf16;
    const proto::RankShard& shard = of.geometry.shards[of.rank];
    // Ids beyond the vocabulary have no entries.
    const gpu_writer::LeanShape shape = gpu_writer::lean_shape(of.geometry, of.rank, of.columns());
    if (shape.slice.entries == 0) return;
    const auto padding = static_cast<std::uint32_t>(random() % 3 * 8);
    const HeadMatrices matrices(
        {of.geometry.dtype, of.columns(), elements, shape.slice.entries, shape.slice.lead, padding},
        static_cast<std::uint32_t>(random()));
    of.skipped = 0;
    const std::uint64_t unaligned = random() % 3 == 0 ? random() % 9 : (16 - shard.count % 16) % 16;
    of.rows = matrices.logits(shard.count + unaligned);
    HeadSide side(matrices);
    INFO(elements << " elements");
    testing::check_lay(side, of);
    std::vector<testing::Asked> asked;
    for (std::uint32_t column = 0; column < of.columns(); column += 2) {
        testing::Asked& each = asked.emplace_back();
        each.column = column;
        each.bitmap.resize(of.blocks() / 64 + 1);
        for (std::uint32_t block = 0; block < of.blocks(); ++block) {
            if (random() % 5 == 0) each.bitmap[block / 64] |= std::uint64_t{1} << block % 64;
        }
    }
    CHECK((side.answer(of, asked) == testing::naive_slice_of(of, asked)));
}

std::uint32_t some_elements(Random& random) {
    return static_cast<std::uint32_t>(8 + random() % 60 * 8);
}

// Columns that are drawn, that want the best blocks alone, and that want sums.
void vary_wants(LeanCase& of, Random& random) {
    for (gpu_writer::LeanWant& want : of.wants) {
        if (random() % 3 == 0) continue;
        want.flags = random() % 2 == 0 ? request::Wants(request::Want::draw) : request::Wants();
        want.temperature = random() % 3 == 0 ? 0.0F : 0.9F;
    }
}

gpu_writer::EnqueuedHead first_rows(const HeadMatrices& matrices, std::uint32_t rows) {
    gpu_writer::EnqueuedHead head = matrices.head();
    head.rows = rows;
    return head;
}

// What an engine says of a step's columns: an array each, or nothing.
struct Arrays {
    std::vector<std::int32_t> row_of;
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> parents;

    // In the memory of the writer's GPU, behind rows of logits if there are any.
    croupier_rows put(testing::WriterUnderTest& writer, const Rows& logits = {}) const {
        Bytes bytes = logits.bytes;
        bytes.resize((bytes.size() + 15) / 16 * 16);
        const std::size_t first = bytes.size();
        for (const auto* numbers : {&row_of, &inputs, &parents}) {
            const auto* begin = reinterpret_cast<const unsigned char*>(numbers->data());
            bytes.insert(bytes.end(), begin, begin + numbers->size() * sizeof(std::int32_t));
        }
        croupier_rows rows;
        croupier_rows_init(&rows);
        if (bytes.empty()) return rows;
        const auto* place = static_cast<const std::byte*>(writer.memory().put(bytes));
        const auto* at = reinterpret_cast<const std::int32_t*>(place + first);
        const auto next = [&](const std::vector<std::int32_t>& numbers) {
            const std::int32_t* own = numbers.empty() ? nullptr : at;
            at += numbers.size();
            return own;
        };
        if (!logits.bytes.empty()) rows.logits = place;
        rows.row_stride = logits.stride;
        rows.row_of = next(row_of);
        rows.inputs = next(inputs);
        rows.parents = next(parents);
        return rows;
    }
};

void need_done(const Failure& failure) {
    INFO(failure.error.text);
    REQUIRE(failure.status == 0);
}

void enqueue_rows(testing::WriterUnderTest& writer, const croupier_rows& rows) {
    Failure failure;
    failure.status =
        croupier_writer_enqueue_rows(writer.get(), writer.memory().stream(), &rows, &failure.error);
    need_done(failure);
}

// Two sessions alike: one computes its rows, the other is given them.
struct Sessions {
    explicit Sessions(Way way, proto::Dtype dtype = proto::Dtype::bf16)
        : computed(way, geometry_of(dtype)),
          given(Way::automatic, geometry_of(dtype)),
          way_(way),
          stride_(info_of(computed).head_row_elements + 24),
          room_(testing::need(gpu_writer::device_array<std::uint16_t>(kRoom * stride_, "computed rows"))) {}

    Failure try_enqueue(const gpu_writer::EnqueuedHead& of, const Arrays& arrays = {}) {
        croupier_head head;
        croupier_head_init(&head);
        head.hidden = of.hidden;
        head.hidden_stride = of.hidden_stride;
        head.weight = of.weight;
        head.weight_stride = of.weight_stride;
        head.rows = of.rows;
        head.elements = of.elements;
        croupier_rows rows = arrays.put(computed.writer);
        rows.logits = room_.get();
        rows.row_stride = stride_;
        Failure failure;
        failure.status = croupier_writer_enqueue_head(
            computed.writer.get(), computed.writer.memory().stream(), &head, &rows, &failure.error);
        return failure;
    }
    std::unique_ptr<testing::CapturedGraph> capture(const gpu_writer::EnqueuedHead& head) {
        Failure failure;
        auto graph = computed.writer.memory().capture([&] { failure = try_enqueue(head); });
        need_done(failure);
        return graph;
    }
    static croupier_writer_info info_of(LeanSession& of) {
        croupier_writer_info info;
        croupier_writer_info_init(&info);
        REQUIRE(croupier_writer_get_info(of.writer.get(), &info, nullptr) == 0);
        return info;
    }

    std::uint32_t vocab() const { return computed.files.segment.geometry().vocab; }
    HeadMatrices matrices(std::uint32_t rows) const {
        return HeadMatrices({computed.files.segment.geometry().dtype, rows, 136, vocab(), 0, 8}, 1);
    }
    void begin(std::uint64_t step) {
        for (LeanSession* each : {&computed, &given}) {
            REQUIRE(testing::publish_step(each->client, kColumns) == step);
            REQUIRE(each->writer.begin(step) == 0);
        }
    }
    void begin_window(std::uint64_t step) {
        for (LeanSession* each : {&computed, &given}) {
            REQUIRE(testing::publish_window(each->client) == step);
            REQUIRE(each->writer.begin(step) == 0);
        }
    }
    // What was enqueued of the one is what these rows make of the other. Where rows are copied, all that was
    // lent may be other by then.
    void check(std::uint64_t step, const Rows& rows, HeadMatrices& matrices) {
        check(step, Arrays{}.put(given.writer, rows), matrices);
    }
    void check(std::uint64_t step, const croupier_rows& rows, HeadMatrices& matrices) {
        if (way_ == Way::copied) {
            auto* const stream = static_cast<cudaStream_t>(computed.writer.memory().stream());
            matrices.overwrite(stream);
            testing::need(gpu_writer::cuda_done(
                cudaMemsetAsync(room_.get(), 0xFF, kRoom * stride_ * 2, stream), "write over computed rows"));
        }
        enqueue_rows(given.writer, rows);
        for (LeanSession* each : {&computed, &given}) each->await(step);
        INFO("step " << step);
        CHECK((part_of(computed, step) == part_of(given, step)));
        CHECK(computed.requested_block(step) == given.requested_block(step));
        for (LeanSession* each : {&computed, &given}) {
            each->decide(step);
            each->writer.await_finished(step + 1);
            each->client.take();
        }
    }

    LeanSession computed;
    LeanSession given;

  private:
    static constexpr std::size_t kRoom = std::size_t{2} * kColumns;  // rows

    static proto::Geometry geometry_of(proto::Dtype dtype) {
        proto::Geometry geometry = testing::lean_geometry();
        geometry.dtype = dtype;
        return geometry;
    }
    static Bytes part_of(const LeanSession& of, std::uint64_t step) {
        const shm::Segment& segment = of.files.segment;
        const auto* part = reinterpret_cast<const unsigned char*>(segment.lean(segment.slot_of(step), 0));
        return {part, part + proto::lean_layout_of(segment.geometry(), 0).bytes};
    }

    Way way_;
    std::uint64_t stride_;
    gpu_writer::DeviceMemory<std::uint16_t> room_;
};

// Rows that stay until their step is decided, and rows that are copied.
Way some_way() {
    return GENERATE(Way::automatic, Way::copied);
}

Rows gathered(const Rows& rows, const std::vector<std::int32_t>& row_of) {
    Rows to;
    to.stride = rows.stride;
    const auto bytes = static_cast<std::ptrdiff_t>(rows.stride * 2);
    for (const std::int32_t row : row_of) {
        if (row < 0) {
            // -inf in bf16.
            for (std::uint64_t i = 0; i < rows.stride; ++i) to.bytes.insert(to.bytes.end(), {0x80, 0xFF});
            continue;
        }
        const auto first = rows.bytes.begin() + row * bytes;
        to.bytes.insert(to.bytes.end(), first, first + bytes);
    }
    return to;
}

}  // namespace

TEST_CASE("the head's product measures lean steps of any shape as their logits do", "[head]") {
    if (!can_multiply()) return;
    Random random(1);
    for (int i = 0; i < 150; ++i) {
        LeanCase of = testing::random_case(random);
        of.geometry.dtype = i % 2 == 0 ? proto::Dtype::bf16 : proto::Dtype::fp16;
        check_computed(of, some_elements(random), random);
    }
}

TEST_CASE("the head's product measures batches of any size as their logits do", "[head]") {
    if (!can_multiply()) return;
    Random random(2);
    for (const std::uint32_t columns : {1U,  2U,  7U,   8U,   9U,   16U,  17U,  32U,  33U,  63U,
                                        64U, 65U, 100U, 128U, 129U, 255U, 256U, 257U, 300U, 513U}) {
        LeanCase of = testing::usual_case(1000 + columns, columns, 32);
        vary_wants(of, random);
        check_computed(of, some_elements(random), random);
    }
}

TEST_CASE("the head's product measures usual vocabularies as their logits do", "[head]") {
    if (!can_multiply()) return;
    Random random(3);
    for (const auto& [vocab, columns] :
         {std::pair{151936U, 9U}, {128256U, 3U}, {50257U, 20U}, {300000U, 2U}}) {
        LeanCase of = testing::masked_case(vocab, columns, 64);
        vary_wants(of, random);
        check_computed(of, 264, random);
    }
    check_computed(testing::drawn_case(32000, random), 2048, random);
}

TEST_CASE("a few products and answers of heads, for a sanitizer of the kernels", "[head][sanitized]") {
    if (!can_multiply()) return;
    Random random(4);
    for (const std::uint32_t columns : {3U, 40U, 70U}) {
        LeanCase of = testing::usual_case(700, columns, 16);
        if (columns == 40) of.geometry.dtype = proto::Dtype::fp16;
        vary_wants(of, random);
        check_computed(of, 72, random);
    }
}

TEST_CASE("a step of hidden states is that of their logits, also when nothing tells its columns", "[head]") {
    if (!can_multiply()) return;
    Sessions sessions(some_way());
    HeadMatrices matrices = sessions.matrices(kColumns + 2);
    for (std::uint32_t step = 0; step < 7; ++step) {
        testing::synchronise_gpu();
        matrices.fill(step);
        const Rows logits = matrices.logits();
        sessions.begin(step);
        if (step % 2 == 0) {
            need_done(sessions.try_enqueue(matrices.head()));
            sessions.check(step, logits, matrices);
            continue;
        }
        const Arrays arrays{{4, 0, 3}, {}, {}};
        need_done(sessions.try_enqueue(matrices.head(), arrays));
        sessions.check(step, gathered(logits, arrays.row_of), matrices);
    }
}

TEST_CASE("a step of hidden states in fp16, or with values that are no numbers, is that of their logits",
          "[head]") {
    if (!can_multiply()) return;
    const Way way = some_way();
    for (const proto::Dtype dtype : {proto::Dtype::bf16, proto::Dtype::fp16}) {
        Sessions sessions(way, dtype);
        HeadMatrices matrices = sessions.matrices(kColumns);
        for (std::uint32_t step = 0; step < 4; ++step) {
            testing::synchronise_gpu();
            matrices.fill(step);
            if (step == 1) matrices.put_hidden(1, 7, std::numeric_limits<float>::quiet_NaN());
            if (step == 2) matrices.put_hidden(2, 9, std::numeric_limits<float>::infinity());
            const Rows logits = matrices.logits();
            sessions.begin(step);
            need_done(sessions.try_enqueue(matrices.head()));
            sessions.check(step, logits, matrices);
        }
    }
}

TEST_CASE("a column whose row is none of the hidden states has none", "[head]") {
    if (!can_multiply()) return;
    Sessions sessions(some_way());
    HeadMatrices matrices = sessions.matrices(kColumns + 2);
    const Arrays arrays{{static_cast<std::int32_t>(kColumns + 2), 0, 3}, {}, {}};
    const Rows logits = gathered(matrices.logits(), {-1, 0, 3});
    sessions.begin(0);
    need_done(sessions.try_enqueue(matrices.head(), arrays));
    sessions.check(0, logits, matrices);
}

TEST_CASE("a writer says whether it computes rows, and how large they are", "[head]") {
    if (!can_multiply()) return;
    Sessions sessions(Way::copied);
    const proto::Geometry& geometry = sessions.computed.files.segment.geometry();
    const std::uint64_t rows = std::uint64_t{geometry.slots} * geometry.max_batch;
    for (LeanSession* each : {&sessions.computed, &sessions.given}) {
        const croupier_writer_info info = Sessions::info_of(*each);
        CHECK(info.head_rows == 128);
        CHECK(info.head_row_elements == geometry.blocks() * 64);
        CHECK(info.row_bytes == (each == &sessions.given ? 0 : rows * geometry.blocks() * 128));
    }
}

TEST_CASE("a window of hidden states is that of their logits, with what its rows were computed from",
          "[head]") {
    if (!can_multiply()) return;
    Sessions sessions(some_way());
    HeadMatrices matrices = sessions.matrices(kColumns + 2);
    for (std::uint32_t step = 0; step < 6; ++step) {
        testing::synchronise_gpu();
        matrices.fill(step);
        const Rows logits = matrices.logits();
        const auto first = static_cast<std::int32_t>(10 * step);
        Arrays arrays{{}, {first, first + 1, first + 2}, {0, 0, 1}};
        if (step % 2 == 0) arrays.row_of = {4, 0, 3};
        sessions.begin_window(step);
        need_done(sessions.try_enqueue(matrices.head(), arrays));
        sessions.check(step, arrays.put(sessions.given.writer, logits), matrices);
        CHECK(testing::inputs_of(sessions.computed.files.segment, step, 0) ==
              testing::inputs_of(sessions.given.files.segment, step, 0));
    }
}

TEST_CASE("a replay multiplies what stands in its matrices then, for its rows alone", "[head]") {
    if (!can_multiply()) return;
    // Of a named constant Catch would keep references, and of the sums behind it to nothing.
    const auto rows = GENERATE(as<std::uint32_t>(), kColumns, kColumns - 1, kColumns + 3);
    Sessions sessions(some_way());
    HeadMatrices matrices = sessions.matrices(rows);
    testing::WriterUnderTest& writer = sessions.computed.writer;
    const auto graph = sessions.capture(matrices.head());
    std::vector<std::int32_t> row_of(kColumns);
    for (std::uint32_t i = 0; i < kColumns; ++i) row_of[i] = i < rows ? static_cast<std::int32_t>(i) : -1;
    // A replay without a step writes nothing over the rows of one before.
    graph->replay();
    writer.memory().synchronise();
    CHECK(writer.state().empty_launches == 1);
    for (std::uint32_t step = 0; step < 7; ++step) {
        testing::synchronise_gpu();
        matrices.fill(step);
        const Rows logits = gathered(matrices.logits(), row_of);
        sessions.begin(step);
        graph->replay();
        sessions.check(step, logits, matrices);
    }
    CHECK(writer.state().empty_launches == 1);
}

TEST_CASE("too few rows of hidden states are refused, and the step waits for others", "[head]") {
    if (!can_multiply()) return;
    Sessions sessions(some_way());
    HeadMatrices matrices = sessions.matrices(kColumns);
    sessions.begin(0);
    const Failure refused = sessions.try_enqueue(first_rows(matrices, kColumns - 1));
    CHECK(refused.status == -1);
    CHECK_THAT(refused.error.text,
               Catch::Contains("rows of croupier_head is 2") && Catch::Contains("step 0 has 3 columns"));
    const Rows logits = matrices.logits();
    need_done(sessions.try_enqueue(matrices.head()));
    sessions.check(0, logits, matrices);
}
