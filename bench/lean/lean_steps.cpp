#include "bench/lean/lean_steps.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace croupier::bench::lean {
namespace {

using Clock = std::chrono::steady_clock;
using writer::need_cuda;

template <typename T>
T need(shm::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

std::uint64_t since(Clock::time_point begin) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

// Words of a step, one in a cache line.
enum Word : std::size_t { kReady = 0, kFirstStamp = 1, kFinished = 8, kFlag = 24, kFirstAnswered = 32 };
constexpr std::uint32_t kMostAsking = 64;
// A step's masks have rows of whole cache lines.
constexpr std::uint32_t kMaskWords = 16;
constexpr std::uint32_t kMaskIds = kMaskWords * 32;
constexpr std::size_t kSweepBytes = std::size_t{1} << 30U;

void spin_until(std::uint64_t& word, std::uint64_t value) {
    std::atomic_ref at(word);
    constexpr std::uint32_t kLooks = 1U << 16U;
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    for (std::uint32_t looks = 1; at.load(std::memory_order_acquire) != value; ++looks) {
        if (looks % kLooks != 0 || Clock::now() < deadline) continue;
        throw std::runtime_error("a word did not come within ten seconds: " +
                                 std::string(cudaGetErrorString(cudaPeekAtLastError())));
    }
}

gpu_writer::LeanShape shape_of(const Case& of) {
    proto::Geometry geometry;
    geometry.vocab = of.vocab;
    geometry.max_batch = of.columns;
    geometry.lean_blocks = (of.by_maximum + of.by_race + 2 + proto::kLeanGranule - 1) / proto::kLeanGranule *
                           proto::kLeanGranule;
    proto::fill_even_shards(geometry);
    return gpu_writer::lean_shape(geometry, 0, of.columns);
}

}  // namespace

template <typename T>
Mapped<T>::Mapped(std::size_t count)
    : host(need(gpu_writer::pinned_array<T>(count, "the measurement's memory"))),
      device(need(gpu_writer::device_pointer(host.get(), "the measurement's memory"))) {}

ColdRows::ColdRows(std::size_t of) : memory(of), bytes(of) {
    fill_logits(memory.get(), of / 2);
}

LeanSteps::LeanSteps(const Case& of, const ColdRows& rows)
    : case_(of),
      cold_(rows),
      shape_(shape_of(of)),
      queue_(need(gpu_writer::RequestQueue::make(proto::Dtype::bf16, shape_.slice.blocks))),
      scratch_(gpu_writer::lean_scratch_bytes(proto::Dtype::bf16, shape_.slice.blocks, of.columns)),
      spread_scratch_(gpu_writer::spread_scratch_bytes()),
      sweep_(kSweepBytes),
      tokens_(of.columns * sizeof(std::int32_t)),
      wants_(of.columns),
      mask_words_(std::uint64_t{(of.vocab + kMaskIds - 1) / kMaskIds} * kMaskWords),
      masks_((of.masked ? mask_words_ * of.columns : 1) * sizeof(std::uint32_t)),
      part_(shape_.layout.bytes),
      slice_(std::size_t{shape_.slice.places()} * of.columns * 2),
      words_(kFirstAnswered + kMostAsking),
      decided_(of.columns) {
    cudaEvent_t event = nullptr;
    need_cuda(cudaEventCreate(&event), "cannot create an event");
    begun_.reset(event);
    need_cuda(cudaEventCreate(&event), "cannot create an event");
    ended_.reset(event);
    need_cuda(cudaMemset(scratch_.get(), 0,
                         gpu_writer::lean_scratch_bytes(proto::Dtype::bf16, shape_.slice.blocks, of.columns)),
              "cannot clear GPU memory");
    need_cuda(cudaMemset(spread_scratch_.get(), 0, gpu_writer::spread_scratch_bytes()),
              "cannot clear GPU memory");
    constexpr int kEverySecond = 0x55;
    if (of.masked)
        need_cuda(cudaMemset(masks_.get(), kEverySecond, mask_words_ * of.columns * sizeof(std::uint32_t)),
                  "cannot fill GPU memory");
    need_cuda(cudaDeviceSynchronize(), "cannot clear GPU memory");
    for (std::uint32_t column = 0; column < of.columns; ++column) {
        gpu_writer::LeanWant& want = wants_[column];
        if (of.masked) want.mask_row = static_cast<std::uint16_t>(column + 1);
        want.key = {column * 77U + 1, 100 + column, 0};
        want.temperature = 0.7F;
        want.scale = 1 / 0.7;
        if (of.sums) want.flags = gpu_writer::Want::sum_at_one | gpu_writer::Want::sum_at_scale;
        if (of.drawn) want.flags.add(gpu_writer::Want::draw);
        if (of.racers) want.flags.add(gpu_writer::Want::racers);
        want.by_maximum = static_cast<std::uint16_t>(of.by_maximum);
        want.place = static_cast<std::uint16_t>(column);
        want.by_race = static_cast<std::uint16_t>(of.by_race);
        if (column >= of.spreads) continue;
        want.flags.add(gpu_writer::Want::spread);
        spreads_.push_back({column, want.mask_row, want.scale});
    }
}

gpu_writer::LeanRows LeanSteps::next_rows() {
    const std::size_t bytes = std::size_t{case_.vocab} * case_.columns * 2;
    const std::size_t places = cold_.bytes / bytes;
    const auto* logits = static_cast<const std::byte*>(cold_.memory.get()) + step_ % places * bytes;
    return {logits,
            case_.vocab,
            proto::Dtype::bf16,
            shape_.slice.lead,
            shape_.slice.entries,
            shape_.slice.blocks,
            shape_.first_block,
            {static_cast<const std::uint32_t*>(masks_.get()), mask_words_}};
}

gpu_writer::LeanSlice LeanSteps::slice() const {
    return {slice_.address(), case_.columns, case_.columns};
}

void LeanSteps::launch() {
    ++step_;
    const gpu_writer::LeanTarget target{part_.address(), shape_.layout, shape_.room};
    need_cuda(gpu_writer::launch_spreads(next_rows(), target, spreads_, spread_scratch_.get(), stream_.get()),
              "cannot launch a lean step's spreads");
    need_cuda(gpu_writer::launch_lean(next_rows(), target, wants_,
                                      {words_.address(kReady), step_, words_.address(kFirstStamp),
                                       words_.address(kFinished), step_},
                                      scratch_.get(), stream_.get()),
              "cannot launch a lean step");
}

std::uint64_t LeanSteps::to_ready() {
    const auto begin = Clock::now();
    launch();
    spin_until(words_[kReady], step_);
    const std::uint64_t took = since(begin);
    stream_.synchronise();
    return took;
}

void LeanSteps::answer_tokens() {
    for (std::uint32_t column = 0; column < case_.columns; ++column) {
        const gpu_writer::TokenWord word{static_cast<std::int32_t>(step_ + column), ticket()};
        std::atomic_ref(decided_[column]).store(word, std::memory_order_relaxed);
    }
}

// As a writer brings them; what stands behind them in the stream says that they are there. They are answered
// when the step's word is there.
std::uint64_t LeanSteps::until_tokens(Clock::time_point begin) {
    queue_->open({next_rows(), slice(), step_, step_, stream_.get()});
    need(queue_->answer_in(stream_.get(), {decided_.device, static_cast<std::int32_t*>(tokens_.get()),
                                           case_.columns, ticket()}));
    launch_flag(words_.device + kFlag, step_, stream_.get());
    spin_until(words_[kReady], step_);
    answer_tokens();
    queue_->close(step_);
    spin_until(words_[kFlag], step_);
    const std::uint64_t took = since(begin);
    stream_.synchronise();
    return took;
}

std::uint64_t LeanSteps::to_tokens() {
    const auto begin = Clock::now();
    launch();
    return until_tokens(begin);
}

std::uint64_t LeanSteps::empty_to_flag() {
    ++step_;
    const auto begin = Clock::now();
    launch_flag(words_.device + kReady, step_, stream_.get());
    spin_until(words_[kReady], step_);
    const std::uint64_t took = since(begin);
    stream_.synchronise();
    return took;
}

std::uint64_t LeanSteps::empty_to_tokens() {
    ++step_;
    const auto begin = Clock::now();
    launch_flag(words_.device + kReady, step_, stream_.get());
    return until_tokens(begin);
}

void LeanSteps::ask(std::uint32_t columns, std::span<const std::uint64_t> blocks) {
    ++asked_;
    for (std::uint32_t column = 0; column < columns; ++column) {
        queue_->post(step_, {column, column, blocks, words_.address(kFirstAnswered + column), asked_});
    }
}

void LeanSteps::wait_for_answers(std::uint32_t columns) {
    for (std::uint32_t column = 0; column < columns; ++column) {
        spin_until(words_[kFirstAnswered + column], asked_);
    }
}

std::uint64_t LeanSteps::to_answers(std::uint32_t columns, std::uint32_t blocks, bool running) {
    ++step_;
    std::vector<std::uint64_t> wanted((shape_.slice.blocks + 63) / 64);
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const std::uint64_t block = (step_ * 31 + std::uint64_t{i} * 277) % shape_.slice.blocks;
        wanted[block / 64] |= std::uint64_t{1} << block % 64;
    }
    // A step's first block request brings the kernel only in another stream than the step's.
    queue_->open({next_rows(), slice(), step_, step_, running ? stream_.get() : nullptr});
    need(queue_->answer_in(stream_.get(), {}));
    if (running) {
        ask(1, std::vector<std::uint64_t>(wanted.size()));
        wait_for_answers(1);
    }
    const auto begin = Clock::now();
    ask(columns, wanted);
    wait_for_answers(columns);
    const std::uint64_t took = since(begin);
    queue_->close(step_);
    return took;
}

