#include <memory>
#include <string>
#include <utility>

#include "croupier/writer.h"
#include "gpu_writer/enqueued_head.h"
#include "gpu_writer/step_writer.h"
#include "shm/c_abi.h"
#include "shm/caller_struct.h"

namespace gpu_writer = croupier::gpu_writer;
namespace proto = croupier::proto;
namespace shm = croupier::shm;
using shm::done;
using shm::guarded;
using shm::missing;

struct croupier_writer {
    std::unique_ptr<gpu_writer::StepWriter> steps;
    gpu_writer::WriterOptions options;
    shm::HomeProcess home;
    bool enqueue_was_refused = false;  // and the step that it was for is begun still
};

static_assert(CROUPIER_WRITER_AUTO == static_cast<int>(gpu_writer::RowPath::automatic) &&
              CROUPIER_WRITER_STORE == static_cast<int>(gpu_writer::RowPath::store) &&
              CROUPIER_WRITER_COPY == static_cast<int>(gpu_writer::RowPath::copy));
static_assert(CROUPIER_WRITER_ROWS_AUTO == static_cast<int>(gpu_writer::RowsAre::automatic) &&
              CROUPIER_WRITER_ROWS_LENT == static_cast<int>(gpu_writer::RowsAre::lent) &&
              CROUPIER_WRITER_ROWS_COPIED == static_cast<int>(gpu_writer::RowsAre::copied));

namespace {

template <typename Body>
int guarded_writer(const croupier_writer* writer, croupier_error* error, Body&& body) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (writer == nullptr) return missing("writer");
        CROUPIER_TRY(writer->home.check("this writer"));
        return body();
    });
}

// Rows that come after a refused enqueue, for a later step, would be taken for those of its step.
template <typename Body>
int guarded_enqueue(croupier_writer* writer, croupier_error* error, Body&& body) {
    return guarded_writer(writer, error, [&] {
        const gpu_writer::StepWriter& steps = *writer->steps;
        const std::uint64_t before = steps.enqueued();
        if (writer->enqueue_was_refused && steps.begun() - before > 1) {
            return shm::Result<int>(
                shm::fail(shm::Errc::bad_argument,
                          "the last enqueue was refused, and " + std::to_string(steps.begun() - before) +
                              " steps are begun, so that nobody knows whose rows these are: call "
                              "croupier_writer_abandon(), and begin them again"));
        }
        shm::Result<int> result = body();
        writer->enqueue_was_refused = !result && steps.enqueued() == before && before < steps.begun();
        return result;
    });
}

// Each struct's size in the first headers that are kept (tests/abi).
constexpr std::size_t kOptionsAtFirst = 40;
constexpr std::size_t kInfoAtFirst = 88;
constexpr std::size_t kStateAtFirst = 48;
constexpr std::size_t kRowsAtFirst = 56;
constexpr std::size_t kHeadAtFirst = 48;

// The bytes to any row that row_of names are a number of 64 bits.
constexpr std::uint64_t kMaxStride = std::uint64_t{1} << 31;

shm::Result<gpu_writer::WriterOptions> checked(const croupier_writer_options& given) {
    CROUPIER_TRY_VALUE(known, shm::read_struct(given, "croupier_writer_options", kOptionsAtFirst));
    const croupier_writer_options& options = known;
    if (options.segment_path == nullptr) return shm::fail(shm::Errc::bad_argument, "segment_path is null");
    if (options.path > CROUPIER_WRITER_COPY) {
        return shm::fail(shm::Errc::bad_argument, "path is " + std::to_string(options.path) +
                                                      ", allowed: auto, store or copy (0 to 2)");
    }
    if (options.device < CROUPIER_WRITER_HOST) {
        return shm::fail(shm::Errc::bad_argument, "device is " + std::to_string(options.device) +
                                                      ", allowed: -1 (the host) or a GPU's number");
    }
    if (options.store_blocks > CROUPIER_WRITER_MAX_STORE_BLOCKS) {
        return shm::fail(shm::Errc::bad_argument, "store_blocks is " + std::to_string(options.store_blocks) +
                                                      ", allowed: 0 to " +
                                                      std::to_string(CROUPIER_WRITER_MAX_STORE_BLOCKS));
    }
    if (options.rows > CROUPIER_WRITER_ROWS_COPIED) {
        return shm::fail(shm::Errc::bad_argument, "rows is " + std::to_string(options.rows) +
                                                      ", allowed: auto, lent or copied (0 to 2)");
    }
    return gpu_writer::WriterOptions{options.segment_path, options.rank,
                                     options.device,       static_cast<gpu_writer::RowPath>(options.path),
                                     options.store_blocks, static_cast<gpu_writer::RowsAre>(options.rows)};
}

}  // namespace

