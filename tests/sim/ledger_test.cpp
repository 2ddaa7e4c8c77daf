#include "sim/ledger.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "testing/child_process.h"

namespace croupier::sim {

using namespace testing;
namespace {

SimOptions few_requests() {
    SimOptions options;
    options.vocab = 1000;
    options.batch = 4;
    options.steps = 100;
    options.output_max = 8;
    return options;
}

// A request of the plan with at least `tokens` output tokens.
std::uint32_t request_with_room(const RequestPlan& plan, std::uint32_t tokens) {
    for (std::uint32_t i = 0; i < plan.size(); ++i) {
        if (plan[i].params.max_tokens >= tokens) return i;
    }
    FAIL("no request is long enough");
    return 0;
}

LedgerEntry entry_of(std::int32_t token, bool last = false) {
    LedgerEntry entry;
    entry.token = token;
    entry.last = last ? 1 : 0;
    return entry;
}

}  // namespace

TEST_CASE("the ledger accepts each position once and in order") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    const std::uint32_t request = request_with_room(plan, 4);
    CHECK(ledger.append(request, 0, entry_of(11)) == Delivery::appended);
    CHECK(ledger.append(request, 2, entry_of(13)) == Delivery::gap);
    CHECK(ledger.append(request, 0, entry_of(99)) == Delivery::repeated);
    CHECK(ledger.entry(request, 0).token == 11);
    CHECK(ledger.append(request, 1, entry_of(12, true)) == Delivery::appended);
    CHECK(ledger.ended(request));
    CHECK(ledger.append(request, 2, entry_of(13)) == Delivery::gap);
    CHECK(ledger.count(request) == 2);
}

TEST_CASE("the ledger records where a sequence was added again") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    const std::uint32_t request = request_with_room(plan, 4);
    ledger.append(request, 0, entry_of(11));
    // Called twice, as if a scheduler died before it added the sequence.
    ledger.note_added_again(request);
    ledger.note_added_again(request);
    ledger.append(request, 1, entry_of(12));
    ledger.append(request, 2, entry_of(13));
    CHECK(ledger.entry(request, 0).anew == 0);
    CHECK(ledger.entry(request, 1).anew == 1);
    CHECK(ledger.entry(request, 1).token == 12);
    CHECK(ledger.entry(request, 2).anew == 0);
}

TEST_CASE("progress counts tokens that an early end makes unnecessary") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    for (std::uint32_t request = 0; request < plan.size(); ++request) {
        CHECK_FALSE(ledger.all_ended());
        ledger.append(request, 0, entry_of(1, true));
    }
    CHECK(ledger.all_ended());
    CHECK(ledger.head().tokens == plan.size());
}

TEST_CASE("a recount corrects the sums after a scheduler was killed") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    const std::uint32_t request = request_with_room(plan, 2);
    ledger.append(request, 0, entry_of(1));
    ledger.append(request, 1, entry_of(2, true));
    ledger.head().tokens = 0;
    ledger.head().progress = 0;
    ledger.recount();
    CHECK(ledger.head().tokens == 2);
    CHECK(ledger.head().progress == plan[request].params.max_tokens);
}

TEST_CASE("a request is verified by one verifier, and only once it has ended") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    const std::uint32_t request = request_with_room(plan, 2);
    ledger.append(request, 0, entry_of(1));
    CHECK_FALSE(ledger.claim_for_verification(request));
    ledger.append(request, 1, entry_of(2, true));
    CHECK(ledger.claim_for_verification(request));
    CHECK_FALSE(ledger.claim_for_verification(request));
}

TEST_CASE("only the first fault is reported") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    CHECK(ledger.fault().empty());
    ledger.report_fault("the cause");
    ledger.report_fault("a consequence");
    CHECK(ledger.fault() == "the cause");
}

TEST_CASE("entries survive a SIGKILL of the process that appended them") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    const std::uint32_t request = request_with_room(plan, 2);
    ChildProcess child = ChildProcess::run(
        [&] {
            ledger.append(request, 0, entry_of(42));
            ::kill(::getpid(), SIGKILL);
        },
        [](const std::string&) {});
    CHECK(child.wait() == -1);
    REQUIRE(ledger.count(request) == 1);
    CHECK(ledger.entry(request, 0).token == 42);
}

TEST_CASE("a child passes on the message of an exception and exits with a code") {
    const RequestPlan plan(few_requests());
    Ledger ledger(plan);
    ChildProcess child = ChildProcess::run([] { throw std::runtime_error("no daemon"); },
                                           [&](const std::string& why) { ledger.report_fault(why); });
    CHECK(child.wait() == 1);
    CHECK(ledger.fault() == "no daemon");
}

}  // namespace croupier::sim
