// The tokens of a batch's slots, decided on all cores before the server takes them one by one.
#pragma once

#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "llama_sampler.h"

namespace croupier_llama {

struct Row {
    Sampler* sampler;  // null: its token was taken
    const float* logits;
    llama_token token = LLAMA_TOKEN_NULL;
    std::exception_ptr failure = nullptr;

    void decide() noexcept {
        try {
            token = sampler->decide(logits);
        } catch (...) {
            failure = std::current_exception();
        }
    }
};

class Pool {
  public:
    // The caller of decide() is one of the threads.
    explicit Pool(unsigned threads) {
        for (unsigned i = 1; i < threads; ++i) threads_.emplace_back([this] { run(); });
    }
    ~Pool() {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        work_.notify_all();
        for (std::thread& each : threads_) each.join();
    }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    void decide(std::vector<Row>& rows) {
        if (rows.empty()) return;
        std::unique_lock lock(mutex_);
        rows_ = rows.data();
        end_ = undecided_ = rows.size();
        next_ = 0;
        if (rows.size() > 1) work_.notify_all();
        decide_rows(lock);
        done_.wait(lock, [this] { return undecided_ == 0; });
    }

  private:
    void run() {
        std::unique_lock lock(mutex_);
        while (!ends_) {
            decide_rows(lock);
            work_.wait(lock, [this] { return ends_ || next_ < end_; });
        }
    }

    void decide_rows(std::unique_lock<std::mutex>& lock) {
        while (next_ < end_) {
            Row& row = rows_[next_++];
            lock.unlock();
            row.decide();
            lock.lock();
            if (--undecided_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable done_;
    Row* rows_ = nullptr;
    std::size_t next_ = 0;
    std::size_t end_ = 0;
    std::size_t undecided_ = 0;
    bool ends_ = false;
    std::vector<std::thread> threads_;
};

// Of the server's thread: the batch's rows.
inline std::vector<Row>& rows_ahead() {
    static thread_local std::vector<Row> rows;
    return rows;
}

// CROUPIER_SLOT_THREADS, or as many as there are cores.
inline void decide_ahead() {
    static const char* const asked = std::getenv("CROUPIER_SLOT_THREADS");
    static Pool pool(asked != nullptr ? static_cast<unsigned>(std::atoi(asked))
                                      : std::thread::hardware_concurrency());
    pool.decide(rows_ahead());
}

// The token of a row: as it was decided ahead, or decided now.
inline llama_token token_of(Sampler& sampler, const float* logits) {
    for (Row& row : rows_ahead()) {
        if (row.sampler != &sampler || row.logits != logits) continue;
        row.sampler = nullptr;
        if (row.failure) std::rethrow_exception(std::exchange(row.failure, nullptr));
        return row.token;
    }
    return sampler.decide(logits);
}

// As the server asks its grammar whether it takes the token that was drawn.
inline bool allows(llama_sampler* grammar, llama_token token) {
    llama_token_data candidate = {token, 1.0F, 0.0F};
    llama_token_data_array candidates = {&candidate, 1, -1, false};
    llama_sampler_apply(grammar, &candidates);
    return candidate.logit != -INFINITY;
}

}  // namespace croupier_llama
