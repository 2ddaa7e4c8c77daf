#include <cuda_bf16.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "sim/lm_head.h"

namespace croupier::sim {
namespace {

constexpr int kThreads = 256;
constexpr std::uint32_t kNoNumber = UINT32_MAX;
constexpr std::uint16_t kOne = 0x3F80;
constexpr std::uint16_t kNan = 0x7FC0;

void need_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string("simulated model: ") + what + ": " + cudaGetErrorString(status));
}

template <typename T>
OnGpu<T> on_gpu(std::size_t count, const char* what) {
    void* memory = nullptr;
    need_cuda(cudaMalloc(&memory, count * sizeof(T)), what);
    return OnGpu<T>(static_cast<T*>(memory));
}

template <typename T>
OnGpu<T> copied(const std::vector<T>& values, const char* what) {
    OnGpu<T> memory = on_gpu<T>(values.size(), what);
    need_cuda(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              what);
    return memory;
}

std::uint32_t blocks_of(std::uint32_t count) {
    return (count + kThreads - 1) / kThreads;
}

// One id per block. `numbers`: the index of the raised token that the id is.
__global__ void fill_weights(ModelShape shape, const std::uint16_t* pool, std::uint32_t first_id,
                             const std::uint32_t* numbers, std::uint16_t* weights) {
    const std::uint32_t id = first_id + blockIdx.x;
    const std::uint32_t number = numbers[blockIdx.x];
    std::uint16_t* row = weights + std::uint64_t{blockIdx.x} * kHiddenSize;
    for (std::uint32_t feature = threadIdx.x; feature < kHiddenSize; feature += kThreads) {
        std::uint16_t weight = 0;
        if (feature < shape.raised_feature(0)) {
            const std::uint32_t chunk = feature / shape.rows;
            if (chunk == id / shape.chunk) {
                weight = pool[std::uint64_t{feature % shape.rows} * shape.vocab + id];
            }
        } else if (number != kNoNumber && feature == shape.raised_feature(number)) {
            weight = kOne;
        }
        row[feature] = weight;
    }
}

// One column per block.
__global__ void make_hidden(ModelShape shape, const ColumnInput* inputs, const RequestTraits* traits,
                            const std::int32_t* last_token, std::uint64_t* keys, std::uint16_t* hidden) {
    const ColumnInput input = inputs[blockIdx.x];
    std::uint16_t* state = hidden + std::uint64_t{blockIdx.x} * kHiddenSize;
    for (std::uint32_t feature = threadIdx.x; feature < kHiddenSize; feature += kThreads) state[feature] = 0;
    __syncthreads();
    const std::int32_t previous = input.previous == kInGpuMemory ? last_token[input.request] : input.previous;
    const std::uint64_t key = shape.row_key(input.request, input.position, previous);
    for (std::uint32_t chunk = threadIdx.x; chunk < shape.chunks(); chunk += kThreads) {
        state[shape.chunk_feature(chunk, shape.row_of_chunk(key, chunk))] = kOne;
    }
    if (threadIdx.x != 0) return;
    keys[blockIdx.x] = key;
    if (shape.raised == 0) return;
    raise_tokens(shape, traits[input.request].themes, key, [&](std::uint32_t number, std::int32_t eighths) {
        state[shape.raised_feature(number)] =
            __bfloat16_as_ushort(__float2bfloat16(static_cast<float>(eighths) / 8.0F));
    });
}

__global__ void poison(ModelShape shape, const ColumnInput* inputs, const RequestTraits* traits,
                       const std::uint64_t* keys, std::uint32_t columns, proto::RankShard shard,
                       std::uint16_t* logits, std::uint64_t row_stride) {
    const std::uint32_t column = blockIdx.x * kThreads + threadIdx.x;
    if (column >= columns) return;
    if (inputs[column].position != traits[inputs[column].request].poisoned_at) return;
    const std::uint32_t own = shape.poisoned_id(keys[column]) - shard.first_id;
    if (own < shard.count) logits[column * row_stride + own] = kNan;
}

// The model's other layers, as time.
__global__ void pass_stage(std::uint64_t ns) {
    std::uint64_t begun = 0;
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
    do {
        __nanosleep(1000);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begun < ns);
}

__global__ void note_tokens(const ColumnInput* inputs, const std::int32_t* tokens, std::uint32_t columns,
                            std::int32_t* last_token) {
    const std::uint32_t column = blockIdx.x * kThreads + threadIdx.x;
    if (column < columns) last_token[inputs[column].request] = tokens[column];
}

}  // namespace

