#include "daemon/observation/explain_route.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/observation/captured_request.h"
#include "event_log/event_log.h"
#include "explain/explained.h"
#include "explain/page.h"

namespace croupier::daemon {
namespace {

// From a request's arrival. A sequence that decodes has a decision in a fraction of a second.
constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMostWaiting = 8;
// Each may be tens of megabytes, until its peer has read it.
constexpr std::size_t kMostOpen = 16;
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kJson = "application/json";
// What an explanation shows is a user's: whatever stands in it loads and runs nothing.
constexpr std::string_view kPrivate =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

int status_of(shm::Errc code) {
    switch (code) {
        case shm::Errc::bad_argument:
            return 400;
        case shm::Errc::not_found:
            return 404;
        case shm::Errc::timed_out:
            return 504;
        default:
            return 503;
    }
}

HttpReply refusal(int status, const std::string& why, bool as_json) {
    if (!as_json) return {status, why + "\n", kText, kPrivate};
    return {status, explain::Json{{"error", why}}.dump() + "\n", kJson, kPrivate};
}

}  // namespace

class ExplainRoute::Awaited : public LateReply {
  public:
    Awaited(ExplainRoute& route, Ticket ticket) : route_(route), ticket_(ticket) {}
    ~Awaited() override { route_.forget(ticket_); }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;
    std::optional<HttpReply> take() override { return route_.take(ticket_); }

  private:
    ExplainRoute& route_;
    Ticket ticket_;
};

HttpReply no_explanations() {
    return refusal(403,
                   "this daemon explains no decisions; metrics.explain: true in its configuration allows it",
                   false);
}

shm::Result<std::unique_ptr<ExplainRoute>> ExplainRoute::start(const std::string& directory,
                                                               const std::string& instance,
                                                               const std::string& tokenizer) {
    CROUPIER_TRY_VALUE(queue, ExplainRequests::create(directory, instance));
    shm::FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid()) return shm::system_failure("cannot open", "eventfd", errno);
    return std::unique_ptr<ExplainRoute>(new ExplainRoute(std::move(queue), std::move(event), tokenizer));
}

ExplainRoute::ExplainRoute(ExplainRequests queue, shm::FileDescriptor event, std::string tokenizer)
    : queue_(std::move(queue)),
      event_(std::move(event)),
      tokenizer_(std::move(tokenizer)),
      thread_([this] { serve(); }) {}

ExplainRoute::~ExplainRoute() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

HttpReply ExplainRoute::ask(const HttpRequest& request) {
    const auto parsed = parse_explain_query(request.query);
    if (!parsed) return refusal(400, parsed.error().message, false);
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting || open_.size() >= kMostOpen) {
        return refusal(503, "others wait for explanations, or do not read theirs: ask again in some seconds",
                       parsed.value().as_json);
    }
    const Ticket ticket = ++last_;
    open_.insert(ticket);
    waiting_.push_back({ticket, parsed.value(), ExplainRequests::Clock::now() + kPatience});
    changed_.notify_all();
    HttpReply reply;
    reply.later = std::make_unique<Awaited>(*this, ticket);
    return reply;
}

std::optional<HttpReply> ExplainRoute::take(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(ticket);
    if (found == answers_.end()) return std::nullopt;
    std::optional<HttpReply> reply = std::move(found->second);
    answers_.erase(found);
    return reply;
}

void ExplainRoute::forget(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    open_.erase(ticket);
    answers_.erase(ticket);
    std::erase_if(waiting_, [ticket](const Job& job) { return job.ticket == ticket; });
    if (served_ == ticket) given_up_ = true;
}

bool ExplainRoute::is_given_up() {
    const std::lock_guard lock(mutex_);
    return over_ || given_up_;
}

// By this thread: a large file takes tenths of a second, and the daemon starts meanwhile.
void ExplainRoute::load_texts() {
    if (tokenizer_.empty()) return;
    try {
        texts_ = explain::TokenTexts::load(tokenizer_);
    } catch (const std::exception& error) {
        texts_fault_ = error.what();
        event_log::write(event_log::Event::tokenizer_not_read, {{"file", tokenizer_}},
                         "/explain shows tokens without their texts (metrics.tokenizer): {}", texts_fault_);
    }
}

void ExplainRoute::serve() {
    load_texts();
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
        if (over_) return;
        const Job job = waiting_.front();
        waiting_.pop_front();
        served_ = job.ticket;
        given_up_ = false;
        lock.unlock();
        HttpReply reply = answer(job);
        lock.lock();
        served_ = 0;
        if (given_up_ || over_) continue;
        answers_[job.ticket] = std::move(reply);
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof(one));
    }
}

// A session may be of another model than the tokenizer.
HttpReply ExplainRoute::page_of(const explain::Json& request) const {
    explain::RowFiles files;
    explain::Decider decider;
    explain::Case of = explain::read_case(request, files);
    std::string fault = texts_fault_;
    try {
        texts_.check_fits(of.row.vocab());
    } catch (const explain::RequestError& error) {
        fault = error.what();
    }
    const explain::TokenTexts none;
    explain::Explained explained =
        explain::explain_case(std::move(of), decider, fault.empty() ? texts_ : none);
    if (!fault.empty()) explained.note = "Tokens are shown without their texts: " + fault;
    return {200, explain::to_page(explained), "text/html; charset=utf-8", kPrivate};
}

HttpReply ExplainRoute::answer(const Job& job) {
    const auto captured = queue_.capture(job.query, job.deadline, [this] { return is_given_up(); });
    if (!captured)
        return refusal(status_of(captured.error().code), captured.error().message, job.query.as_json);
    // What a request of a client's holds may be anything: it costs this answer, and no more.
    try {
        const explain::Json request = request_of(captured.value().head, captured.value().bytes);
        if (job.query.as_json) return {200, request.dump() + "\n", kJson, kPrivate};
        return page_of(request);
    } catch (const explain::RequestError& error) {
        return refusal(422, std::string("the next decision was an error: ") + error.what(),
                       job.query.as_json);
    } catch (const std::exception& error) {
        return refusal(500, std::string("the decision could not be explained: ") + error.what(),
                       job.query.as_json);
    }
}

}  // namespace croupier::daemon
