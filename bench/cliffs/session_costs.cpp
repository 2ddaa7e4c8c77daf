#include "bench/cliffs/session_costs.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/cliffs/read_time.h"
#include "client/abi_fields.h"
#include "client/decision_text.h"
#include "measurement/percentiles.h"
#include "proto/counters.h"
#include "sampler/plan.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kWarmUpSteps = 3;
// Of a request whose steps take long, fewer are enough.
constexpr std::uint32_t kFewSteps = 5;
constexpr std::uint64_t kEnoughNs = 100'000'000;
constexpr std::uint32_t kPatienceMs = 60'000;
// Tokens after the history: more than a request has steps.
constexpr std::uint32_t kRoom = 1024;

testing::OwnDaemonOptions daemon_options(const SessionMeasure& how, std::uint32_t vocab,
                                         std::uint32_t longest) {
    testing::OwnDaemonOptions options;
    options.instance = "bench-" + std::to_string(::getpid());
    options.sections = fmt::format(
        "samplers: {{count: {}, wait: {}, pin: false}}\n"
        "sessions: {{max_batch: {}, max_sequences: {}, max_vocab: {}, max_sequence_tokens: {}, "
        "max_support: {}}}\n",
        how.samplers, how.cuda ? "spin" : "adaptive", how.columns, 2 * how.columns, vocab, longest + kRoom,
        proto::kMaxSupport);
    return options;
}

// Each column draws its own token.
proto::SamplingParams params_of(const DrawnRequest& drawn, std::uint32_t column) {
    proto::SamplingParams params = drawn.request.params;
    params.seed += column;
    return params;
}

// What the session answered, beside what it does not tell.
sampler::reference::Outcome outcome_of(const client::Decisions& all, const croupier_decision& decision,
                                       const sampler::reference::Outcome& expected) {
    sampler::reference::Outcome ours;
    ours.feedback = expected.feedback;
    ours.decision = expected.decision;
    ours.decision.token = decision.token;
    ours.decision.logprob = decision.logprob;
    ours.decision.position = decision.output_index;
    ours.decision.flags = decision.flags & static_cast<std::uint16_t>(~CROUPIER_SUPPORT_CUT);
    ours.support_total = decision.support_total;
    for (const croupier_survivor& each : all.support(decision))
        ours.support.push_back({each.token, each.reserved, each.probability});
    if (decision.best_count > 0) ours.logprobs.push_back({decision.token, decision.logprob, decision.rank});
    for (const croupier_logprob& each : all.best(decision))
        ours.logprobs.push_back({each.token, each.logprob, each.rank});
    return ours;
}

}  // namespace

SessionCosts::SessionCosts(const measurement::BenchRows& rows, const Histories& histories,
                           const SessionMeasure& how)
    : rows_(rows),
      histories_(histories),
      how_(how),
      daemon_(daemon_options(how, rows.vocab(), histories.longest())),
      sequence_(rows.vocab(), histories.longest()) {
    daemon_.start();
    daemon_.await_ready();
}

SessionCosts::~SessionCosts() {
    close();
    daemon_.stop();
}

void SessionCosts::close() noexcept {
    if (!open_) return;
    open_->logits.reset();
    try {
        if (open_->session) open_->session->close();
    } catch (const client::Failure&) {
        // The daemon is gone, and its sessions with it.
    }
    open_.reset();
}

client::Session SessionCosts::open_session(proto::Dtype dtype) const {
    client::OpenOptions options;
    const std::string endpoint = daemon_.endpoint();
    options.endpoint = endpoint.c_str();
    options.name = "cliffs";
    options.vocab = rows_.vocab();
    options.max_batch = how_.columns;
    options.steps_in_flight = 1;
    options.dtype = static_cast<std::uint32_t>(dtype);
    options.max_sequences = 2 * how_.columns;
    options.max_length = histories_.longest() + kRoom;
    options.max_bias = 512;
    options.max_stop_ids = 64;
    options.max_list_tokens = proto::kMaxListTokens;
    options.mask_rows = how_.columns;
    options.max_logprobs = proto::kMaxSessionLogprobs;
    options.max_support = proto::kMaxSupport;
    options.transport = CROUPIER_TRANSPORT_LEAN;
    options.timeout_ms = kPatienceMs;
    return client::Session(options);
}

SessionCosts::Open& SessionCosts::open_for(proto::Dtype dtype) {
    if (open_ && open_->rows.dtype() == dtype) return *open_;
    close();
    measurement::LaidRows rows(rows_, dtype, measurement::Ranks{}, false);
    const double read_us = read_time_us(rows);
    open_.emplace(Open{std::move(rows), read_us, std::nullopt, nullptr, nullptr});
    open_->session.emplace(open_session(dtype));
    const std::string path = open_->session->segment_path();
    auto segment = shm::Segment::attach(path, shm::Access::read_only);
    if (!segment) throw std::runtime_error(segment.error().message);
    open_->segment = std::make_unique<shm::Segment>(std::move(segment).value());
    open_->logits = how_.cuda ? cuda_logits(path, open_->rows, how_.columns)
                              : host_logits(path, open_->rows, how_.columns);
    return *open_;
}

