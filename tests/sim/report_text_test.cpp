#include "sim/report_text.h"

#include <catch2/catch.hpp>

namespace croupier::sim {

TEST_CASE("numbers have their thousands apart") {
    CHECK(with_commas(0) == "0");
    CHECK(with_commas(999) == "999");
    CHECK(with_commas(9102) == "9,102");
    CHECK(with_commas(1234567890) == "1,234,567,890");
}

TEST_CASE("a failed run gives the worst reason first, and no zeros") {
    Report report;
    report.tokens = 9102;
    report.verified = 2021;
    report.mismatched = 3;
    report.first_mismatch = "request 7, position 2";
    report.unfinished = 12;
    report.fault = "a writer was killed by signal 9";
    CHECK(failure_text(report) ==
          "3 tokens of 2,024 verified differ from the reference; the first: request 7, position 2; a writer "
          "was killed by signal 9");
    report = {};
    report.tokens = 9102;
    report.verified = 9101;
    CHECK_FALSE(report.sound());
    CHECK(failure_text(report) == "only 9,101 of 9,102 tokens verified");
    report.unfinished = 1;
    CHECK(failure_text(report) == "1 request unfinished");
    report.left_in_shm = 1;
    CHECK(failure_text(report) == "1 file left in /dev/shm");
}

TEST_CASE("a sample is enough when some of it was verified and none of it differs") {
    Report report;
    report.tokens = 9102;
    report.verification = Verification::sample;
    CHECK_FALSE(report.sound());
    report.verified = 1;
    CHECK(report.sound());
    report.mismatched = 1;
    CHECK_FALSE(report.sound());
    report.mismatched = 0;
    report.verification = Verification::all;
    CHECK_FALSE(report.sound());
}

TEST_CASE("an interrupted run is no failure, unless something was wrong before") {
    Report report;
    report.interrupted = true;
    CHECK(interruption_text(report) == "interrupted before the first token\n");
    report.tokens = 5000;
    report.verified = 2024;
    report.unfinished = 3;
    CHECK_FALSE(report.sound());
    CHECK(report.only_interrupted());
    CHECK(interruption_text(report) == "interrupted after 5,000 tokens; 2,024 verified, none differ\n");
    report.mismatched = 1;
    CHECK_FALSE(report.only_interrupted());
}

}  // namespace croupier::sim