std::uint64_t LeanSteps::of_kernel(bool cold) {
    if (cold) {
        need_cuda(cudaMemsetAsync(sweep_.get(), static_cast<int>(step_ % 256), kSweepBytes, stream_.get()),
                  "cannot sweep the GPU's caches");
    }
    need_cuda(cudaEventRecord(begun_.get(), stream_.get()), "cannot time a step");
    launch();
    need_cuda(cudaEventRecord(ended_.get(), stream_.get()), "cannot time a step");
    stream_.synchronise();
    float milliseconds = 0;
    need_cuda(cudaEventElapsedTime(&milliseconds, begun_.get(), ended_.get()), "cannot time a step");
    return static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
}

std::uint32_t LeanSteps::blocks_sent() const {
    std::uint32_t sent = 0;
    const auto* heads = reinterpret_cast<const proto::LeanHead*>(part_.host.get() + shape_.layout.heads);
    for (std::uint32_t column = 0; column < case_.columns; ++column) sent += heads[column].sent;
    return sent;
}

std::size_t LeanSteps::bytes_sent() const {
    const std::size_t of_column = sizeof(proto::LeanHead) + (shape_.slice.blocks + 7) / 8 * std::size_t{16};
    const std::size_t of_block = proto::kBlockIds * std::size_t{2} + sizeof(std::uint16_t);
    return case_.columns * of_column + blocks_sent() * of_block;
}

}  // namespace croupier::bench::lean
