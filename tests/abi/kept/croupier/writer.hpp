// The writer in C++: a thin, header-only cover over the C ABI of croupier/writer.h. client.hpp says what the
// inline namespace is for. A writer on the host has the stream nullptr; nullptr on a GPU is CUDA's default
// stream.
#pragma once

#if __cplusplus < 201703L
#error "croupier/writer.hpp needs C++17: compile with -std=c++17 (in CMake, croupier::writer does)"
#endif

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "croupier/writer.h"

namespace croupier::writer {
inline namespace abi_1_0 {
static_assert(CROUPIER_ABI_VERSION == 0x10000, "the namespace has its major and minor number");

class Failure : public std::runtime_error {
  public:
    explicit Failure(const croupier_error& error) : std::runtime_error(error.text), code_(error.code) {}
    std::uint32_t code() const { return code_; }
    std::string name() const { return croupier_writer_error_name(code_); }

  private:
    std::uint32_t code_;
};

struct Options : croupier_writer_options {
    Options() : croupier_writer_options() { croupier_writer_options_init(this); }
};

// A step in flight that wants this rank's slice.
struct WantedStep {
    std::uint64_t step = 0;
    std::uint32_t rows = 0;
};

class Writer {
  public:
    explicit Writer(const croupier_writer_options& options) {
        croupier_error error{};
        croupier_writer* attached = nullptr;
        if (croupier_writer_attach(&options, &attached, &error) != 0) throw Failure(error);
        writer_.reset(attached);
    }

    croupier_writer_info info() const {
        croupier_error error{};
        croupier_writer_info info;
        croupier_writer_info_init(&info);
        if (croupier_writer_get_info(writer_.get(), &info, &error) != 0) throw Failure(error);
        return info;
    }
    croupier_writer_state state() const {
        croupier_error error{};
        croupier_writer_state state;
        croupier_writer_state_init(&state);
        if (croupier_writer_get_state(writer_.get(), &state, &error) != 0) throw Failure(error);
        return state;
    }

    [[nodiscard]] std::optional<WantedStep> wait_step(std::uint32_t timeout_ms) {
        croupier_error error{};
        WantedStep wanted;
        const int got =
            croupier_writer_wait_step(writer_.get(), timeout_ms, &wanted.step, &wanted.rows, &error);
        if (got < 0) throw Failure(error);
        return got == 0 ? std::nullopt : std::optional(wanted);
    }

    // False: busy, as croupier_writer_begin() says.
    [[nodiscard]] bool begin(std::uint64_t step) {
        croupier_error error{};
        const int status = croupier_writer_begin(writer_.get(), step, &error);
        if (status < 0) throw Failure(error);
        return status != CROUPIER_WRITER_BUSY;
    }

    void enqueue(const void* logits, std::uint64_t row_stride, void* stream) {
        croupier_error error{};
        if (croupier_writer_enqueue(writer_.get(), stream, logits, row_stride, &error) != 0)
            throw Failure(error);
    }

    void enqueue_head(const croupier_head& head, const croupier_rows& rows, void* stream) {
        croupier_error error{};
        if (croupier_writer_enqueue_head(writer_.get(), stream, &head, &rows, &error) != 0)
            throw Failure(error);
    }

    void enqueue_rows(const croupier_rows& rows, void* stream) {
        croupier_error error{};
        if (croupier_writer_enqueue_rows(writer_.get(), stream, &rows, &error) != 0) throw Failure(error);
    }

    void enqueue_randoms(void* stream) {
        croupier_error error{};
        if (croupier_writer_enqueue_randoms(writer_.get(), stream, &error) != 0) throw Failure(error);
    }

    [[nodiscard]] bool wait_tokens(std::uint64_t step, std::uint32_t timeout_ms) {
        croupier_error error{};
        const int there = croupier_writer_wait_tokens(writer_.get(), step, timeout_ms, &error);
        if (there < 0) throw Failure(error);
        return there == 1;
    }

    void enqueue_tokens(std::uint64_t step, std::int32_t* tokens, void* stream) {
        croupier_error error{};
        if (croupier_writer_enqueue_tokens(writer_.get(), stream, step, tokens, &error) != 0)
            throw Failure(error);
    }

    void enqueue_awaited_tokens(std::uint64_t step, std::uint32_t timeout_ms, std::int32_t* tokens,
                                void* stream) {
        croupier_error error{};
        if (croupier_writer_enqueue_awaited_tokens(writer_.get(), stream, step, timeout_ms, tokens, &error) !=
            0)
            throw Failure(error);
    }

    void abandon() {
        croupier_error error{};
        if (croupier_writer_abandon(writer_.get(), &error) != 0) throw Failure(error);
    }

  private:
    struct Detach {
        void operator()(croupier_writer* writer) const { croupier_writer_detach(writer); }
    };
    std::unique_ptr<croupier_writer, Detach> writer_;
};

}  // namespace abi_1_0
}  // namespace croupier::writer
