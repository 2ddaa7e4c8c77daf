// The same product by cuBLAS, which is looked for when the program runs.
#pragma once

#include <memory>

#include "gpu_writer/head_product.h"

namespace croupier::gpu_writer::head {

class CublasProduct {
  public:
    static constexpr int kMostWays = 8;

    // Throws std::runtime_error if there is no cuBLASLt.
    CublasProduct();
    ~CublasProduct();

    // Looks for ways to compute the call's logits. Returns how many cuBLAS proposes, its first choice first.
    int prepare(const HeadProduct& call);
    // In one of the ways.
    bool launch(const HeadProduct& call, int way, cudaStream_t stream);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace croupier::gpu_writer::head
