#include "gpu_writer/lean_memory.h"

#include <catch2/catch.hpp>

using namespace croupier;
using gpu_writer::with_memory_advice;
using shm::Errc;

namespace {

const std::string kLacking =
    "cannot allocate 233373696 bytes of GPU memory for the rows of 3 steps: out of memory";

}  // namespace

TEST_CASE("a lean writer that copies rows and lacks GPU memory advises to lend them", "[lean]") {
    const shm::Error error = with_memory_advice({Errc::no_memory, kLacking}, true);
    CHECK(error.code == Errc::no_memory);
    CHECK(error.message == kLacking +
                               "; lend the rows instead (`rows` of croupier_writer_options): then they must "
                               "stay unchanged until their step is decided, and are not copied");
}

TEST_CASE("a lean writer that is lent rows and lacks GPU memory advises the path that stages no rows",
          "[lean]") {
    const shm::Error error = with_memory_advice({Errc::no_memory, kLacking}, false);
    CHECK(error.message ==
          kLacking +
              "; leave more GPU memory free, or open the session with the transport rows and "
              "attach with the path `store`, which stages no rows in GPU memory");
}

TEST_CASE("an error of a lean writer that is not a lack of memory has no advice about memory", "[lean]") {
    const shm::Error error = with_memory_advice({Errc::system_error, "cannot create a stream"}, true);
    CHECK(error.code == Errc::system_error);
    CHECK(error.message == "cannot create a stream");
}
