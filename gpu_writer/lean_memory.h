// What a lean writer says where the GPU has too little memory for it.
#pragma once

#include "shm/error.h"

namespace croupier::gpu_writer {

// `why` says what could not be allocated, and how many bytes.
inline shm::Error with_memory_advice(const shm::Error& why, bool copies_rows) {
    if (why.code != shm::Errc::no_memory) return why;
    // Lent lean rows need less GPU memory than the stages of whole rows, which only the path `store` has not.
    const char* const advice =
        copies_rows ? "; lend the rows instead (`rows` of croupier_writer_options): then they must stay "
                      "unchanged until their step is decided, and are not copied"
                    : "; leave more GPU memory free, or open the session with the transport rows and attach "
                      "with the path `store`, which stages no rows in GPU memory";
    return {why.code, why.message + advice};
}

}  // namespace croupier::gpu_writer
