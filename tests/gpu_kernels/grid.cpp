#include "tests/gpu_kernels/grid.h"

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstring>
#include <exception>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu_kernels/emulated/cuda_runtime_api.h"

namespace croupier::testing::gpu {
namespace {

namespace context = boost::context;

// A kernel's arguments are on each thread's stack, as much as 20 KB of them.
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

struct Thread {
    context::fiber own;
    context::fiber scheduler;
    std::uint32_t calls = 0;  // to all_lanes()
    bool over = false;
};

struct Warp {
    // Of two calls in turn: no lane begins the next but one before all have read what was brought to this.
    Brought brought[2];
    const char* call[2] = {};
    std::uint32_t arrived[2] = {};
};

class Block {
  public:
    Block(std::uint32_t threads, const std::function<void()>& kernel, std::mt19937& lots,
          context::pooled_fixedsize_stack& stacks)
        : threads_(threads), warps_(threads / kWarpLanes), ready_(threads), lots_(lots) {
        std::iota(ready_.begin(), ready_.end(), 0U);
        for (Thread& thread : threads_) {
            thread.own = context::fiber(std::allocator_arg, stacks, [&, this](context::fiber&& scheduler) {
                thread.scheduler = std::move(scheduler);
                try {
                    kernel();
                } catch (const context::detail::forced_unwind&) {
                    // The block is given up.
                    throw;
                } catch (...) {
                    fault_ = std::current_exception();
                }
                thread.over = true;
                return std::move(thread.scheduler);
            });
        }
    }

    void run() {
        std::size_t left = threads_.size();
        while (left > 0) {
            if (ready_.empty()) release(left);
            const std::size_t lot = lots_() % ready_.size();
            current_ = std::exchange(ready_[lot], ready_.back());
            ready_.pop_back();
            ::threadIdx.x = current_;
            Thread& thread = threads_[current_];
            thread.own = std::move(thread.own).resume();
            if (thread.over) --left;
        }
        if (fault_) std::rethrow_exception(fault_);
    }

    // Whether one of the threads brought true.
    bool await_all(bool own) {
        brought_true_ = brought_true_ || own;
        waiting_.push_back(current_);
        yield();
        return one_was_true_;
    }

    const Brought& bring(const char* call, std::uint64_t own) {
        Thread& thread = threads_[current_];
        Warp& warp = warps_[current_ / kWarpLanes];
        const std::uint32_t turn = thread.calls++ % 2;
        if (warp.arrived[turn] == 0) warp.call[turn] = call;
        if (std::strcmp(warp.call[turn], call) != 0) {
            throw std::logic_error("lanes of a warp are in " + std::string(warp.call[turn]) + " and in " +
                                   call);
        }
        warp.brought[turn][current_ % kWarpLanes] = own;
        if (++warp.arrived[turn] < kWarpLanes) {
            yield();
            return warp.brought[turn];
        }
        warp.arrived[turn] = 0;
        const std::uint32_t first = current_ / kWarpLanes * kWarpLanes;
        for (std::uint32_t lane = first; lane < first + kWarpLanes; ++lane) {
            if (lane != current_) ready_.push_back(lane);
        }
        return warp.brought[turn];
    }

  private:
    void release(std::size_t left) {
        if (fault_) std::rethrow_exception(fault_);
        if (waiting_.size() != left) {
            throw std::logic_error(std::to_string(waiting_.size()) + " of " + std::to_string(left) +
                                   " threads are at the block's barrier, and the others wait for lanes");
        }
        ready_.swap(waiting_);
        one_was_true_ = std::exchange(brought_true_, false);
    }
    void yield() {
        Thread& thread = threads_[current_];
        const std::uint32_t own = current_;
        thread.scheduler = std::move(thread.scheduler).resume();
        current_ = own;
    }

    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<std::uint32_t> ready_;
    std::vector<std::uint32_t> waiting_;
    bool brought_true_ = false;
    bool one_was_true_ = false;
    std::mt19937& lots_;
    std::uint32_t current_ = 0;
    std::exception_ptr fault_;
};

Block* g_block = nullptr;
alignas(128) std::array<std::byte, kSharedBytes> g_shared;

}  // namespace

void run_grid(std::uint32_t columns, std::uint32_t rows, std::uint32_t threads,
              const std::function<void()>& kernel) {
    // One order for each launch of a test, and another for the next.
    static std::mt19937 lots(1);
    context::pooled_fixedsize_stack stacks(kStackBytes, threads);
    ::gridDim = {columns, rows, 1};
    std::vector<std::uint32_t> order(std::size_t{columns} * rows);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), lots);
    for (const std::uint32_t place : order) {
        ::blockIdx = {place % columns, place / columns, 1};
        std::memset(g_shared.data(), 0xCD, g_shared.size());
        Block block(threads, kernel, lots, stacks);
        g_block = &block;
        block.run();
    }
    g_block = nullptr;
}

const Brought& all_lanes(const char* call, std::uint64_t own) {
    return g_block->bring(call, own);
}

bool await_block(bool own) {
    return g_block->await_all(own);
}

void* shared_memory() {
    return g_shared.data();
}

}  // namespace croupier::testing::gpu
