// What head_bench does one after the other, each job in a process that the ones before may have left behind.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "bench/head/blocks_again.h"
#include "bench/head/gpu_memory.h"
#include "gpu_writer/head_product.h"

namespace croupier::gpu_writer::head {

// Shared with the process that watches.
struct Progress {
    std::atomic<std::size_t> at = 0;
    std::atomic<unsigned> failed_checks = 0;
};

struct JobContext {
    Progress& progress;
    const std::vector<std::string>& dead_variants;  // by the jobs that died with them
    std::string records;                            // a file; empty: none

    bool is_dead(const char* variant) const;
    // Prints a line, and counts it if it is not right.
    void report(bool is_right, const std::string& what);
    void record(const std::string& line) const;
};

struct Job {
    std::string name;
    std::string variant;  // that it is about; empty: none
    std::function<void(JobContext&)> run;
};

// Random matrices, and room for what the kernels leave of them: for any number of columns up to most_columns.
struct Problem {
    proto::Dtype dtype;
    std::uint32_t entries;
    std::uint32_t elements;
    std::uint32_t lead;

    std::string name() const;
};
struct Outcome {
    GpuArray<std::uint16_t> maxima;
    GpuArray<LeanSums> sums;
    GpuArray<std::uint16_t> logits;
    GpuArray<std::uint32_t> floors;
};
// The product's blocks once more, on the default stream.
cudaError_t launch_again(const HeadProduct& product, const AskedBlock* asked, std::uint32_t count,
                         std::uint16_t* logits);

class Matrices {
  public:
    Matrices(const Problem& problem, std::uint32_t most_columns, std::uint32_t heads);

    // Of columns `turned` and on, around the end; into `outcome`. `heads` are equal in size, not in values.
    HeadProduct call(std::uint32_t columns, std::uint32_t turned, Outcome& outcome, std::uint32_t head = 0);
    Outcome make_outcome() const;
    // Of the columns as they are turned, twice most_columns at most; else all want both sums.
    void want(const std::vector<LeanWant>& wants);
    static void poison(Outcome& outcome);

    const Problem problem;
    const std::uint32_t most_columns;
    std::uint64_t logits_stride() const { return std::uint64_t{blocks()} * kBlockRows; }
    std::uint32_t blocks() const { return (problem.lead + problem.entries + 63) / 64; }
    std::uint64_t head_bytes() const { return std::uint64_t{problem.entries} * problem.elements * 2; }
    std::uint16_t* hidden_at(std::uint32_t column) {
        return hidden_.get() + std::uint64_t{column} * problem.elements;
    }
    const std::uint16_t* head_at(std::uint32_t head) const { return heads_.get() + head * head_bytes() / 2; }

  private:
    GpuArray<std::uint16_t> heads_;
    GpuArray<std::uint16_t> hidden_;  // twice, one behind the other: a turned batch is one piece
    GpuArray<LeanWant> wants_;        // likewise
};

}  // namespace croupier::gpu_writer::head