extern "C" {

const char* croupier_writer_version(void) {
    return CROUPIER_VERSION;
}

int croupier_writer_attach(const croupier_writer_options* options, croupier_writer** writer,
                           croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (options == nullptr) return missing("options");
        if (writer == nullptr) return missing("writer");
        CROUPIER_TRY_VALUE(asked, checked(*options));
        CROUPIER_TRY_VALUE(steps, asked.device == CROUPIER_WRITER_HOST
                                      ? gpu_writer::attach_host_writer(asked)
                                      : gpu_writer::attach_cuda_writer(asked));
        *writer = new croupier_writer{std::move(steps), std::move(asked), {}};
        return 0;
    });
}

void croupier_writer_detach(croupier_writer* writer) {
    // A forked child has neither the mapping nor the threads of what it would take apart.
    if (writer != nullptr && writer->home.is_here()) delete writer;
}

int croupier_writer_get_info(const croupier_writer* writer, croupier_writer_info* info,
                             croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        if (info == nullptr) return missing("info");
        const gpu_writer::RankWriter& rank = writer->steps->rank_writer();
        const proto::Geometry& geometry = rank.geometry();
        const proto::RankShard& shard = geometry.shards[rank.rank()];
        croupier_writer_info ours{};
        ours.vocab = geometry.vocab;
        ours.tp = geometry.tp;
        ours.rank = rank.rank();
        ours.first_id = shard.first_id;
        ours.ids = shard.count;
        ours.dtype = static_cast<std::uint32_t>(geometry.dtype);
        ours.tile = geometry.tile;
        ours.tiles = geometry.tiles(rank.rank());
        ours.max_batch = geometry.max_batch;
        ours.steps_in_flight = geometry.slots;
        ours.has_order = geometry.has_order;
        ours.has_summaries = geometry.has_summaries;
        ours.device = writer->options.device;
        ours.store_blocks = writer->steps->store_blocks();
        ours.transport = geometry.is_lean() ? CROUPIER_TRANSPORT_LEAN : CROUPIER_TRANSPORT_ROWS;
        ours.head_rows = writer->steps->head_rows();
        if (ours.head_rows > 0) ours.head_row_elements = gpu_writer::head_row_elements(geometry, rank.rank());
        ours.row_bytes = writer->steps->row_bytes();
        return done(shm::write_struct(ours, *info, "croupier_writer_info", kInfoAtFirst));
    });
}

int croupier_writer_get_state(const croupier_writer* writer, croupier_writer_state* state,
                              croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        if (state == nullptr) return missing("state");
        const gpu_writer::StepWriter& steps = *writer->steps;
        croupier_writer_state ours{};
        ours.open = steps.rank_writer().session_open() ? 1U : 0U;
        ours.ended = steps.rank_writer().session_ended() ? 1U : 0U;
        ours.begun = steps.begun();
        ours.finished = steps.finished();
        ours.empty_launches = steps.empty_launches();
        ours.late_steps = steps.late_steps();
        return done(shm::write_struct(ours, *state, "croupier_writer_state", kStateAtFirst));
    });
}

int croupier_writer_wait_step(croupier_writer* writer, uint32_t timeout_ms, uint64_t* step, uint32_t* rows,
                              croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        if (step == nullptr) return missing("step");
        if (rows == nullptr) return missing("rows");
        const auto found = writer->steps->wait_step(std::chrono::milliseconds(timeout_ms));
        const gpu_writer::RankWriter& rank_writer = writer->steps->rank_writer();
        if (found) {
            *step = *found;
            *rows = static_cast<std::uint32_t>(rank_writer.columns(*found).size());
            return 1;
        }
        CROUPIER_TRY(rank_writer.not_ended());
        return 0;
    });
}

int croupier_writer_begin(croupier_writer* writer, uint64_t step, croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        if (writer->enqueue_was_refused) {
            return shm::fail(shm::Errc::bad_argument,
                             "the last enqueue was refused, and the step that it was for is begun: enqueue "
                             "its rows, or call croupier_writer_abandon(), before another step is begun");
        }
        CROUPIER_TRY_VALUE(begun, writer->steps->begin(step));
        return begun == gpu_writer::StepWriter::Begin::begun ? 0 : CROUPIER_WRITER_BUSY;
    });
}

