// The C ABI: what it refuses, and what the shared library gives away.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

std::string refusal_of(const croupier_writer_options& options) {
    croupier_writer* writer = nullptr;
    croupier_error error{};
    const int status = croupier_writer_attach(&options, &writer, &error);
    if (status == 0) croupier_writer_detach(writer);
    CHECK(status == -1);
    return error.text;
}

croupier_writer_options options_for(const std::string& path) {
    croupier_writer_options options;
    croupier_writer_options_init(&options);
    options.segment_path = path.c_str();
    return options;
}

}  // namespace

TEST_CASE("options that cannot be are refused, each by a text that names it") {
    SessionFiles files(testing::small_geometry());
    auto options = options_for(files.segment.path());
    SECTION("version") {
        options.version = 99U << 16U;
        CHECK_THAT(refusal_of(options), Catch::Contains("croupier_writer_options: the caller has ABI 99.0"));
    }
    SECTION("path") {
        options.path = 3;
        CHECK(refusal_of(options) == "path is 3, allowed: auto, store or copy (0 to 2)");
    }
    SECTION("rows") {
        options.rows = 3;
        CHECK(refusal_of(options) == "rows is 3, allowed: auto, lent or copied (0 to 2)");
    }
    SECTION("store_blocks") {
        options.store_blocks = 1025;
        CHECK(refusal_of(options) == "store_blocks is 1025, allowed: 0 to 1024");
    }
    SECTION("device") {
        options.device = -2;
        CHECK(refusal_of(options) == "device is -2, allowed: -1 (the host) or a GPU's number");
    }
    SECTION("a GPU that is not there") {
        options.device = 1000;
        CHECK_THAT(refusal_of(options), Catch::Contains("CUDA"));
    }
    SECTION("segment_path") {
        options.segment_path = nullptr;
        CHECK(refusal_of(options) == "segment_path is null");
    }
    SECTION("rank") {
        options.rank = 1;
        CHECK(refusal_of(options) == "rank 1 does not exist: session session has ranks 0 to 0");
    }
    SECTION("a segment that is not there") {
        options.segment_path = "/dev/shm/no-such-segment";
        CHECK_THAT(refusal_of(options), Catch::Contains("/dev/shm/no-such-segment"));
    }
}

TEST_CASE("an order that names another rank's block is refused") {
    const auto way = GENERATE(Way::host, Way::store);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = testing::small_geometry();
    geometry.has_order = 1;
    SessionFiles files(geometry);
    testing::lay_orders(files.segment, 1);
    files.segment.order(0)[3] = 1000;
    auto options = options_for(files.segment.path());
    options.device = way == Way::host ? CROUPIER_WRITER_HOST : 0;
    CHECK_THAT(refusal_of(options), Catch::Contains("the order of rank 0 is refused") &&
                                        Catch::Contains("entry 3 is 1000, its blocks are 0 to 15"));
}

TEST_CASE("rows, streams and ranks that cannot be are refused") {
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 2;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    WriterUnderTest writer(Way::host, files.segment.path(), 1, 1000);
    const std::vector<std::uint16_t> row(500);
    int not_a_stream = 0;
    croupier_error error{};
    CHECK(croupier_writer_enqueue(writer.get(), nullptr, row.data(), 499, &error) == -1);
    CHECK(std::string(error.text) == "row_stride is 499, a row of rank 1 has 500 elements");
    CHECK(croupier_writer_enqueue(writer.get(), nullptr, nullptr, 500, &error) == -1);
    CHECK(std::string(error.text) == "logits is null");
    CHECK(croupier_writer_enqueue(writer.get(), &not_a_stream, row.data(), 500, &error) == -1);
    CHECK(std::string(error.text) == "a host's writer has no stream: give it NULL");
    CHECK(croupier_writer_enqueue(writer.get(), nullptr, row.data(), 500, &error) == -1);
    CHECK(std::string(error.text) == "no step is begun that was not enqueued: begin one first");
    CHECK(croupier_writer_enqueue_randoms(writer.get(), nullptr, &error) == -1);
    CHECK(std::string(error.text) == "rank 1 has no random ring: rank 0 writes it");
}

TEST_CASE("a writer tells its part of the session's geometry") {
    const auto way = GENERATE(Way::host, Way::store);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 3;
    geometry.dtype = proto::Dtype::fp16;
    geometry.has_summaries = 1;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    WriterUnderTest writer(way, files.segment.path(), 2, 64);
    croupier_writer_info info;
    croupier_writer_info_init(&info);
    REQUIRE(croupier_writer_get_info(writer.get(), &info, nullptr) == 0);
    CHECK(info.vocab == 1000);
    CHECK(info.tp == 3);
    CHECK(info.rank == 2);
    CHECK(info.first_id == 668);
    CHECK(info.ids == 332);
    CHECK(info.dtype == 1);
    CHECK(info.tile == 64);
    CHECK(info.tiles == 6);
    CHECK(info.max_batch == 8);
    CHECK(info.steps_in_flight == 2);
    CHECK(info.has_order == 0);
    CHECK(info.has_summaries == 1);
    CHECK(info.device == (way == Way::host ? -1 : 0));
}

TEST_CASE("a writer that is null is refused by name") {
    croupier_error error{};
    std::uint64_t step = 0;
    std::uint32_t columns = 0;
    std::int32_t token = 0;
    croupier_rows rows;
    croupier_rows_init(&rows);
    const auto refused = [&](int status) {
        CHECK(status == -1);
        CHECK(std::string(error.text) == "writer is null");
        error = {};
    };
    refused(croupier_writer_wait_step(nullptr, 0, &step, &columns, &error));
    refused(croupier_writer_begin(nullptr, 0, &error));
    refused(croupier_writer_enqueue_rows(nullptr, nullptr, &rows, &error));
    refused(croupier_writer_enqueue_randoms(nullptr, nullptr, &error));
    refused(croupier_writer_wait_tokens(nullptr, 0, 0, &error));
    refused(croupier_writer_enqueue_tokens(nullptr, nullptr, 0, &token, &error));
    refused(croupier_writer_enqueue_awaited_tokens(nullptr, nullptr, 0, 0, &token, &error));
    refused(croupier_writer_abandon(nullptr, &error));
    croupier_writer_detach(nullptr);
}

TEST_CASE("libcroupier_writer.so gives every function of the C ABI and keeps its C++ to itself") {
    const std::unique_ptr<void, int (*)(void*)> library(::dlopen(LIBCROUPIER_WRITER, RTLD_NOW | RTLD_LOCAL),
                                                        ::dlclose);
    REQUIRE(library != nullptr);
    for (const char* name :
         {"croupier_writer_version", "croupier_writer_attach", "croupier_writer_detach",
          "croupier_writer_get_info", "croupier_writer_get_state", "croupier_writer_wait_step",
          "croupier_writer_begin", "croupier_writer_enqueue_rows", "croupier_writer_enqueue_randoms",
          "croupier_writer_abandon", "croupier_writer_error_name"}) {
        INFO(name);
        CHECK(::dlsym(library.get(), name) != nullptr);
    }
    CHECK(::dlsym(library.get(), "_ZN8croupier3shm9errc_nameENS0_4ErrcE") == nullptr);
    CHECK(::dlsym(library.get(), "cudaMalloc") == nullptr);
}
