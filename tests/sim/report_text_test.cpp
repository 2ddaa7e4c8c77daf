#include "sim/report_text.h"

#include <catch2/catch.hpp>

namespace croupier::sim {

TEST_CASE("numbers have thousands separators") {
    CHECK(with_commas(0) == "0");
    CHECK(with_commas(999) == "999");
    CHECK(with_commas(9102) == "9,102");
    CHECK(with_commas(1234567890) == "1,234,567,890");
}

TEST_CASE("a failed run reports the worst reason first and omits zero counts") {
    Report report;
    report.tokens = 9102;
    report.verified = 2021;
    report.mismatched = 3;
    report.first_mismatch = "request 7, position 2";
    report.unfinished = 12;
    report.fault = "a writer was killed by signal 9";
    CHECK(failure_text(report) ==
          "3 tokens of 2,024 verified differ from the reference; first: request 7, position 2; a writer "
          "was killed by signal 9");
    report = {};
    report.tokens = 9102;
    report.verified = 9101;
    CHECK_FALSE(report.passed());
    CHECK(failure_text(report) == "only 9,101 of 9,102 tokens verified");
    report.unfinished = 1;
    CHECK(failure_text(report) == "1 request unfinished");
    report.left_in_shm = 1;
    CHECK(failure_text(report) == "1 file left in /dev/shm");
}

TEST_CASE("a sampled verification passes if some tokens were verified and none differ") {
    Report report;
    report.tokens = 9102;
    report.verification = Verification::sample;
    CHECK_FALSE(report.passed());
    report.verified = 1;
    CHECK(report.passed());
    report.mismatched = 1;
    CHECK_FALSE(report.passed());
    report.mismatched = 0;
    report.verification = Verification::all;
    CHECK_FALSE(report.passed());
}

TEST_CASE("an interrupted run is not a failure unless something was wrong before") {
    Report report;
    report.interrupted = true;
    CHECK(interruption_text(report) == "interrupted before the first token\n");
    report.tokens = 5000;
    report.verified = 2024;
    report.unfinished = 3;
    CHECK_FALSE(report.passed());
    CHECK(report.only_interrupted());
    CHECK(interruption_text(report) == "interrupted after 5,000 tokens; verified 2,024, none differ\n");
    report.verified = 0;
    CHECK(interruption_text(report) == "interrupted after 5,000 tokens, before any was verified\n");
    report.verification = Verification::never;
    CHECK(interruption_text(report) ==
          "interrupted after 5,000 tokens; --verify never: nothing was verified\n");
    report.mismatched = 1;
    CHECK_FALSE(report.only_interrupted());
}

}  // namespace croupier::sim
