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
#include <string>
#include <string_view>
#include <thread>

#include "daemon/explain_desk.h"
#include "explain/fields.h"
#include "explain/token_texts.h"
#include "shm/file.h"

namespace croupier::daemon {

struct ExplainReply {
    int status = 200;
    std::string type;
    std::string body;
};

class ExplainRoute {
  public:
    using Ticket = std::uint64_t;

    // `tokenizer`: a file by which tokens are shown as text; empty: by their ids.
    static shm::Result<std::unique_ptr<ExplainRoute>> start(const std::string& directory,
                                                            const std::string& instance,
                                                            const std::string& tokenizer);
    ~ExplainRoute();
    ExplainRoute(const ExplainRoute&) = delete;
    ExplainRoute& operator=(const ExplainRoute&) = delete;

    // What stands in the address after the question mark.
    Ticket ask(std::string_view query);
    // Once; nothing: not yet.
    std::optional<ExplainReply> take(Ticket ticket);
    // Nobody waits for it any more.
    void forget(Ticket ticket);
    // Readable when an answer came; the caller reads it.
    int event_fd() const { return event_.get(); }

  private:
    struct Job {
        Ticket ticket = 0;
        ExplainQuery query;
        ExplainDesk::Clock::time_point deadline;
    };

    ExplainRoute(ExplainDesk desk, shm::FileDescriptor event, std::string tokenizer);
    void serve();
    void load_texts();
    ExplainReply answer(const Job& job);
    ExplainReply page_of(const explain::Json& request) const;
    bool is_given_up();
    // With the mutex held.
    void announce(Ticket ticket, ExplainReply reply);

    ExplainDesk desk_;
    shm::FileDescriptor event_;
    std::string tokenizer_;
    explain::TokenTexts texts_;
    std::string texts_fault_;  // why there are none; empty: there are, or none are wanted
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> waiting_;
    std::map<Ticket, ExplainReply> answers_;
    Ticket last_ = 0;
    Ticket served_ = 0;      // whose decision is awaited; 0: nobody's
    bool given_up_ = false;  // nobody waits for that one
    bool over_ = false;
    std::thread thread_;
};

}  // namespace croupier::daemon