int croupier_writer_enqueue_rows(croupier_writer* writer, void* stream, const croupier_rows* rows,
                                 croupier_error* error) {
    return guarded_enqueue(writer, error, [&]() -> shm::Result<int> {
        if (rows == nullptr) return missing("rows");
        CROUPIER_TRY_VALUE(known, shm::read_struct(*rows, "croupier_rows", kRowsAtFirst));
        if (known.logits == nullptr) return missing("logits");
        const gpu_writer::RankWriter& rank = writer->steps->rank_writer();
        const std::uint32_t ids = rank.geometry().shards[rank.rank()].count;
        if (known.row_stride < ids) {
            return shm::fail(shm::Errc::bad_argument, "row_stride is " + std::to_string(known.row_stride) +
                                                          ", a row of rank " + std::to_string(rank.rank()) +
                                                          " has " + std::to_string(ids) + " elements");
        }
        if (known.row_stride > kMaxStride) {
            return shm::fail(shm::Errc::bad_argument, "row_stride is " + std::to_string(known.row_stride) +
                                                          " elements, allowed: up to " +
                                                          std::to_string(kMaxStride));
        }
        return done(writer->steps->enqueue(
            stream,
            {known.logits, known.row_stride, known.row_of, known.inputs, known.parents, known.positions},
            nullptr));
    });
}

int croupier_writer_enqueue_head(croupier_writer* writer, void* stream, const croupier_head* head,
                                 const croupier_rows* rows, croupier_error* error) {
    return guarded_enqueue(writer, error, [&]() -> shm::Result<int> {
        if (head == nullptr) return missing("head");
        CROUPIER_TRY_VALUE(known, shm::read_struct(*head, "croupier_head", kHeadAtFirst));
        if (known.hidden == nullptr) return missing("hidden");
        if (known.weight == nullptr) return missing("weight");
        const gpu_writer::EnqueuedHead given{known.hidden,        known.hidden_stride, known.weight,
                                             known.weight_stride, known.rows,          known.elements};
        if (rows == nullptr) return missing("rows");
        CROUPIER_TRY_VALUE(to, shm::read_struct(*rows, "croupier_rows", kRowsAtFirst));
        if (to.logits == nullptr) return missing("logits");
        const gpu_writer::RankWriter& rank = writer->steps->rank_writer();
        CROUPIER_TRY_VALUE(
            computed, gpu_writer::computed_rows(
                          given, {to.logits, to.row_stride, to.row_of, to.inputs, to.parents, to.positions},
                          rank.geometry(), rank.rank()));
        return done(writer->steps->enqueue(stream, computed, &given));
    });
}

int croupier_writer_enqueue_randoms(croupier_writer* writer, void* stream, croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        const std::uint32_t rank = writer->steps->rank_writer().rank();
        if (rank != 0) {
            return shm::fail(shm::Errc::bad_argument,
                             "rank " + std::to_string(rank) + " has no random ring: rank 0 writes it");
        }
        return done(writer->steps->enqueue_randoms(stream));
    });
}

int croupier_writer_wait_tokens(croupier_writer* writer, uint64_t step, uint32_t timeout_ms,
                                croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        using Wait = gpu_writer::StepWriter::Wait;
        CROUPIER_TRY_VALUE(found, writer->steps->wait_tokens(step, std::chrono::milliseconds(timeout_ms)));
        if (found == Wait::ended) {
            CROUPIER_TRY(writer->steps->rank_writer().not_ended());
        }
        return found == Wait::decided ? 1 : 0;
    });
}

int croupier_writer_enqueue_tokens(croupier_writer* writer, void* stream, uint64_t step, int32_t* tokens,
                                   croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        if (tokens == nullptr) return missing("tokens");
        return done(writer->steps->enqueue_tokens(stream, step, tokens));
    });
}

int croupier_writer_enqueue_awaited_tokens(croupier_writer* writer, void* stream, uint64_t step,
                                           uint32_t timeout_ms, int32_t* tokens, croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        if (tokens == nullptr) return missing("tokens");
        return done(writer->steps->enqueue_awaited_tokens(stream, step, std::chrono::milliseconds(timeout_ms),
                                                          tokens));
    });
}

int croupier_writer_abandon(croupier_writer* writer, croupier_error* error) {
    return guarded_writer(writer, error, [&]() -> shm::Result<int> {
        CROUPIER_TRY(writer->steps->abandon());
        writer->enqueue_was_refused = false;
        return 0;
    });
}

const char* croupier_writer_error_name(uint32_t code) {
    return shm::errc_name(static_cast<shm::Errc>(code));
}

}  // extern "C"