LmHead::LmHead(const World& world, std::uint32_t rank, int device)
    : shape_(world.rows.shape()),
      shard_(world.vocabulary.geometry.shards[rank]),
      batch_(world.vocabulary.geometry.max_batch),
      stage_ns_(static_cast<std::uint64_t>(world.options.stage_ms * 1e6)),
      row_stride_((std::uint64_t{shard_.count} + 7) / 8 * 8),
      cublas_(device),
      steps_(world.vocabulary.geometry.slots) {
    if (shape_.features() > kHiddenSize) {
        throw std::runtime_error("an LM head of " + std::to_string(kHiddenSize) + " features cannot make " +
                                 std::to_string(shape_.features()) + ": give --logits fewer rows");
    }
    need_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot create a stream");
    for (Step& step : steps_) {
        need_cuda(cudaEventCreate(&step.logits_there), "cannot create an event");
        need_cuda(cudaEventCreate(&step.tokens_there), "cannot create an event");
        need_cuda(cudaEventCreate(&step.kept), "cannot create an event");
    }
    const std::size_t inputs = steps_.size() * batch_;
    void* pinned = nullptr;
    need_cuda(cudaMallocHost(&pinned, inputs * sizeof(ColumnInput)), "no pinned memory");
    pinned_inputs_ = static_cast<ColumnInput*>(pinned);
    const std::size_t numbers = inputs * ColumnArrays().size();
    need_cuda(cudaMallocHost(&pinned, numbers * sizeof(std::int32_t)), "no pinned memory");
    pinned_told_ = static_cast<std::int32_t*>(pinned);
    told_ = on_gpu<std::int32_t>(numbers, "no memory for what columns are told of");
    inputs_ = on_gpu<ColumnInput>(inputs, "no memory for inputs");
    tokens_ = on_gpu<std::int32_t>(inputs, "no memory for tokens");
    keys_ = on_gpu<std::uint64_t>(batch_, "no memory for keys");
    hidden_ = on_gpu<std::uint16_t>(std::size_t{batch_} * kHiddenSize, "no memory for hidden states");
    // One buffer per slot: a lean step's rows must stay until it is decided.
    logits_ = on_gpu<std::uint16_t>(inputs * row_stride_, "no memory for logits");
    load_requests(world);
    load_weights(world, rank);
    // Loads the kernel now. CUDA would otherwise load it at first use and wait for the GPU, which by then
    // waits for tokens.
    cudaFuncAttributes attributes;
    need_cuda(cudaFuncGetAttributes(&attributes, note_tokens), "cannot load a kernel");
    need_cuda(cudaDeviceSynchronize(), "cannot compute the weights");
}

LmHead::~LmHead() {
    (void)cudaStreamSynchronize(stream_);
    for (const Step& step : steps_) {
        (void)cudaEventDestroy(step.logits_there);
        (void)cudaEventDestroy(step.tokens_there);
        (void)cudaEventDestroy(step.kept);
    }
    (void)cudaFreeHost(pinned_inputs_);
    (void)cudaFreeHost(pinned_told_);
    (void)cudaStreamDestroy(stream_);
}

void LmHead::load_requests(const World& world) {
    std::vector<RequestTraits> traits;
    for (std::uint32_t request = 0; request < world.plan.size(); ++request) {
        traits.push_back({world.plan[request].theme_numbers, world.plan[request].poisoned_at});
    }
    traits_ = copied(traits, "no memory for requests");
    last_token_ = on_gpu<std::int32_t>(traits.size(), "no memory for last tokens");
}

void LmHead::load_weights(const World& world, std::uint32_t rank) {
    const proto::RankShard& shard = world.vocabulary.geometry.shards[rank];
    std::vector<std::uint32_t> numbers(shard.count, kNoNumber);
    for (std::uint32_t number = 0; shape_.raised > 0 && number <= shape_.raised; ++number) {
        const std::uint32_t own = world.rows.raised_id(number) - shard.first_id;
        if (own < shard.count) numbers[own] = number;
    }
    const auto numbers_there = copied(numbers, "no memory for raised tokens");
    const std::size_t pool_entries = std::size_t{shape_.rows} * shape_.vocab;
    const auto pool = on_gpu<std::uint16_t>(pool_entries, "no memory for base rows");
    need_cuda(cudaMemcpy(pool.get(), world.rows.base(0, 0), pool_entries * sizeof(std::uint16_t),
                         cudaMemcpyHostToDevice),
              "cannot copy base rows");
    weights_ = on_gpu<std::uint16_t>(std::size_t{shard.count} * kHiddenSize, "no memory for the LM head");
    fill_weights<<<shard.count, kThreads, 0, stream_>>>(shape_, pool.get(), shard.first_id,
                                                        numbers_there.get(), weights_.get());
    need_cuda(cudaStreamSynchronize(stream_), "cannot compute the LM head");
}

