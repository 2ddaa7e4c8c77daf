// The client in C++: a thin, header-only cover over the C ABI of include/croupier/client.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "croupier/client.h"

namespace croupier::client {

class Failure : public std::runtime_error {
  public:
    explicit Failure(const croupier_error& error) : std::runtime_error(error.text), code_(error.code) {}
    std::uint32_t code() const { return code_; }
    std::string name() const { return croupier_error_name(code_); }

  private:
    std::uint32_t code_;
};

struct OpenOptions : croupier_open_options {
    OpenOptions() : croupier_open_options() { croupier_open_options_init(this); }
};

struct Params : croupier_params {
    Params() : croupier_params() { croupier_params_init(this); }
};

struct Sequence {
    std::uint64_t uid = 0;
    Params params;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<croupier_bias> bias;
    std::vector<std::int32_t> stop_ids;
    std::vector<std::int32_t> allowed_ids;
    std::vector<std::int32_t> bad_words;     // each list's length, then its ids
    std::vector<std::int32_t> dry_breakers;  // likewise
};

struct Step {
    std::uint64_t step = 0;
    std::uint16_t refused = 0;
    std::span<const croupier_decision> decisions;  // valid until the next call on the session
};

class Session {
  public:
    explicit Session(const croupier_open_options& options) {
        croupier_error error{};
        croupier_session* opened = nullptr;
        if (croupier_open(&options, &opened, &error) != 0) throw Failure(error);
        session_.reset(opened);
    }

    std::string segment_path() const { return croupier_segment_path(session_.get()); }
    bool resumed() const { return croupier_resumed(session_.get()) != 0; }

    void add(const Sequence& sequence) {
        const croupier_sequence plain{sequence.uid,
                                      sequence.params,
                                      sequence.prompt.data(),
                                      sequence.prompt.size(),
                                      sequence.output.data(),
                                      sequence.output.size(),
                                      sequence.bias.data(),
                                      sequence.bias.size(),
                                      sequence.stop_ids.data(),
                                      sequence.stop_ids.size(),
                                      sequence.allowed_ids.data(),
                                      sequence.allowed_ids.size(),
                                      sequence.bad_words.data(),
                                      sequence.bad_words.size(),
                                      sequence.dry_breakers.data(),
                                      sequence.dry_breakers.size()};
        croupier_error error{};
        if (croupier_add(session_.get(), &plain, &error) != 0) throw Failure(error);
    }

    void finish(std::uint64_t uid) {
        croupier_error error{};
        if (croupier_finish(session_.get(), uid, &error) != 0) throw Failure(error);
    }

    std::vector<std::uint64_t> live() const {
        std::vector<std::uint64_t> uids(croupier_list(session_.get(), nullptr, 0));
        uids.resize(croupier_list(session_.get(), uids.data(), uids.size()));
        return uids;
    }

    std::vector<std::int32_t> output(std::uint64_t uid) const {
        const std::int64_t length = croupier_output(session_.get(), uid, nullptr, 0);
        std::vector<std::int32_t> tokens(length > 0 ? static_cast<std::size_t>(length) : 0);
        croupier_output(session_.get(), uid, tokens.data(), tokens.size());
        return tokens;
    }

    std::uint64_t submit(std::span<const croupier_column> columns) {
        croupier_error error{};
        std::uint64_t step = 0;
        if (croupier_submit(session_.get(), columns.data(), columns.size(), &step, &error) != 0) {
            throw Failure(error);
        }
        return step;
    }

    void give_up(std::uint64_t step) {
        croupier_error error{};
        if (croupier_give_up(session_.get(), step, &error) != 0) throw Failure(error);
    }

    std::uint32_t in_flight() const { return croupier_in_flight(session_.get()); }

    std::optional<Step> wait(std::uint32_t timeout_ms) {
        croupier_error error{};
        croupier_step step{};
        const int got = croupier_wait(session_.get(), timeout_ms, &step, &error);
        if (got < 0) throw Failure(error);
        if (got == 0) return std::nullopt;
        return Step{step.step, step.refused, {step.decisions, step.count}};
    }

    void close() {
        croupier_error error{};
        if (croupier_close(session_.release(), &error) != 0) throw Failure(error);
    }

  private:
    struct Detach {
        void operator()(croupier_session* session) const { croupier_detach(session); }
    };
    std::unique_ptr<croupier_session, Detach> session_;
};

}  // namespace croupier::client
