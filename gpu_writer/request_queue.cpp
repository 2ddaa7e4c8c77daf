#include "gpu_writer/request_queue.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace croupier::gpu_writer {

shm::Result<std::unique_ptr<RequestQueue>> RequestQueue::make(proto::Dtype dtype, std::uint32_t blocks) {
    CROUPIER_TRY(cuda_done(load_answer_kernel(dtype), "cannot load the kernel of block requests"));
    CROUPIER_TRY_VALUE(wait, StreamWait::find());
    std::unique_ptr<RequestQueue> queue(new RequestQueue(wait, blocks));
    CROUPIER_TRY(queue->prepare());
    return queue;
}

RequestQueue::RequestQueue(StreamWait wait, std::uint32_t blocks)
    : wait_(wait), bitmap_words_(std::max((blocks + 127) / 128, 1U) * 2) {}

shm::Result<bool> RequestQueue::prepare() {
    const std::string what = "block requests";
    CROUPIER_TRY(keep(word_, pinned_array<std::uint64_t>(1, what)));
    CROUPIER_TRY(keep(entries_, pinned_array<QueueEntry>(kPlaces, what)));
    CROUPIER_TRY(keep(bitmaps_, pinned_array<std::uint64_t>(std::size_t{kPlaces} * bitmap_words_, what)));
    CROUPIER_TRY(keep(taken_, pinned_array<std::uint64_t>(kPlaces, what)));
    CROUPIER_TRY(keep(relay_, device_array<std::uint64_t>(1, what)));
    std::uint64_t* bitmaps = nullptr;
    std::uint64_t* word = nullptr;
    QueueEntry* entries = nullptr;
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
    CROUPIER_TRY(cuda_done(cudaGetDevice(&device_), "the GPU of block requests is not known"));
    CROUPIER_TRY(keep(stream_, make_urgent_stream()));
    CROUPIER_TRY(keep(before_, make_event()));
    return keep(ended_, make_event());
}

RequestQueue::~RequestQueue() {
    if (word_ == nullptr || stream_ == nullptr) return;
    close_for_good();
    (void)cudaStreamSynchronize(stream_.get());
}

void RequestQueue::open(const Opening& opening) {
    const std::lock_guard lock(mutex_);
    opened_ = opening;
    first_pass_ = ++pass_;
    is_closed_ = false;
}

bool RequestQueue::is_open_for(std::uint64_t step) const {
    const std::lock_guard lock(mutex_);
    return opened_.number != 0 && opened_.step == step;
}

shm::Result<std::uint64_t> RequestQueue::answer_in(cudaStream_t stream, const DeliveredTokens& tokens) {
    const std::lock_guard lock(mutex_);
    if (enqueued_ == pass_) return std::uint64_t{0};
    CROUPIER_TRY(enqueue(stream, tokens));
    return pass_;
}

shm::Result<bool> RequestQueue::enqueue(cudaStream_t stream, const DeliveredTokens& tokens) {
    if (auto launched = launch(stream, tokens); !launched) {
        // Nothing answers in this pass, and the stream may wait for its first block request by now: it ends,
        // and the next block request or await has a pass of its own.
        raise_word(QueueWord::of(pass_ + 1, 0));
        if (!is_closed_) ++pass_;
        return launched;
    }
    if (enqueued_ >= first_pass_) std::swap(ended_, before_);
    enqueued_ = pass_;
    on_own_stream_ = stream == stream_.get();
    return cuda_done(cudaEventRecord(ended_.get(), stream), "cannot mark the end of block requests");
}

shm::Result<bool> RequestQueue::launch(cudaStream_t stream, const DeliveredTokens& tokens) {
    // A replay's stream is not known; who awaits its tokens does so behind it, most often there.
    const bool behind_step = opened_.worker ? stream == *opened_.worker : stream != stream_.get();
    // A stream that finds its word too small looks at it again 20 us later or so, a kernel at once.
    if (!behind_step && stream != stream_.get()) {
        const auto address = reinterpret_cast<std::uint64_t>(addresses_.word);
        CROUPIER_TRY(wait_.until(stream, address, QueueWord::of(pass_, 1)));
    }
    if (!behind_step && opened_.there != nullptr) {
        CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(stream, opened_.there, 0),
                               "a stream cannot wait for rows that are copied"));
    }
    // Of an earlier pass: who holds a stream for the last kernel holds it for all of the opening's.
    if (enqueued_ >= first_pass_) {
        CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(stream, ended_.get(), 0),
                               "a stream cannot wait for earlier block requests"));
    }
    // An error that somebody else left is not this launch's.
    (void)cudaGetLastError();
    return cuda_done(launch_answering(opened_.rows, opened_.slice, addresses_, pass_, tokens,
                                      {opened_.found, opened_.number}, stream),
                     "cannot launch the kernel that answers block requests");
}

shm::Result<bool> RequestQueue::hold(cudaStream_t stream) const {
    const BesideCapture beside;
    const std::lock_guard lock(mutex_);
    bool waits = false;
    for (const Event* each : {&before_, &ended_}) {
        if (cudaEventQuery(each->get()) == cudaSuccess) continue;
        CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(stream, each->get(), 0),
                               "a stream cannot wait for block requests"));
        waits = true;
    }
    return waits;
}

bool RequestQueue::raise_word(std::uint64_t to) {
    const std::atomic_ref word(word_[0]);
    std::uint64_t now = word.load(std::memory_order_relaxed);
    // SYNC: release; the GPU, which waits for the word, then finds the entries.
    while (now < to && !word.compare_exchange_weak(now, to, std::memory_order_release)) {
    }
    return now < to;
}

