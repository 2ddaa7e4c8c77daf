// The kernel that brings block requests and tokens, compiled for this CPU.
#include "tests/gpu_kernels/emulated_answer.h"

#include <stdexcept>

#include "gpu_writer/answer_kernel.cu"  // NOLINT(bugprone-suspicious-include)

// No rows have a source here.
cudaError_t croupier::gpu_writer::head::launch_computed_answers(const LeanRows&, const LeanSlice&,
                                                                const QueueMemory&, std::uint64_t,
                                                                const DeliveredTokens&, const ToldRows&,
                                                                cudaStream_t) {
    return cudaErrorLaunchFailure;
}

namespace croupier::testing {

void serve_link(const gpu_writer::QueueMemory& queue, std::uint64_t turn,
                const gpu_writer::DeliveredTokens& tokens) {
    gpu::run_grid(1, 1, gpu_writer::kAnswerThreads, [&] {
        gpu_writer::answer_requests<proto::Dtype::bf16, gpu_writer::StoredBlocks>({}, {}, queue, turn, tokens,
                                                                                  {}, {});
    });
}

namespace {

template <proto::Dtype D>
struct AnswerEntry {
    static void launch(const gpu_writer::LeanRows& rows, const gpu_writer::LeanSlice& slice,
                       const gpu_writer::QueueMemory& queue, std::uint64_t pass,
                       const gpu_writer::ToldRows& told) {
        gpu::run_grid(1, 1, gpu_writer::kAnswerThreads, [&] {
            gpu_writer::answer_entry<D>(rows, slice, queue, pass, 0, told, gpu_writer::StoredBlocks{});
        });
    }
};

}  // namespace

void answer_blocks(const gpu_writer::LeanRows& rows, const gpu_writer::LeanSlice& slice,
                   const gpu_writer::WholeColumn& of, const std::vector<std::uint64_t>& bitmap,
                   const gpu_writer::ToldRows& told) {
    constexpr std::uint64_t kPass = 3;
    constexpr std::uint64_t kWord = 78;
    std::uint64_t answered = 0;
    std::uint64_t taken = 0;
    std::uint64_t relay = gpu_writer::QueueWord::of(kPass, 1);
    gpu_writer::QueueEntry entry{};
    entry.answered = reinterpret_cast<std::uint64_t>(&answered);
    entry.word = kWord;
    entry.column = of.column;
    entry.place = of.place;
    entry.count = gpu_writer::QueueEntry::kInBitmap;
    std::vector<std::uint64_t> bits((rows.blocks + 63) / 64);
    std::copy_n(bitmap.begin(), bits.size(), bits.begin());
    gpu_writer::QueueMemory queue;
    queue.entries = &entry;
    queue.bitmaps = reinterpret_cast<const std::uint32_t*>(bits.data());
    queue.taken = &taken;
    queue.relay = &relay;
    queue.places = 1;
    queue.bitmap_words = static_cast<std::uint32_t>(2 * bits.size());
    gpu_writer::launch_of<AnswerEntry>(rows.dtype, rows, slice, queue, kPass, told);
    if (answered != kWord || taken != gpu_writer::QueueWord::of(kPass, 1))
        throw std::runtime_error("a request is answered, and its words do not say so");
}

}  // namespace croupier::testing
