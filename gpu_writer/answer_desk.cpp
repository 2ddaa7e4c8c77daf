#include "gpu_writer/answer_desk.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace croupier::gpu_writer {

shm::Result<std::unique_ptr<AnswerDesk>> AnswerDesk::make(proto::Dtype dtype, std::uint32_t blocks) {
    CROUPIER_TRY(cuda_done(load_answer_kernel(dtype), "cannot load the kernel of wishes"));
    CROUPIER_TRY_VALUE(wait, StreamWait::find());
    std::unique_ptr<AnswerDesk> desk(new AnswerDesk(wait, blocks));
    CROUPIER_TRY(desk->prepare());
    return desk;
}

AnswerDesk::AnswerDesk(StreamWait wait, std::uint32_t blocks)
    : wait_(wait), bitmap_words_(std::max((blocks + 127) / 128, 1U) * 2) {}

shm::Result<bool> AnswerDesk::prepare() {
    const std::string what = "wishes";
    CROUPIER_TRY(keep(word_, pinned_array<std::uint64_t>(1, what)));
    CROUPIER_TRY(keep(entries_, pinned_array<DeskEntry>(kPlaces, what)));
    CROUPIER_TRY(keep(bitmaps_, pinned_array<std::uint64_t>(std::size_t{kPlaces} * bitmap_words_, what)));
    CROUPIER_TRY(keep(taken_, pinned_array<std::uint64_t>(kPlaces, what)));
    CROUPIER_TRY(keep(relay_, device_array<std::uint64_t>(1, what)));
    std::uint64_t* bitmaps = nullptr;
    std::uint64_t* word = nullptr;
    DeskEntry* entries = nullptr;
    CROUPIER_TRY(keep(word, device_pointer(word_.get(), what)));
    CROUPIER_TRY(keep(entries, device_pointer(entries_.get(), what)));
    CROUPIER_TRY(keep(bitmaps, device_pointer(bitmaps_.get(), what)));
    CROUPIER_TRY(keep(addresses_.taken, device_pointer(taken_.get(), what)));
    addresses_.word = word;
    addresses_.entries = entries;
    addresses_.bitmaps = reinterpret_cast<const std::uint32_t*>(bitmaps);
    addresses_.relay = relay_.get();
    addresses_.places = kPlaces;
    addresses_.bitmap_words = 2 * bitmap_words_;
    CROUPIER_TRY(cuda_done(cudaGetDevice(&device_), "the GPU of wishes is not known"));
    CROUPIER_TRY(keep(stream_, make_urgent_stream()));
    CROUPIER_TRY(keep(before_, make_event()));
    return keep(ended_, make_event());
}

AnswerDesk::~AnswerDesk() {
    if (word_ == nullptr || stream_ == nullptr) return;
    close_for_good();
    (void)cudaStreamSynchronize(stream_.get());
}

void AnswerDesk::open(const Opening& opening) {
    const std::lock_guard lock(mutex_);
    opened_ = opening;
    first_turn_ = ++turn_;
    is_closed_ = false;
}

bool AnswerDesk::is_open_for(std::uint64_t step) const {
    const std::lock_guard lock(mutex_);
    return opened_.number != 0 && opened_.step == step;
}

shm::Result<std::uint64_t> AnswerDesk::answer_in(cudaStream_t stream, const DeliveredTokens& tokens) {
    const std::lock_guard lock(mutex_);
    if (enqueued_ == turn_) return std::uint64_t{0};
    CROUPIER_TRY(enqueue(stream, tokens));
    return turn_;
}

shm::Result<bool> AnswerDesk::enqueue(cudaStream_t stream, const DeliveredTokens& tokens) {
    if (auto launched = launch(stream, tokens); !launched) {
        // Nothing answers in this turn, and the stream may wait for its first wish by now: it ends, and the
        // next wish or await has a turn of its own.
        raise_word(DeskWord::of(turn_ + 1, 0));
        if (!is_closed_) ++turn_;
        return launched;
    }
    if (enqueued_ >= first_turn_) std::swap(ended_, before_);
    enqueued_ = turn_;
    on_own_stream_ = stream == stream_.get();
    return cuda_done(cudaEventRecord(ended_.get(), stream), "cannot mark the end of wishes");
}

shm::Result<bool> AnswerDesk::launch(cudaStream_t stream, const DeliveredTokens& tokens) {
    // A replay's stream is not known; who awaits its tokens does so behind it, most often there.
    const bool behind_step = opened_.worker ? stream == *opened_.worker : stream != stream_.get();
    // A stream that finds its word too small looks at it again 20 us later or so, a kernel at once.
    if (!behind_step && stream != stream_.get()) {
        const auto address = reinterpret_cast<std::uint64_t>(addresses_.word);
        CROUPIER_TRY(wait_.until(stream, address, DeskWord::of(turn_, 1)));
    }
    if (!behind_step && opened_.there != nullptr) {
        CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(stream, opened_.there, 0),
                               "a stream cannot wait for rows that are copied"));
    }
    // Of an earlier turn: who holds a stream for the last kernel holds it for all of the opening's.
    if (enqueued_ >= first_turn_) {
        CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(stream, ended_.get(), 0),
                               "a stream cannot wait for earlier wishes"));
    }
    // An error that somebody else left is not this launch's.
    (void)cudaGetLastError();
    return cuda_done(launch_answering(opened_.rows, opened_.slice, addresses_, turn_, tokens,
                                      {opened_.found, opened_.number}, stream),
                     "cannot launch the kernel that answers wishes");
}

