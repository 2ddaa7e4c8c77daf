#include <algorithm>
#include <cstdio>

#include "bench/head/blocks_again.h"
#include "bench/head/cublas_product.h"
#include "bench/head/reference.h"
#include "bench/head/timing.h"

namespace croupier::gpu_writer::head {
namespace {

using proto::Dtype;

constexpr std::uint32_t kHeads = 2;  // by turns: none is in the L2 cache
constexpr std::uint32_t kMostColumns = 256;

class Event {
  public:
    Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
    ~Event() { (void)cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record() { check(cudaEventRecord(event_), "cudaEventRecord"); }
    double microseconds_since(const Event& first) const {
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, first.event_, event_), "cudaEventElapsedTime");
        return milliseconds * 1e3;
    }

  private:
    cudaEvent_t event_ = nullptr;
};

// Of so many runs, run(i) each, behind a few that are not counted. Before each, prepare(i), which is not
// timed.
template <typename Run, typename Prepare>
double median_microseconds(std::uint32_t runs, Run run, Prepare prepare) {
    constexpr std::uint32_t kWarm = 3;
    std::vector<Event> begins(runs);
    std::vector<Event> ends(runs);
    for (std::uint32_t i = 0; i < kWarm; ++i) run(i);
    for (std::uint32_t i = 0; i < runs; ++i) {
        prepare(i);
        begins[i].record();
        run(i);
        ends[i].record();
    }
    check(cudaDeviceSynchronize(), "a timed run");
    std::vector<double> all(runs);
    for (std::uint32_t i = 0; i < runs; ++i) all[i] = ends[i].microseconds_since(begins[i]);
    std::nth_element(all.begin(), all.begin() + runs / 2, all.end());
    return all[runs / 2];
}

template <typename Run>
double median_microseconds(std::uint32_t runs, Run run) {
    return median_microseconds(runs, run, [](std::uint32_t) {});
}

constexpr std::uint32_t kRuns = 21;

// What a fused product leaves beside maxima.
struct Left {
    bool logits = false;
    bool wants = false;
};

struct Timing {
    JobContext& context;
    Matrices matrices;
    Outcome outcome;
    GpuArray<std::uint32_t> floors;         // of each run
    std::unique_ptr<CublasProduct> cublas;  // null: there is none

    Timing(JobContext& of, const Problem& problem)
        : context(of),
          matrices(problem, kMostColumns, kHeads),
          outcome(matrices.make_outcome()),
          floors(kRuns * kMostColumns) {
        try {
            cublas = std::make_unique<CublasProduct>();
        } catch (const std::exception& error) {
            context.report(false, error.what());
        }
    }