void RequestQueue::close(std::uint64_t opening) {
    const std::lock_guard lock(mutex_);
    if (opening != opened_.number) return;
    is_closed_ = true;
    raise_word(QueueWord::of(pass_ + 1, 0));
}

void RequestQueue::close_for_good() {
    // Half of what a stream's wait tells from a number that is passed.
    constexpr std::uint64_t kNoPass = std::uint64_t{1} << 38U;
    raise_word(QueueWord::of(kNoPass, 0));
}

void RequestQueue::end_pass(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    end_pass_now(pass);
}

void RequestQueue::end_pass_now(std::uint64_t pass) {
    raise_word(QueueWord::of(pass + 1, 0));
    if (pass == pass_ && opened_.rows_stay && !is_closed_) ++pass_;
}

bool RequestQueue::rest(std::uint64_t opening) {
    const std::lock_guard lock(mutex_);
    const bool has_own = enqueued_ == pass_ && on_own_stream_;
    if (opening != opened_.number || is_closed_ || !has_own || !opened_.rows_stay) return false;
    end_pass_now(pass_);
    return true;
}

std::uint64_t RequestQueue::pass_of(std::uint64_t opening) const {
    const std::lock_guard lock(mutex_);
    return opening == opened_.number && !is_closed_ ? pass_ : 0;
}

bool RequestQueue::rows_stay(std::uint64_t opening) const {
    const std::lock_guard lock(mutex_);
    return opening == opened_.number && opened_.rows_stay;
}

bool RequestQueue::post(std::uint64_t opening, const QueuedRequest& request) {
    const std::uint64_t pass = pass_of(opening);
    if (pass == 0) return false;
    if (pass != posted_in_) posted_ = 0;
    posted_in_ = pass;
    const std::atomic_ref word(word_[0]);
    // Where a later pass goes on, the block request belongs there.
    if (QueueWord::pass(word.load(std::memory_order_relaxed)) > pass) return pass_of(opening) == pass;
    if (!has_kernel(pass) || !has_entries(pass) || !has_place(pass, posted_)) return false;
    if (!is_free(pass, request.place)) return false;
    last_of_[request.place] = {pass, posted_};
    write_entry(posted_ % kPlaces, request);
    raise_word(QueueWord::of(pass, ++posted_));
    return true;
}

// The kernel of the pass before may still read its own. What it had is answered then or will not be: whoever
// posts looks at the block request again.
bool RequestQueue::has_entries(std::uint64_t pass) {
    const BesideCapture beside;
    const std::lock_guard lock(mutex_);
    if (pass == first_pass_ || pass == has_entries_) return true;
    if (pass != pass_ || cudaEventQuery(before_.get()) != cudaSuccess) return false;
    has_entries_ = pass;
    return false;
}

// Where nothing waits for the tokens, no thread sits in CUDA until they are there, and this one can launch.
bool RequestQueue::has_kernel(std::uint64_t pass) {
    const BesideCapture beside;
    const std::lock_guard lock(mutex_);
    if (is_closed_ || pass_ > pass) return false;
    if (enqueued_ == pass_) return true;
    // For good: the thread has no other device, and to go back to the first one would make a context there.
    (void)cudaSetDevice(device_);
    return enqueue(stream_.get(), {}).has_value();
}

// What the place had before is read, and nothing of it will be again.
bool RequestQueue::has_place(std::uint64_t pass, std::uint32_t entry) const {
    if (entry < kPlaces) return true;
    const std::atomic_ref taken(taken_[entry % kPlaces]);
    return taken.load(std::memory_order_acquire) == QueueWord::of(pass, entry - kPlaces + 1);
}

// Entries are laid in any order, and what is asked for of a window's row stands where that of the row before
// it did: only once nothing is laid there any more.
bool RequestQueue::is_free(std::uint64_t pass, std::uint32_t slice_place) {
    if (slice_place >= last_of_.size()) last_of_.resize(std::size_t{slice_place} + 1);
    const Posted& last = last_of_[slice_place];
    if (last.pass != pass) return true;
    const std::uint64_t word = std::atomic_ref(taken_[last.entry % kPlaces]).load(std::memory_order_acquire);
    return QueueWord::pass(word) == pass && QueueWord::posted(word) > last.entry;
}

void RequestQueue::write_entry(std::uint32_t place, const QueuedRequest& request) {
    QueueEntry& entry = entries_[place];
    entry.answered = request.answered;
    entry.word = request.word;
    entry.column = request.column;
    entry.place = request.place;
    std::size_t count = 0;
    for (const std::uint64_t bits : request.blocks) count += static_cast<std::size_t>(std::popcount(bits));
    if (count > QueueEntry::kListed) {
        entry.count = QueueEntry::kInBitmap;
        std::uint64_t* const to = bitmaps_.get() + std::size_t{place} * bitmap_words_;
        std::fill_n(std::copy(request.blocks.begin(), request.blocks.end(), to),
                    bitmap_words_ - request.blocks.size(), 0);
        return;
    }
    entry.count = static_cast<std::uint32_t>(count);
    std::uint16_t* listed = entry.list;
    for (std::size_t word = 0; word < request.blocks.size(); ++word) {
        for (std::uint64_t bits = request.blocks[word]; bits != 0; bits &= bits - 1) {
            *listed++ =
                static_cast<std::uint16_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
        }
    }
}

}  // namespace croupier::gpu_writer