std::vector<std::uint64_t> SessionCosts::add_sequences(const DrawnRequest& drawn) {
    const CaseRequest& request = drawn.request;
    client::Sequence sequence;
    for (const proto::TokenBias& each : request.bias) sequence.bias.push_back({each.token, each.bias});
    sequence.stop_ids = request.stop_ids;
    sequence.allowed_ids = request.allowed;
    sequence.bad_words = request.bad_words;
    sequence.dry_breakers = request.dry_breakers;
    std::vector<std::uint64_t> uids;
    for (std::uint32_t column = 0; column < how_.columns; ++column) {
        const auto history = histories_.of(drawn, column);
        const auto prompt = history.first(history.size() / 2);
        const auto output = history.subspan(prompt.size());
        sequence.uid = next_uid_++;
        static_cast<croupier_params&>(sequence.params) = client::params_to_abi(params_of(drawn, column));
        sequence.prompt.assign(prompt.begin(), prompt.end());
        sequence.output.assign(output.begin(), output.end());
        open_->session->add(sequence);
        uids.push_back(sequence.uid);
    }
    return uids;
}

void SessionCosts::verify(const DrawnRequest& drawn, const client::Step& step, std::uint32_t column,
                          RequestCost& cost) {
    CaseRequest request = drawn.request;
    request.params = params_of(drawn, column);
    sequence_.begin(request, histories_.of(drawn, column));
    const std::uint32_t row = open_->logits->row_of(step.step, column);
    const auto expected = sampler::reference::decide(open_->rows.view(row, false), sequence_.request(0));
    const std::string difference =
        sampler::test::difference(outcome_of(step.decisions, step.decisions[column], expected), expected,
                                  sampler::test::Logprobs::within_error);
    ++cost.verified;
    if (!difference.empty() && cost.difference.empty())
        cost.difference = fmt::format("column {}, row {}: {} of the reference", column, row, difference);
}

double SessionCosts::take_step(const DrawnRequest& drawn, const std::vector<std::uint64_t>& uids, bool first,
                               RequestCost& cost) {
    const std::vector<std::uint32_t>& mask = drawn.request.mask;
    std::vector<croupier_column> columns;
    columns.reserve(uids.size());
    for (const std::uint64_t uid : uids) columns.push_back({uid, mask.empty() ? nullptr : mask.data(), 1, 0});
    const std::uint64_t number = open_->session->submit(columns);
    open_->logits->send(number);
    const auto step = open_->session->wait(kPatienceMs);
    if (!step || step->refused != 0) {
        throw std::runtime_error(
            fmt::format("{}: its step was {}", drawn.request.name,
                        step ? client::decision_error_text(step->refused) : "not decided within a minute"));
    }
    const double us = open_->logits->us();
    const std::vector<std::int32_t> arrived = open_->logits->tokens();
    for (std::uint32_t column = 0; column < how_.columns; ++column) {
        const croupier_decision decision = step->decisions[column];
        if (decision.error != 0) {
            throw std::runtime_error(fmt::format("{}, column {}: {}", drawn.request.name, column,
                                                 client::decision_error_text(decision.error)));
        }
        if (!arrived.empty() && arrived[column] != decision.token)
            cost.difference =
                fmt::format("column {}: token {} on the GPU for {}", column, arrived[column], decision.token);
        if (first && column < how_.verified) verify(drawn, *step, column, cost);
    }
    return us;
}

std::uint64_t SessionCosts::block_requests() const {
    return open_->segment->header()
        .counter(proto::SessionCounter::block_requests)
        .load(std::memory_order_relaxed);
}

// The path that the request's plan has; whether blocks were asked for is told by the session's counter.
void SessionCosts::describe_plan(const DrawnRequest& drawn, double tries, RequestCost& cost) {
    sequence_.begin(drawn.request, histories_.of(drawn, 0));
    const request::Plan plan = sampler::plan_of(drawn.request.params, sequence_.request(0), rows_.vocab());
    cost.paths[request::name_of(plan.path)] = how_.columns;
    cost.lean.emplace();
    const bool whole = sequence_.want(0).flags.has(gpu_writer::Want::whole);
    cost.lean->whole = whole ? 1.0 : 0.0;
    cost.lean->tries = tries;
}

RequestCost SessionCosts::measure(const DrawnRequest& drawn) {
    const Open& open = open_for(drawn.dtype);
    const std::uint64_t requests = block_requests();
    const std::vector<std::uint64_t> uids = add_sequences(drawn);
    RequestCost cost;
    std::vector<std::uint64_t> times;
    std::uint64_t spent = 0;
    std::uint32_t steps = 0;
    while (times.size() < how_.steps && (times.size() < kFewSteps || spent < kEnoughNs)) {
        const auto took = static_cast<std::uint64_t>(take_step(drawn, uids, steps == 0, cost) * 1e3);
        const bool warms_up = steps == 0 || (steps < kWarmUpSteps && spent < kEnoughNs);
        ++steps;
        spent += took;
        if (!warms_up) times.push_back(took);
    }
    for (const std::uint64_t uid : uids) open_->session->finish(uid);
    cost.us = measurement::percentiles_us(std::move(times)).p50;
    cost.reads = cost.us / open.read_us;
    const auto asked = static_cast<double>(block_requests() - requests);
    describe_plan(drawn, 1.0 + asked / static_cast<double>(steps * how_.columns), cost);
    return cost;
}

}  // namespace croupier::bench
