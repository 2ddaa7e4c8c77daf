#include "tests/fan_out/last_stage.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "gpu_writer/rank_writer.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/loopback.h"
#include "tests/fan_out/gpu_rank.h"

namespace croupier::testing {
namespace {

constexpr const char* kRouteVariable = "CROUPIER_TEST_ROUTE";
constexpr std::uint32_t kPatienceMs = 20000;

void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path) << text << "\n";
    ::chmod(path.c_str(), 0600);
}

// This program again, with a hidden test as its part.
ChildProcess run_part(const char* variable, const std::string& value, const char* part,
                      const std::string& output) {
    ::setenv(variable, value.c_str(), 1);
    return ChildProcess::execute({"/proc/self/exe", part}, output, SIGKILL);
}

void write_step(gpu_writer::RankWriter& writer, std::uint64_t step) {
    const auto columns = writer.columns(step);
    const proto::RankShard shard = writer.geometry().shards[writer.rank()];
    for (std::uint32_t column = 0; column < columns.size(); ++column) {
        const auto row =
            bf16_row(columns[column].load(), writer.geometry().vocab, shard.first_id, shard.count);
        writer.write_column(step, column, row.data());
    }
    (void)writer.publish_all(step);
}

}  // namespace

// Hidden: a writer of both ranks, as long as the session lasts.
TEST_CASE("a writer beside a relay", "[.][writer_part]") {
    const char* path = std::getenv(kSegmentVariable);
    REQUIRE(path != nullptr);
    std::vector<gpu_writer::RankWriter> ranks;
    for (const std::uint32_t rank : {0U, 1U}) {
        auto attached = gpu_writer::RankWriter::attach(path, rank);
        if (!attached) FAIL(attached.error().message);
        ranks.push_back(std::move(attached).value());
    }
    while (ranks.front().session_open()) {
        for (auto& writer : ranks) {
            if (const auto step = writer.wait_step(std::chrono::milliseconds(5))) write_step(writer, *step);
        }
    }
}

TEST_CASE("a scheduler on another host", "[.][scheduler_part]") {
    const char* text = std::getenv(kRouteVariable);
    REQUIRE(text != nullptr);
    std::istringstream words(text);
    Route route;
    words >> route.root >> route.own_key >> route.own_secret >> route.relay_key;
    RemoteScheduler scheduler(route, kProcessSequences);
    scheduler.open();
    std::cout << "segment " << scheduler.session().segment_path() << std::endl;
    for (std::size_t tokens = 1;; ++tokens) {
        scheduler.serve(tokens);
        for (const auto& [uid, stream] : scheduler.tokens()) {
            std::cout << uid << ' ' << stream.size() - 1 << ' ' << stream.back() << std::endl;
        }
    }
}

CurvePair::CurvePair() {
    std::array<char, 41> public_key{};
    std::array<char, 41> secret_key{};
    zmq_curve_keypair(public_key.data(), secret_key.data());
    open = public_key.data();
    secret = secret_key.data();
}