std::uint16_t* LmHead::logits(std::uint32_t slot) const {
    return logits_.get() + std::size_t{slot} * batch_ * row_stride_;
}

std::int32_t* LmHead::tokens(std::uint32_t slot) const {
    return tokens_.get() + std::size_t{slot} * batch_;
}

void LmHead::forward(std::uint32_t slot, const std::vector<ColumnInput>& columns) {
    Step& step = steps_[slot];
    step.columns = static_cast<std::uint32_t>(columns.size());
    ColumnInput* pinned = pinned_inputs_ + std::size_t{slot} * batch_;
    ColumnInput* inputs = inputs_.get() + std::size_t{slot} * batch_;
    std::copy(columns.begin(), columns.end(), pinned);
    need_cuda(cudaMemcpyAsync(inputs, pinned, columns.size() * sizeof(ColumnInput), cudaMemcpyHostToDevice,
                              stream_),
              "cannot copy a step's inputs");
    if (stage_ns_ != 0) pass_stage<<<1, 1, 0, stream_>>>(stage_ns_);
    make_hidden<<<step.columns, kThreads, 0, stream_>>>(shape_, inputs, traits_.get(), last_token_.get(),
                                                        keys_.get(), hidden_.get());
    cublas_.multiply({shard_.count, step.columns, kHiddenSize}, weights_.get(), hidden_.get(), logits(slot),
                     row_stride_, stream_);
    poison<<<blocks_of(step.columns), kThreads, 0, stream_>>>(
        shape_, inputs, traits_.get(), keys_.get(), step.columns, shard_, logits(slot), row_stride_);
    need_cuda(cudaGetLastError(), "cannot launch a step");
    need_cuda(cudaEventRecord(step.logits_there, stream_), "cannot time a step");
}

void LmHead::tell(std::uint32_t slot, const ColumnArrays& columns) {
    const std::size_t first = std::size_t{slot} * columns.size() * batch_;
    for (std::size_t which = 0; which < columns.size(); ++which)
        std::copy(columns[which].begin(), columns[which].end(), pinned_told_ + first + which * batch_);
    need_cuda(
        cudaMemcpyAsync(told_.get() + first, pinned_told_ + first,
                        columns.size() * batch_ * sizeof(std::int32_t), cudaMemcpyHostToDevice, stream_),
        "cannot copy what a step's columns are told of");
}

const std::int32_t* LmHead::told(std::uint32_t slot, ColumnArray which) const {
    const std::size_t array = std::size_t{slot} * ColumnArrays().size() + static_cast<std::size_t>(which);
    return told_.get() + array * batch_;
}

void LmHead::spoil(std::uint32_t slot) {
    // NaN, which every decision rejects.
    constexpr int kSpoilt = 0xFF;
    const std::size_t bytes = steps_[slot].columns * row_stride_ * sizeof(std::uint16_t);
    need_cuda(cudaMemsetAsync(logits(slot), kSpoilt, bytes, stream_), "cannot overwrite a step's logits");
}

void LmHead::keep_tokens(std::uint32_t slot) {
    Step& step = steps_[slot];
    need_cuda(cudaEventRecord(step.tokens_there, stream_), "cannot time a step");
    note_tokens<<<blocks_of(step.columns), kThreads, 0, stream_>>>(
        inputs_.get() + std::size_t{slot} * batch_, tokens(slot), step.columns, last_token_.get());
    need_cuda(cudaGetLastError(), "cannot keep a step's tokens");
    need_cuda(cudaEventRecord(step.kept, stream_), "cannot time a step");
}

bool LmHead::are_kept(std::uint32_t slot) const {
    const cudaError_t status = cudaEventQuery(steps_[slot].kept);
    if (status != cudaErrorNotReady) need_cuda(status, "a step failed");
    return status == cudaSuccess;
}

std::vector<std::int32_t> LmHead::kept_tokens(std::uint32_t slot) const {
    std::vector<std::int32_t> kept(steps_[slot].columns);
    need_cuda(cudaMemcpy(kept.data(), tokens(slot), kept.size() * sizeof(kept[0]), cudaMemcpyDeviceToHost),
              "cannot copy a step's tokens");
    return kept;
}

std::uint64_t LmHead::latency_ns(std::uint32_t slot) const {
    const Step& step = steps_[slot];
    need_cuda(cudaEventSynchronize(step.tokens_there), "a step failed");
    float milliseconds = 0;
    need_cuda(cudaEventElapsedTime(&milliseconds, step.logits_there, step.tokens_there),
              "cannot time a step");
    return static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
}

}  // namespace croupier::sim