    HeadProduct call(std::uint32_t columns, std::uint32_t i) {
        return matrices.call(columns, 0, outcome, i % kHeads);
    }
    double record(std::uint32_t columns, const std::string& what, double microseconds) const {
        const Problem& problem = matrices.problem;
        char line[300];
        (void)std::snprintf(
            line, sizeof(line),
            R"({"dtype": "%s", "V": %u, "d": %u, "B": %u, "what": "%s", "us": %.2f, "gb_per_s": %.0f})",
            name_of(problem.dtype), problem.entries, problem.elements, columns, what.c_str(), microseconds,
            static_cast<double>(matrices.head_bytes()) / microseconds / 1e3);
        context.record(line);
        return microseconds;
    }
    double read_head() {
        GpuNumber<std::uint32_t> sink;
        return record(0, "read", median_microseconds(kRuns, [&](std::uint32_t i) {
                          read_all(matrices.head_at(i % kHeads), matrices.head_bytes(), sink.get(), nullptr);
                      }));
    }
    double time_way(std::uint32_t columns, int way, std::uint32_t runs, bool measures) {
        return median_microseconds(runs, [&](std::uint32_t i) {
            const HeadProduct each = call(columns, i);
            if (!cublas->launch(each, way, nullptr)) throw std::runtime_error("cublasLtMatmul failed");
            if (measures) measure_rows(each, outcome.maxima.get(), nullptr);
        });
    }
    // What columns want is that of the matrices.
    double time_variant(const HeadTiles& variant, std::uint32_t columns, const Left& left) {
        const auto run = [&](std::uint32_t i) {
            HeadProduct each = call(columns, i);
            if (!left.logits) each.logits = nullptr;
            if (!left.wants) each.wants = nullptr;
            each.floors = floors.get() + i * kMostColumns;
            check(variant.launch(each, nullptr), variant.name);
        };
        floors.fill(0);
        return median_microseconds(kRuns, run);
    }
    void want_all(const LeanWant& want) {
        std::vector<LeanWant> wants(std::size_t{2} * kMostColumns, want);
        for (std::uint32_t i = 0; i < wants.size(); ++i) wants[i].key.seed = i;
        matrices.want(wants);
    }
};

LeanWant wanted(request::Wants flags, float temperature) {
    LeanWant want;
    want.flags = flags;
    want.temperature = temperature;
    return want;
}

// Times of one batch size; the fused ones by the tiles that launch_head() chooses.
struct Cell {
    double first_way = 0;
    double best_way = 0;
    double measured = 0;  // the best way, and a pass over the logits
    const HeadTiles* variant = nullptr;
    double maxima = 0;  // alone
    double logits = 0;
    double sums = 0;  // and logits
    double greedy = 0;
    double drawn = 0;
};

void time_cublas(Timing& timing, std::uint32_t columns, Cell& cell) {
    const int ways = timing.cublas->prepare(timing.call(columns, 0));
    if (ways == 0) throw std::runtime_error("cuBLAS proposes no way");
    int best = 0;
    double least = 0;
    for (int way = 0; way < ways; ++way) {
        constexpr std::uint32_t kTries = 5;
        if (!timing.cublas->launch(timing.call(columns, 0), way, nullptr)) continue;
        const double time = timing.time_way(columns, way, kTries, false);
        if (least == 0 || time < least) {
            least = time;
            best = way;
        }
    }
    cell.first_way = timing.record(columns, "cublas", timing.time_way(columns, 0, kRuns, false));
    cell.best_way = timing.record(columns, "cublas best of " + std::to_string(ways),
                                  timing.time_way(columns, best, kRuns, false));
    cell.measured =
        timing.record(columns, "cublas best, maxima", timing.time_way(columns, best, kRuns, true));
}

// The narrowest of one tile beside the other, and of two; of these last all of 128 columns.
bool fits(const HeadTiles& variant, std::uint32_t columns) {
    const auto is_narrowest = [&](std::uint32_t beside) {
        const auto all = head_tiles();
        const auto holds = [&](const HeadTiles& each) { return beside * each.columns >= columns; };
        const auto first = std::find_if(all.begin(), all.end(), holds);
        return first != all.end() && first->columns == variant.columns;
    };
    return (is_narrowest(1) && variant.knows_wants) || is_narrowest(2);
}

void time_fused(Timing& timing, std::uint32_t columns, Cell& cell) {
    for (const HeadTiles& each : head_tiles()) {
        if (!fits(each, columns) || timing.context.is_dead(each.name)) continue;
        const double time = timing.record(columns, std::string("fused, logits ") + each.name,
                                          timing.time_variant(each, columns, {true, false}));
        std::printf("     B=%u %s: %.1f us\n", columns, each.name, time);
        // As launch_head() chooses.
        if (cell.variant != nullptr && &each < cell.variant) continue;
        cell.variant = &each;
        cell.logits = time;
    }
    if (cell.variant == nullptr) throw std::runtime_error("no tiles are left for this batch");
    const auto time = [&](const char* what, const Left& left) {
        return timing.record(columns, what, timing.time_variant(*cell.variant, columns, left));
    };
    cell.maxima = time("fused", {false, false});
    timing.want_all(wanted(Want::sum_at_one | Want::sum_at_scale, 0.8F));
    cell.sums = time("fused, logits, sums", {true, true});
    timing.want_all(wanted(Want::draw, 0.0F));
    cell.greedy = time("fused, greedy", {true, true});
    timing.want_all(wanted(Want::draw, 1.0F));
    cell.drawn = time("fused, drawn", {true, true});
}

void time_again(Timing& timing) {
    constexpr std::uint32_t kMost = 512;
    std::vector<AskedBlock> asked(kMost);
    for (std::uint32_t i = 0; i < kMost; ++i) {
        asked[i].block = (i * 997) % timing.matrices.blocks();
        for (std::uint32_t k = 0; k < kAskedColumns; ++k) asked[i].columns[k] = i % 16 * kAskedColumns + k;
    }
    const GpuArray<AskedBlock> on_gpu(kMost);
    const GpuArray<std::uint16_t> again(std::uint64_t{kMost} * kAskedColumns * kBlockRows);
    check(cudaMemcpy(on_gpu.get(), asked.data(), on_gpu.bytes(), cudaMemcpyHostToDevice),
          "copying asked blocks");
    GpuNumber<std::uint32_t> sink;
    for (const std::uint32_t count : {1U, 8U, 32U, 128U, 512U}) {
        const auto run = [&](std::uint32_t i) {
            check(launch_again(timing.call(kMostColumns, i), on_gpu.get(), count, again.get()),
                  "blocks_again");
        };
        // The other head takes the L2 cache.
        const auto prepare = [&](std::uint32_t i) {
            read_all(timing.matrices.head_at((i + 1) % kHeads), timing.matrices.head_bytes() / 4, sink.get(),
                     nullptr);
        };
        const double time = timing.record(kMostColumns, "again " + std::to_string(count),
                                          median_microseconds(kRuns, run, prepare));
        std::printf("     %u blocks computed again, 8 columns each: %.1f us\n", count, time);
    }
}

void time_problem(JobContext& context, const Problem& problem) {
    Timing timing(context, problem);
    const double floor = timing.read_head();
    std::vector<std::pair<std::uint32_t, Cell>> cells;
    for (const std::uint32_t columns : {1U, 8U, 16U, 32U, 64U, 128U, 256U}) {
        Cell cell;
        if (timing.cublas != nullptr) time_cublas(timing, columns, cell);
        time_fused(timing, columns, cell);
        cells.emplace_back(columns, cell);
    }
    time_again(timing);
    std::printf("     microseconds: %s; reading the head takes %.1f\n", problem.name().c_str(), floor);
    std::printf("  %5s %8s %8s %8s | %-8s %8s %8s %8s %8s %8s | %8s %8s\n", "B", "cublas", "best", "+maxima",
                "tiles", "maxima", "+logits", "+sums", "greedy", "drawn", "logits/", "drawn/");
    for (const auto& [columns, cell] : cells) {
        std::printf("  %5u %8.1f %8.1f %8.1f | %-8s %8.1f %8.1f %8.1f %8.1f %8.1f | %8.3f %8.3f\n", columns,
                    cell.first_way, cell.best_way, cell.measured, cell.variant->name, cell.maxima,
                    cell.logits, cell.sums, cell.greedy, cell.drawn, cell.logits / cell.first_way,
                    cell.drawn / cell.first_way);
    }
    (void)std::fflush(stdout);
}

}  // namespace

std::vector<Job> timing_jobs() {
    std::vector<Job> jobs;
    for (const std::uint32_t entries : {151'936U, 128'256U}) {
        for (const std::uint32_t elements : {3584U, 4096U, 8192U}) {
            const Problem problem{Dtype::bf16, entries, elements, 0};
            jobs.push_back({"time: " + problem.name(), "",
                            [problem](JobContext& context) { time_problem(context, problem); }});
        }
    }
    return jobs;
}

}  // namespace croupier::gpu_writer::head
