// /explain: requests wait in a queue of their own, one after the other is answered by a thread of its own,
// and the HTTP server is told when an answer is there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "daemon/observation/explain_requests.h"
#include "daemon/observation/http_message.h"
#include "explain/fields.h"
#include "explain/token_texts.h"
#include "shm/file.h"

namespace croupier::daemon {

// Of a daemon that is not told to explain.
HttpReply no_explanations();

class ExplainRoute {
  public:
    // `tokenizer`: a file by which tokens are shown as text; empty: by their ids.
    static shm::Result<std::unique_ptr<ExplainRoute>> start(const std::string& directory,
                                                            const std::string& instance,
                                                            const std::string& tokenizer);
    ~ExplainRoute();
    ExplainRoute(const ExplainRoute&) = delete;
    ExplainRoute& operator=(const ExplainRoute&) = delete;

    // A refusal, or what comes later: to be let go of before this object.
    HttpReply ask(const HttpRequest& request);
    // Readable when an answer came; the caller reads it.
    int event_fd() const { return event_.get(); }

  private:
    using Ticket = std::uint64_t;
    class Awaited;

    struct Job {
        Ticket ticket = 0;
        ExplainQuery query;
        ExplainRequests::Clock::time_point deadline;
    };

    ExplainRoute(ExplainRequests queue, shm::FileDescriptor event, std::string tokenizer);
    void serve();
    void load_texts();
    HttpReply answer(const Job& job);
    HttpReply page_of(const explain::Json& request) const;
    // Once; nothing: not yet.
    std::optional<HttpReply> take(Ticket ticket);
    // Nobody waits for it any more, or it was read.
    void forget(Ticket ticket);
    bool is_given_up();

    ExplainRequests queue_;
    shm::FileDescriptor event_;
    std::string tokenizer_;
    explain::TokenTexts texts_;
    std::string texts_fault_;  // why there are none; empty: there are, or none are wanted
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> waiting_;
    std::map<Ticket, HttpReply> answers_;
    std::set<Ticket> open_;  // those that somebody waits for, or has not read
    Ticket last_ = 0;
    Ticket served_ = 0;      // whose decision is awaited; 0: nobody's
    bool given_up_ = false;  // nobody waits for that one
    bool over_ = false;
    std::thread thread_;
};

}  // namespace croupier::daemon