std::string program_beside(const std::string& name) {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

LastStage::LastStage(const TwoHosts& hosts, fan_out::Transport transport) : hosts_(&hosts) {
    route_.transport = transport;
    const CurvePair scheduler_keys;
    const CurvePair relay_keys;
    hosts.on_engine_host(
        [&] { route_.root = "tcp://" + hosts.engine_address() + ":" + std::to_string(free_port()); });
    route_.own_key = scheduler_keys.open;
    route_.own_secret = scheduler_keys.secret;
    route_.relay_key = relay_keys.open;
    write_file(files_.directory() + "/relay-secret", relay_keys.secret);
    hosts.on_stage_host(
        [&] { daemon_ = std::make_unique<DaemonProcess>(kTwoSamplers, "", program_beside("croupierd")); });
}

void LastStage::start_relay(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        program_beside("croupier"),           "relay",      "--root",      route_.root, "--key-file",
        files_.directory() + "/relay-secret", "--root-key", route_.own_key};
    if (std::find(more.begin(), more.end(), "--endpoint") == more.end()) {
        arguments.insert(arguments.end(), {"--endpoint", daemon_->endpoint()});
    }
    if (route_.transport == fan_out::Transport::nccl) {
        for (const char* word : {"--records-over", "nccl", "--device", "1"}) arguments.emplace_back(word);
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    hosts_->on_stage_host(
        [&] { relay_ = ChildProcess::execute(arguments, files_.directory() + "/relay.log", SIGTERM); });
}

int LastStage::stop_relay() {
    relay_.send(SIGTERM);
    return relay_.wait();
}

void LastStage::kill_relay() {
    relay_.send(SIGKILL);
    relay_.wait();
}

void LastStage::pause_relay() const {
    ::kill(relay_.pid(), SIGSTOP);
}

void LastStage::resume_relay() const {
    ::kill(relay_.pid(), SIGCONT);
}

std::string LastStage::relay_log() const {
    return text_of(files_.directory() + "/relay.log").value_or("");
}

void LastStage::start_writer(const std::string& segment_path) {
    hosts_->on_stage_host([&] {
        writer_ =
            run_part(kSegmentVariable, segment_path, "[writer_part]", files_.directory() + "/writer.log");
    });
}

void LastStage::start_gpu_writers(const std::string& segment_path) {
    for (auto [process, rank] : {std::pair(&writer_, "0"), std::pair(&second_writer_, "1")}) {
        ::setenv("CUDA_VISIBLE_DEVICES", rank, 1);
        ::setenv(kRankVariable, rank, 1);
        *process =
            run_part(kSegmentVariable, segment_path, "[gpu_rank_part]", files_.directory() + "/writer.log");
    }
    ::unsetenv("CUDA_VISIBLE_DEVICES");
}

std::string LastStage::writer_log() const {
    return text_of(files_.directory() + "/writer.log").value_or("");
}

ChildProcess start_scheduler_process(const Route& route, const std::string& output) {
    return run_part(kRouteVariable,
                    route.root + " " + route.own_key + " " + route.own_secret + " " + route.relay_key,
                    "[scheduler_part]", output);
}

RelayGroup::RelayGroup(const Route& route) {
    croupier_fan_out_options options;
    croupier_fan_out_options_init(&options);
    options.endpoint = route.root.c_str();
    options.own_public_key = route.own_key.c_str();
    options.own_secret_key = route.own_secret.c_str();
    options.peer_public_key = route.relay_key.c_str();
    options.transport = static_cast<std::uint32_t>(route.transport);
    options.join_timeout_ms = kPatienceMs;
    croupier_fan_out* opened = nullptr;
    croupier_error error{};
    if (croupier_fan_out_open(&options, &opened, &error) != 0) throw std::runtime_error(error.text);
    group_.reset(opened);
    croupier_record_channel_init(&channel_);
    if (croupier_fan_out_channel(opened, &channel_, &error) != 0) throw std::runtime_error(error.text);
}

void RemoteScheduler::open() {
    open_without_recovery();
    recover();
}

void RemoteScheduler::open_without_recovery() {
    group_ = std::make_unique<RelayGroup>(route_);
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.name = "remote";
    options.vocab = kVocab;
    options.tp = 2;
    options.max_batch = 8;
    options.max_sequences = 16;
    options.max_length = 256;
    options.mask_rows = masked_ ? 8 : 0;
    options.resume = 1;
    options.timeout_ms = kPatienceMs;
    options.relay = group_->channel();
    session_ = std::make_unique<client::Session>(options);
}

void RemoteScheduler::leave() {
    session_.reset();
    group_.reset();
}

// What docs/several-hosts.md tells an engine to do.
void RemoteScheduler::recover() {
    while (session_->in_flight() > 0) take();
    for (std::uint64_t uid = 1; uid <= sequences_; ++uid) {
        auto& tokens = tokens_[uid];
        const auto live = session_->live();
        if (std::find(live.begin(), live.end(), uid) == live.end()) {
            client::Sequence sequence = SmallEngine::sequence(uid, kVocab);
            sequence.output = tokens;
            session_->add(sequence);
            continue;
        }
        const auto output = session_->output(uid);
        REQUIRE(output.size() >= tokens.size());
        REQUIRE(std::equal(tokens.begin(), tokens.end(), output.begin()));
        tokens = output;
    }
}

void RemoteScheduler::submit(std::uint64_t half) {
    std::vector<croupier_column> columns;
    std::vector<std::vector<std::uint32_t>> masks;
    for (std::uint64_t uid = 1; uid <= sequences_; ++uid) {
        if (uid % 2 != half) continue;
        const auto position = static_cast<std::uint32_t>(tokens_[uid].size());
        if (masked_) masks.push_back(SmallEngine::mask(kVocab, uid, position));
        columns.push_back({uid, masked_ ? masks.back().data() : nullptr, 1, 0});
    }
    session_->submit(columns);
}

void RemoteScheduler::take() {
    if (!take_within(kPatienceMs)) throw std::runtime_error("a step was not decided");
}

bool RemoteScheduler::take_within(std::uint32_t timeout_ms) {
    const auto step = session_->wait(timeout_ms);
    if (!step) return false;
    REQUIRE(step->refused == 0);
    for (const croupier_decision& decision : step->decisions) {
        REQUIRE(decision.error == 0);
        auto& tokens = tokens_[decision.uid];
        REQUIRE(decision.output_index <= tokens.size());
        if (decision.output_index == tokens.size()) {
            tokens.push_back(decision.token);
        } else {
            ++again_;
            REQUIRE(tokens[decision.output_index] == decision.token);
        }
    }
    return true;
}

// After a recovery one half may be a token ahead of the other.
void RemoteScheduler::serve(std::size_t tokens_each) {
    const auto lacks = [&](std::uint64_t half) { return tokens_[half == 0 ? 2 : 1].size() < tokens_each; };
    while (lacks(0) || lacks(1)) {
        for (const std::uint64_t half : {0U, 1U}) {
            if (lacks(half)) submit(half);
        }
        while (session_->in_flight() > 0) take();
    }
}

void RemoteScheduler::close() {
    session_->close();
    session_.reset();
    group_.reset();
}

std::string failure_of_waiting(RemoteScheduler& scheduler) {
    std::string failure;
    eventually([&] {
        failure = failure_of([&] { static_cast<void>(scheduler.session().wait(50)); });
        return !failure.empty();
    });
    return failure;
}

std::string failure_of_going_on(RemoteScheduler& scheduler) {
    return failure_of([&] {
        for (int i = 0; i < 1000; ++i) {
            if (scheduler.session().in_flight() == 0) scheduler.submit(1);
            scheduler.take();
        }
    });
}

client::OpenOptions options_through(const RelayGroup& group) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.vocab = RemoteScheduler::kVocab;
    options.tp = 2;
    options.max_batch = 8;
    options.max_sequences = 16;
    options.max_length = 256;
    options.timeout_ms = 20000;
    options.relay = group.channel();
    return options;
}

Tokens served_locally(std::uint64_t sequences, std::size_t tokens_each, bool masked) {
    const DaemonProcess daemon(kTwoSamplers, "", program_beside("croupierd"));
    EngineShape shape;
    shape.masked = masked;
    SmallEngine engine(daemon.endpoint(), "local", shape);
    engine.admit(static_cast<std::uint32_t>(sequences));
    engine.steps(static_cast<int>(tokens_each));
    return engine.streams();
}

}  // namespace croupier::testing
