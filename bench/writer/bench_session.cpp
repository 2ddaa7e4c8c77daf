#include "bench/writer/bench_session.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "shm/logits_publisher.h"

namespace croupier::bench::writer {
namespace {

using Clock = std::chrono::steady_clock;
using proto::ReadyWord;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <typename T>
T need(shm::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

proto::Geometry geometry_of(const Case& of) {
    proto::Geometry geometry;
    geometry.vocab = of.vocab;
    geometry.max_batch = of.columns;
    geometry.slots = 4;
    geometry.tile = 64;
    geometry.max_sequences = of.columns;
    geometry.max_length = 64;
    geometry.has_order = of.ordered ? 1 : 0;
    geometry.has_summaries = of.summaries ? 1 : 0;
    proto::fill_even_shards(geometry);
    return geometry;
}

void shuffle_order(const shm::Segment& segment) {
    const auto order = segment.order(0);
    std::iota(order.begin(), order.end(), 0U);
    std::mt19937 random(1);
    std::shuffle(order.begin(), order.end(), random);
}

void need_writer(int status, const croupier_error& error) {
    if (status < 0) throw std::runtime_error(error.text);
}

}  // namespace

ShmDirectory::ShmDirectory() {
    char name[] = "/dev/shm/croupier-bench-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("cannot create a directory in /dev/shm");
    path_ = name;
}

ShmDirectory::~ShmDirectory() {
    std::filesystem::remove_all(path_);
}

BenchSession::BenchSession(const Case& of) : case_(of) {
    const proto::Geometry geometry = geometry_of(of);
    segment_ = std::make_unique<shm::Segment>(
        need(shm::Segment::create({directory_.path(), "bench", 1, "bench", geometry, {}, {}})));
    shuffle_order(*segment_);
    client_ = std::make_unique<shm::SchedulePublisher>(need(shm::SchedulePublisher::attach(*segment_)));
    logits_ = std::make_unique<GpuBuffer>(std::size_t{of.vocab} * of.columns * 2);
    croupier_writer_options options;
    croupier_writer_options_init(&options);
    options.segment_path = segment_->path().c_str();
    options.device = 0;
    options.path = of.path;
    options.store_blocks = of.store_blocks;
    croupier_error error{};
    need_writer(croupier_writer_attach(&options, &writer_, &error), error);
}

BenchSession::~BenchSession() {
    croupier_writer_detach(writer_);
}

std::size_t BenchSession::slice_bytes() const {
    return std::size_t{segment_->geometry().tiles(0)} * case_.columns * segment_->geometry().tile * 2;
}

bool BenchSession::start_step() {
    if (client_->next_to_publish() - client_->next_to_take() == segment_->geometry().slots) return false;
    const std::uint64_t step = need(client_->publish(std::vector<proto::ScheduleColumn>(case_.columns)));
    croupier_error error{};
    const int begun = croupier_writer_begin(writer_, step, &error);
    need_writer(begun, error);
    if (begun == CROUPIER_WRITER_BUSY) throw std::runtime_error("begin returned BUSY for a step in flight");
    need_writer(croupier_writer_enqueue(writer_, stream_.get(), logits_->get(), case_.vocab, &error), error);
    return true;
}

bool BenchSession::take_complete() {
    const std::uint64_t step = client_->next_to_take();
    if (step == client_->next_to_publish() || !shm::slice_ready(*segment_, step, 0)) return false;
    croupier_writer_state state;
    croupier_writer_state_init(&state);
    croupier_error error{};
    need_writer(croupier_writer_get_state(writer_, &state, &error), error);
    // The slice is complete slightly before the writer can begin another step.
    if (state.finished <= step) return false;
    client_->take();
    return true;
}

void BenchSession::keep_going() {
    (void)take_complete();
    (void)start_step();
}

void BenchSession::drain() {
    while (client_->next_to_take() != client_->next_to_publish()) (void)take_complete();
    stream_.synchronise();
}

double BenchSession::run(std::uint32_t steps) {
    drain();
    const auto begin = Clock::now();
    std::uint32_t started = 0;
    std::uint32_t taken = 0;
    while (taken < steps) {
        if (started < steps && start_step()) ++started;
        if (take_complete()) ++taken;
    }
    return seconds_since(begin);
}

StepTimes BenchSession::one_step() {
    drain();
    const std::uint64_t step = need(client_->publish(std::vector<proto::ScheduleColumn>(case_.columns)));
    const auto& word = segment_->ready(segment_->slot_of(step), 0).word;
    const auto tiles_there = [&] {
        const ReadyWord ready = ReadyWord::unpack(word.load(std::memory_order_acquire));
        return ready.step_tag == ReadyWord::tag_of(step) ? ready.tiles : 0;
    };
    croupier_error error{};
    StepTimes times;
    auto begin = Clock::now();
    need_writer(croupier_writer_begin(writer_, step, &error), error);
    times.begin_call = seconds_since(begin);
    begin = Clock::now();
    need_writer(croupier_writer_enqueue(writer_, stream_.get(), logits_->get(), case_.vocab, &error), error);
    times.enqueue_call = seconds_since(begin);
    while (tiles_there() == 0) {
    }
    times.first_tiles = seconds_since(begin);
    while (tiles_there() != segment_->geometry().tiles(0)) {
    }
    times.complete = seconds_since(begin);
    drain();
    return times;
}

}  // namespace croupier::bench::writer
