#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "bench/head/blocks_again.h"
#include "bench/head/checks.h"
#include "bench/head/reference.h"

namespace croupier::gpu_writer::head {
namespace {

using proto::Dtype;

constexpr std::uint32_t kMostColumns = 512;
constexpr const char* kBaseline = "64x128";

const HeadTiles& variant_of(const std::string& name) {
    for (const HeadTiles& each : head_tiles()) {
        if (each.name == name) return each;
    }
    throw std::runtime_error("no variant " + name);
}

float value_of_bits(std::uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

// What the baseline leaves of 512 columns, and what others leave of parts of them.
struct Bench {
    Matrices matrices;
    Outcome base;
    Outcome other;
    GpuArray<std::uint16_t> poison;
    GpuNumber<unsigned long long> different;
    GpuNumber<std::uint32_t> most;

    explicit Bench(const Problem& problem)
        : matrices(problem, kMostColumns, 1),
          base(matrices.make_outcome()),
          other(matrices.make_outcome()),
          poison(std::max<std::uint64_t>(matrices.logits_stride(), matrices.blocks() * 4)) {
        poison.fill(0xA5);
        run(variant_of(kBaseline), kMostColumns, 0, base);
    }
    HeadProduct base_call() { return matrices.call(kMostColumns, 0, base); }
    void run(const HeadTiles& variant, std::uint32_t columns, std::uint32_t turned, Outcome& to) {
        Matrices::poison(to);
        check(variant.launch(matrices.call(columns, turned, to), nullptr), variant.name);
        check(cudaDeviceSynchronize(), variant.name);
    }
    // Words that differ from the baseline's, or that were written though nobody asked for them.
    unsigned long long count_different(const HeadTiles& variant, std::uint32_t columns,
                                       std::uint32_t turned) {
        const std::uint64_t blocks = matrices.blocks();
        const auto compare = [&](const auto& of_other, const auto& of_base, std::uint64_t stride,
                                 std::uint64_t words) {
            const auto* from = reinterpret_cast<const std::uint16_t*>(of_other.get());
            count_differences({from, stride}, {of_base.get(), stride}, columns,
                              static_cast<std::uint32_t>(words), turned, kMostColumns, different.get(),
                              nullptr);
            if (columns == kMostColumns) return;
            count_differences({from + columns * stride, stride}, {poison.get(), 0}, kMostColumns - columns,
                              static_cast<std::uint32_t>(stride), 0, kMostColumns, different.get(), nullptr);
        };
        compare(other.maxima, base.maxima, blocks, blocks);
        if (variant.knows_wants) compare(other.sums, base.sums, blocks * 4, blocks * 4);
        compare(other.logits, base.logits, matrices.logits_stride(), matrices.logits_stride());
        return different.take();
    }
};

std::vector<AskedBlock> random_asked(std::uint32_t blocks, std::uint32_t count) {
    std::mt19937 random(blocks);
    std::vector<AskedBlock> asked(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        asked[i].block = i == 0 ? 0 : i == 1 ? blocks - 1 : random() % blocks;
        for (std::uint32_t& column : asked[i].columns)
            column = random() % 5 == 0 ? kNoColumn : random() % kMostColumns;
    }
    return asked;
}

void check_again(JobContext& context, Bench& bench) {
    const auto asked = random_asked(bench.matrices.blocks(), 200);
    const GpuArray<AskedBlock> on_gpu(asked.size());
    const GpuArray<std::uint16_t> again(asked.size() * kAskedColumns * kBlockRows);
    again.fill(0xA5);
    check(cudaMemcpy(on_gpu.get(), asked.data(), on_gpu.bytes(), cudaMemcpyHostToDevice),
          "copying asked blocks");
    const auto count = static_cast<std::uint32_t>(asked.size());
    check(launch_again(bench.base_call(), on_gpu.get(), count, again.get()), "blocks_again");
    count_again_differences(bench.base_call(), on_gpu.get(), count, again.get(), bench.different.get(),
                            nullptr);
    const unsigned long long different = bench.different.take();
    context.report(different == 0, "  blocks computed again: " + std::to_string(different) +
                                       " logits differ of " +
                                       std::to_string(asked.size() * kAskedColumns * kBlockRows));
}

void check_measured(JobContext& context, Bench& bench) {
    bench.other.maxima.fill(0xA5);
    measure_rows(bench.base_call(), bench.other.maxima.get(), nullptr);
    const std::uint32_t words = bench.matrices.blocks();
    count_differences({bench.base.maxima.get(), words}, {bench.other.maxima.get(), words}, kMostColumns,
                      words, 0, kMostColumns, bench.different.get(), nullptr);
    const unsigned long long different = bench.different.take();
    context.report(different == 0,
                   "  maxima of blocks, from the logits: " + std::to_string(different) + " words differ");
}

void check_right(JobContext& context, const Problem& problem) {
    Bench bench(problem);
    // Products in double take long; all tiles of 64 columns are alike.
    const bool is_large = problem.entries > 100'000;
    raise_error(bench.base_call(), is_large ? 64 : kMostColumns, bench.most.get(), nullptr);
    const float error = value_of_bits(bench.most.take());
    context.report(error < 2e-3F, "  error beyond rounding: " + std::to_string(error) +
                                      " of the terms' root sum of squares");
    check_measured(context, bench);
    raise_sum_error(bench.base_call(), bench.most.get(), nullptr);
    const float sum_error = value_of_bits(bench.most.take());
    context.report(sum_error < 2e-5F, "  sums' relative error: " + std::to_string(sum_error * 1e6F) + "e-6");
    check_again(context, bench);
}

void check_variant(JobContext& context, const HeadTiles& variant, const Problem& problem) {
    Bench bench(problem);
    std::string counts;
    unsigned long long all = 0;
    const std::uint32_t width = variant.columns;
    for (const std::uint32_t columns :
         std::set<std::uint32_t>{1, width - 1, width, width + 1, 2 * width - 3, kMostColumns}) {
        const std::uint32_t turned = columns * 37 % kMostColumns;
        bench.run(variant, columns, turned, bench.other);
        const unsigned long long different = bench.count_different(variant, columns, turned);
        all += different;
        counts += " B=" + std::to_string(columns) + ":" + std::to_string(different);
    }
    context.report(all == 0, "  " + problem.name() + ", words that differ:" + counts);
}

// Each batch by the narrowest tiles that hold it, from a place of its own.
void check_batches(JobContext& context) {
    Bench bench({Dtype::bf16, 4099, 512, 0});
    unsigned long long all = 0;
    std::uint32_t batches = 0;
    for (std::uint32_t columns = 1; columns <= 128; ++columns) {
        for (const HeadTiles& each : head_tiles()) {
            if (each.columns < columns || context.is_dead(each.name)) continue;
            bench.run(each, columns, columns * 101 % kMostColumns, bench.other);
            all += bench.count_different(each, columns, columns * 101 % kMostColumns);
            ++batches;
            break;
        }
    }
    context.report(all == 0 && batches == 128,
                   "  " + std::to_string(batches) + " batch sizes: " + std::to_string(all) + " words differ");
}

// A NaN of one column or row is seen there and nowhere else.
void check_nan(JobContext& context) {
    Bench bench({Dtype::bf16, 4099, 1024, 5});
    constexpr std::uint32_t kColumn = 5;
    constexpr std::uint16_t kNan = 0x7FFF;
    std::uint16_t* at = bench.matrices.hidden_at(kColumn) + 100;
    check(cudaMemcpy(at, &kNan, sizeof(kNan), cudaMemcpyHostToDevice), "copying a NaN");
    bench.run(variant_of("128x128"), kMostColumns, 0, bench.other);
    const std::uint64_t stride = bench.matrices.logits_stride();
    const auto count = [&](std::uint32_t first, std::uint32_t columns) {
        const std::uint64_t from = first * stride + bench.matrices.problem.lead;
        count_differences({bench.other.logits.get() + from, stride}, {bench.base.logits.get() + from, stride},
                          columns, bench.matrices.problem.entries, 0, kMostColumns, bench.different.get(),
                          nullptr);
        return bench.different.take();
    };
    const auto others = count(0, kColumn) + count(kColumn + 1, kMostColumns - kColumn - 1);
    const auto own = count(kColumn, 1);
    context.report(others == 0 && own == bench.matrices.problem.entries,
                   "  a NaN changes " + std::to_string(own) + " of its column's " +
                       std::to_string(bench.matrices.problem.entries) + " logits, and " +
                       std::to_string(others) + " of others");
    std::swap(bench.base, bench.other);
    check_measured(context, bench);
}

void check_repeats(JobContext& context, const HeadTiles& variant) {
    Bench bench({Dtype::bf16, 151'936, 3584, 0});
    constexpr std::uint32_t kRepeats = 10;
    unsigned long long all = 0;
    for (std::uint32_t i = 0; i < kRepeats; ++i) {
        const std::uint32_t turned = i * 51;
        bench.run(variant, variant.columns, turned, bench.other);
        all += bench.count_different(variant, variant.columns, turned);
    }
    context.report(all == 0, "  " + std::to_string(kRepeats) + " runs of full size: " + std::to_string(all) +
                                 " words differ");
}

}  // namespace

std::vector<Job> check_jobs() {
    std::vector<Job> jobs;
    const Problem right[] = {{Dtype::bf16, 4099, 512, 0},    {Dtype::bf16, 10'007, 3584, 37},
                             {Dtype::bf16, 4099, 16'384, 0}, {Dtype::fp16, 10'007, 4096, 0},
                             {Dtype::fp16, 777, 520, 63},    {Dtype::bf16, 151'936, 3584, 0}};
    for (const Problem& problem : right) {
        jobs.push_back({"right: " + problem.name(), kBaseline,
                        [problem](JobContext& context) { check_right(context, problem); }});
    }
    for (const HeadTiles& each : head_tiles()) {
        jobs.push_back({std::string("variant ") + each.name, each.name, [&each](JobContext& context) {
                            check_variant(context, each, {Dtype::bf16, 10'007, 3584, 37});
                            check_variant(context, each, {Dtype::fp16, 4099, 520, 0});
                            check_repeats(context, each);
                        }});
    }
    jobs.push_back({"batch sizes 1 to 128", "", check_batches});
    jobs.push_back({"NaN", "", check_nan});
    return jobs;
}

}  // namespace croupier::gpu_writer::head
