// What docs/examples/llama_sampler.h and bench/llama/decide_ahead.h use of llama.cpp's header, to compile
// without it. With -DCROUPIER_LLAMA=PATH, of llama.cpp's source, the test takes its headers instead.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LLAMA_API
#define LLAMA_TOKEN_NULL (-1)
#define LLAMA_DEFAULT_SEED 0xFFFFFFFF

extern "C" {

typedef int32_t llama_token;
typedef void* llama_sampler_context_t;

struct llama_token_data {
    llama_token id;
    float logit;
    float p;
};

struct llama_token_data_array {
    llama_token_data* data;
    size_t size;
    int64_t selected;
    bool sorted;
};

struct llama_sampler;

struct llama_sampler_i {
    const char* (*name)(const llama_sampler* self);
    void (*accept)(llama_sampler* self, llama_token token);
    void (*apply)(llama_sampler* self, llama_token_data_array* candidates);
    void (*reset)(llama_sampler* self);
    llama_sampler* (*clone)(const llama_sampler* self);
    void (*free)(llama_sampler* self);
};

struct llama_sampler {
    llama_sampler_i* iface;
    llama_sampler_context_t ctx;
};

LLAMA_API llama_sampler* llama_sampler_init(llama_sampler_i* functions, llama_sampler_context_t context);
LLAMA_API void llama_sampler_apply(llama_sampler* self, llama_token_data_array* candidates);
}