shm::Result<bool> AnswerDesk::hold(cudaStream_t stream) const {
    const BesideCapture beside;
    const std::lock_guard lock(mutex_);
    bool waits = false;
    for (const Event* each : {&before_, &ended_}) {
        if (cudaEventQuery(each->get()) == cudaSuccess) continue;
        CROUPIER_TRY(
            cuda_done(cudaStreamWaitEvent(stream, each->get(), 0), "a stream cannot wait for wishes"));
        waits = true;
    }
    return waits;
}

bool AnswerDesk::raise_word(std::uint64_t to) {
    const std::atomic_ref word(word_[0]);
    std::uint64_t now = word.load(std::memory_order_relaxed);
    // SYNC: release; the GPU, which waits for the word, then finds the entries.
    while (now < to && !word.compare_exchange_weak(now, to, std::memory_order_release)) {
    }
    return now < to;
}

void AnswerDesk::close(std::uint64_t opening) {
    const std::lock_guard lock(mutex_);
    if (opening != opened_.number) return;
    is_closed_ = true;
    raise_word(DeskWord::of(turn_ + 1, 0));
}

void AnswerDesk::close_for_good() {
    // Half of what a stream's wait tells from a number that is passed.
    constexpr std::uint64_t kNoTurn = std::uint64_t{1} << 38U;
    raise_word(DeskWord::of(kNoTurn, 0));
}

void AnswerDesk::end_turn(std::uint64_t turn) {
    const std::lock_guard lock(mutex_);
    end_turn_now(turn);
}

void AnswerDesk::end_turn_now(std::uint64_t turn) {
    raise_word(DeskWord::of(turn + 1, 0));
    if (turn == turn_ && opened_.rows_stay && !is_closed_) ++turn_;
}

bool AnswerDesk::rest(std::uint64_t opening) {
    const std::lock_guard lock(mutex_);
    const bool has_own = enqueued_ == turn_ && on_own_stream_;
    if (opening != opened_.number || is_closed_ || !has_own || !opened_.rows_stay) return false;
    end_turn_now(turn_);
    return true;
}

std::uint64_t AnswerDesk::turn_of(std::uint64_t opening) const {
    const std::lock_guard lock(mutex_);
    return opening == opened_.number && !is_closed_ ? turn_ : 0;
}

bool AnswerDesk::rows_stay(std::uint64_t opening) const {
    const std::lock_guard lock(mutex_);
    return opening == opened_.number && opened_.rows_stay;
}

bool AnswerDesk::post(std::uint64_t opening, const DeskWish& wish) {
    const std::uint64_t turn = turn_of(opening);
    if (turn == 0) return false;
    if (turn != posted_in_) posted_ = 0;
    posted_in_ = turn;
    const std::atomic_ref word(word_[0]);
    // Where a later turn goes on, the wish belongs there.
    if (DeskWord::turn(word.load(std::memory_order_relaxed)) > turn) return turn_of(opening) == turn;
    if (!has_kernel(turn) || !has_entries(turn) || !has_place(turn, posted_)) return false;
    write_entry(posted_ % kPlaces, wish);
    raise_word(DeskWord::of(turn, ++posted_));
    return true;
}

// The kernel of the turn before may still read its own. What it had is answered then or will not be: whoever
// posts looks at the wish again.
bool AnswerDesk::has_entries(std::uint64_t turn) {
    const BesideCapture beside;
    const std::lock_guard lock(mutex_);
    if (turn == first_turn_ || turn == has_entries_) return true;
    if (turn != turn_ || cudaEventQuery(before_.get()) != cudaSuccess) return false;
    has_entries_ = turn;
    return false;
}

// Where nothing waits for the tokens, no thread sits in CUDA until they are there, and this one can launch.
bool AnswerDesk::has_kernel(std::uint64_t turn) {
    const BesideCapture beside;
    const std::lock_guard lock(mutex_);
    if (is_closed_ || turn_ > turn) return false;
    if (enqueued_ == turn_) return true;
    // For good: the thread has no other device, and to go back to the first one would make a context there.
    (void)cudaSetDevice(device_);
    return enqueue(stream_.get(), {}).has_value();
}

// What the place had before is read, and nothing of it will be again.
bool AnswerDesk::has_place(std::uint64_t turn, std::uint32_t entry) const {
    if (entry < kPlaces) return true;
    const std::atomic_ref taken(taken_[entry % kPlaces]);
    return taken.load(std::memory_order_acquire) == DeskWord::of(turn, entry - kPlaces + 1);
}

void AnswerDesk::write_entry(std::uint32_t place, const DeskWish& wish) {
    DeskEntry& entry = entries_[place];
    entry.answered = wish.answered;
    entry.word = wish.word;
    entry.column = wish.column;
    std::size_t count = 0;
    for (const std::uint64_t bits : wish.blocks) count += static_cast<std::size_t>(std::popcount(bits));
    if (count > DeskEntry::kListed) {
        entry.count = DeskEntry::kInBitmap;
        std::uint64_t* const to = bitmaps_.get() + std::size_t{place} * bitmap_words_;
        std::fill_n(std::copy(wish.blocks.begin(), wish.blocks.end(), to), bitmap_words_ - wish.blocks.size(),
                    0);
        return;
    }
    entry.count = static_cast<std::uint32_t>(count);
    std::uint16_t* listed = entry.list;
    for (std::size_t word = 0; word < wish.blocks.size(); ++word) {
        for (std::uint64_t bits = wish.blocks[word]; bits != 0; bits &= bits - 1) {
            *listed++ =
                static_cast<std::uint16_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
        }
    }
}

}  // namespace croupier::gpu_writer
