/* What a GPU worker links or loads: a C ABI that puts one rank's logits into a session's rings. With device
 * -1 the logits are the host's and the work is done in the call; else they are that GPU's and the work is
 * enqueued on the worker's stream.
 *
 * A step: croupier_writer_wait_step, croupier_writer_begin, the forward pass, croupier_writer_enqueue.
 * A writer is used by one thread at a time. Functions return 0 (or what they say) on success and -1 on
 * failure; then `error`, when given, says what, where and what would be right.
 */
#ifndef CROUPIER_WRITER_H
#define CROUPIER_WRITER_H

#include "croupier/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
typedef struct croupier_writer croupier_writer;

enum { CROUPIER_WRITER_HOST = -1, CROUPIER_WRITER_MAX_STORE_BLOCKS = 1024 };

enum {
    CROUPIER_WRITER_AUTO = 0, /* copies, and stores what is captured into a CUDA graph */
    /* A kernel of few blocks stores straight into the segment, on the worker's own stream. */
    CROUPIER_WRITER_STORE = 1,
    /* Tiled into GPU memory on the worker's stream, sent by the copy engine behind it. Not while a CUDA graph
     * is captured: the copies' destination changes from step to step. */
    CROUPIER_WRITER_COPY = 2
};

/* Of a GPU's rows in a session of CROUPIER_TRANSPORT_LEAN: samplers may ask for more of them until the step
 * is decided. Whole rows may be written over behind their enqueue, whatever is chosen here. */
enum {
    CROUPIER_WRITER_ROWS_AUTO = 0, /* lent */
    /* They stay as they are until the step is decided (croupier_writer_wait_tokens). */
    CROUPIER_WRITER_ROWS_LENT = 1,
    /* Later work of the stream may write over them: behind the step they are copied within the GPU's memory,
     * where max_batch rows of the rank's ids have room for each of the steps in flight. */
    CROUPIER_WRITER_ROWS_COPIED = 2
};

/* croupier_writer_options_init() fills in the defaults; segment_path must be set. */
typedef struct croupier_writer_options {
    uint32_t size;
    uint32_t version;
    const char* segment_path; /* as the scheduler was told it when it opened the session */
    uint32_t rank;
    int32_t device;        /* of CUDA; CROUPIER_WRITER_HOST: none */
    uint32_t path;         /* of whole rows; CROUPIER_WRITER_AUTO in a session of CROUPIER_TRANSPORT_LEAN */
    uint32_t store_blocks; /* the most multiprocessors that the store kernel occupies; 0: the default */
    uint32_t rows;
} croupier_writer_options;

static inline void croupier_writer_options_init(croupier_writer_options* options) {
    memset(options, 0, sizeof(*options));
    options->size = (uint32_t)sizeof(*options);
    options->version = CROUPIER_ABI_VERSION;
    options->device = CROUPIER_WRITER_HOST;
    options->path = CROUPIER_WRITER_AUTO;
    options->rows = CROUPIER_WRITER_ROWS_AUTO;
}

typedef struct croupier_writer_info {
    uint32_t size;
    uint32_t version;
    uint32_t vocab;
    uint32_t tp;
    uint32_t rank;
    uint32_t first_id; /* of this rank's part of the vocabulary */
    uint32_t ids;
    uint32_t dtype; /* 0: bf16, 1: fp16, 2: fp32 */
    uint32_t tile;
    uint32_t tiles;
    uint32_t max_batch;
    uint32_t steps_in_flight;
    uint32_t has_order; /* 1: the writer lays blocks of ids in the session's hotness order */
    uint32_t has_summaries;
    int32_t device;
    uint32_t store_blocks;
    uint32_t transport; /* CROUPIER_TRANSPORT_... */
    /* 0: croupier_writer_enqueue_head() cannot run here. Else steps of up to so many rows take 0.9 to 1.1 of
     * the time that they take with a library's product. */
    uint32_t head_rows;
    uint32_t head_row_elements; /* of a row that it computes, at least */
    uint32_t reserved;          /* 0 */
    uint64_t row_bytes;         /* of the GPU's memory, where lean steps' rows are copied */
} croupier_writer_info;

static inline void croupier_writer_info_init(croupier_writer_info* info) {
    memset(info, 0, sizeof(*info));
    info->size = (uint32_t)sizeof(*info);
    info->version = CROUPIER_ABI_VERSION;
}

typedef struct croupier_writer_state {
    uint32_t size;
    uint32_t version;
    /* 0: it has ended, or neither a client nor a daemon lives: if a daemon is started and a client resumes
     * the session, it is 1 again, and this writer goes on. */
    uint32_t open;
    uint32_t ended;    /* 1: the session was closed, or another writer or client took over: no step comes */
    uint64_t begun;    /* steps that croupier_writer_begin queued */
    uint64_t finished; /* of them, those whose slice is complete */
    /* Replays of a captured graph, and enqueues behind a capture, that found no begun step and wrote nothing.
     */
    uint64_t empty_launches;
    uint64_t late_steps; /* some of whose awaited tokens did not come in time: those are -1 here, and may
                            not be elsewhere */
} croupier_writer_state;

static inline void croupier_writer_state_init(croupier_writer_state* state) {
    memset(state, 0, sizeof(*state));
    state->size = (uint32_t)sizeof(*state);
    state->version = CROUPIER_ABI_VERSION;
}

/* What a step's columns are decided from: croupier_rows_init(), then the rows. The arrays have an entry for
 * each of the step's columns, or rows where it has windows (croupier_column.rows), in the memory of the
 * writer's device. All ranks give the same. A GPU reads them when the launch runs: later work of the stream
 * may write over them. */
typedef struct croupier_rows {
    uint32_t size;
    uint32_t version;
    const void* logits;     /* each row of the rank's ids in the order of the ids, in the session's dtype */
    uint64_t row_stride;    /* elements from one row to the next */
    const int32_t* row_of;  /* the column's row among the logits; -1: none. NULL: the column's own number */
    const int32_t* inputs;  /* of a step with windows: the token that was fed where the row was computed. -1
                               in a window's last rows: there are none. -2 in a head: not told */
    const int32_t* parents; /* the column of its window that the input follows; NULL: the one before */
    /* Where the token that was fed stands in prompt and output together, from 0 on. A GPU draws a row's token
     * at the place behind it, and samplers take such a draw only if that is right. NULL or negative: as the
     * step's record guesses it, which is too low where windows in flight before bring more than one token
     * each. A host's writer does not read them. */
    const int32_t* positions;
} croupier_rows;

static inline void croupier_rows_init(croupier_rows* rows) {
    memset(rows, 0, sizeof(*rows));
    rows->size = (uint32_t)sizeof(*rows);
    rows->version = CROUPIER_ABI_VERSION;
}

/* What rows of logits are computed from: croupier_head_init(), then two matrices in the memory of the
 * writer's device, in the session's dtype. Both begin at multiples of 16 bytes; strides are elements from one
 * row to the next, and multiples of 8. */
typedef struct croupier_head {
    uint32_t size;
    uint32_t version;
    const void* hidden; /* `rows` rows of hidden states */
    uint64_t hidden_stride;
    const void* weight; /* of the LM head, a row for each of the rank's ids in their order */
    uint64_t weight_stride;
    uint32_t rows;     /* at most the session's max_batch */
    uint32_t elements; /* of a row of either: a multiple of 8 */
} croupier_head;

static inline void croupier_head_init(croupier_head* head) {
    memset(head, 0, sizeof(*head));
    head->size = (uint32_t)sizeof(*head);
    head->version = CROUPIER_ABI_VERSION;
}

enum { CROUPIER_WRITER_BUSY = 1 };

/* The library's release, such as "1.0.0". */
const char* croupier_writer_version(void);

/* Takes the rank, whose earlier writer must be gone; registers its memory with the GPU. */
int croupier_writer_attach(const croupier_writer_options* options, croupier_writer** writer,
                           croupier_error* error);
/* Waits for what was enqueued. */
void croupier_writer_detach(croupier_writer* writer);
/* Into structs that their init functions began. */
int croupier_writer_get_info(const croupier_writer* writer, croupier_writer_info* info,
                             croupier_error* error);
int croupier_writer_get_state(const croupier_writer* writer, croupier_writer_state* state,
                              croupier_error* error);

/* The oldest step in flight that wants this rank's slice and is not begun: 1, its number and its rows, of
 * whatever columns; 0: there was none within timeout_ms (0: only a look). When there will be none
 * (croupier_writer_state.ended is 1), it fails at once: with session_closed, or with stale_epoch where
 * another writer or client took over. */
int croupier_writer_wait_step(croupier_writer* writer, uint32_t timeout_ms, uint64_t* step, uint32_t* rows,
                              croupier_error* error);

/* Queues the step for the next enqueue, without waiting for the GPU. CROUPIER_WRITER_BUSY:
 * the step is not scheduled yet, or as many steps as the session has slots are begun and not finished.
 * Fails for a step that is over or complete and for a writer that was fenced. Steps are begun in order: it
 * fails where an older one wants the rank's slice. It also fails behind an enqueue that was refused, until
 * that step's rows are enqueued or the step is abandoned: they would be laid for that step. So does another
 * enqueue where more steps are begun. */
int croupier_writer_begin(croupier_writer* writer, uint64_t step, croupier_error* error);

/* Lays the next begun step. Never waits for the GPU, allocates nothing, and may be captured into a CUDA
 * graph that is replayed once after each begin: only what `rows` has is fixed in it. If steps with windows
 * are begun, each enqueue that is captured, or comes behind a capture, has inputs: nobody else knows which
 * step it sends. They are not read in a step without windows.
 * In a step with windows a column without a row is answered with CROUPIER_DECISION_REJECTED, or if it is a
 * head with CROUPIER_DECISION_BAD_INPUT; in one without, as a row of nothing but -inf, and a host's writer
 * refuses it. The rows may be overwritten by later work of the stream. But where steps are lean, a GPU's rows
 * that are lent must stay as they are until the step is decided (croupier_writer_wait_tokens), those of a
 * graph too. Where a sampler asks for more of the rows before any stream waits for the step's tokens
 * (croupier_writer_enqueue_awaited_tokens), work of the writer's own stays on the GPU until the step is
 * decided or given up, for at most 300 seconds after the step was sent: cudaDeviceSynchronize() waits for
 * that, and so may a stream that shares a queue of the GPU. Successive calls use one stream, or streams that
 * wait for each other. A host's writer has a NULL stream. */
int croupier_writer_enqueue_rows(croupier_writer* writer, void* stream, const croupier_rows* rows,
                                 croupier_error* error);
/* The same of a step without windows, whose columns' rows stand one after another. */
static inline int croupier_writer_enqueue(croupier_writer* writer, void* stream, const void* logits,
                                          uint64_t row_stride, croupier_error* error) {
    croupier_rows rows;
    croupier_rows_init(&rows);
    rows.logits = logits;
    rows.row_stride = row_stride;
    return croupier_writer_enqueue_rows(writer, stream, &rows, error);
}

/* The same of rows that the writer computes: hidden times the transpose of weight, summed in fp32 and rounded
 * once, to nearest. A row's logits depend on its hidden states and the weight alone, not on the batch or its
 * place there. For lean steps on a GPU of compute capability 9.0, in bf16 or fp16; refused elsewhere.
 * `rows` says where they go: `logits` has room for `rows` of croupier_head, each of at least
 * `head_row_elements` (croupier_writer_info) and a multiple of 8, from a multiple of 16 bytes on. The rank's
 * first id stands at place first_id % 64 of a row, and logits that cannot win may be left out. row_of counts
 * rows of hidden, and a column whose row is not among them has none. Rows that are lent, their hidden states
 * and the weight stay as they are until the step is decided: blocks are multiplied again where a sampler
 * asks for what was left out. Where rows are copied nothing is left out, and later work of the stream may
 * write over all of them. A captured enqueue keeps addresses and sizes: all must be there at each replay,
 * with whatever values. A column that is beyond the rows has none in a replayed step and behind a capture;
 * elsewhere the call is refused. On an H100 the product of up to 64 columns is sooner than cuBLAS's, of up to
 * 128 where requests are plain; of 256 it is later by up to 15 %. */
int croupier_writer_enqueue_head(croupier_writer* writer, void* stream, const croupier_head* head,
                                 const croupier_rows* rows, croupier_error* error);

/* For rank 0, before the same step's enqueue on the same stream, where the session's writer supplies the
 * randoms: Philox4x32-10 of each column's seed, child and position in prompt and output together. */
int croupier_writer_enqueue_randoms(croupier_writer* writer, void* stream, croupier_error* error);

/* Whether every row of a step that this writer began is decided: 1, or 0 when that did not come within
 * timeout_ms (0: only a look). Fails at once as croupier_writer_wait_step() does when the session is over and
 * a row is undecided, and when the step's slot holds a later step, whose submission says that the scheduler
 * has the tokens. */
int croupier_writer_wait_tokens(croupier_writer* writer, uint64_t step, uint32_t timeout_ms,
                                croupier_error* error);

/* The tokens of a step that croupier_writer_wait_tokens() saw decided, straight from the segment and without
 * the scheduler: enqueues their way to `tokens`, an int32 for each row of the step in the memory of the
 * writer's device. -1 where a decision is an error. Before the next step's slice is enqueued on the same
 * stream. */
int croupier_writer_enqueue_tokens(croupier_writer* writer, void* stream, uint64_t step, int32_t* tokens,
                                   croupier_error* error);

/* The same of a step that this writer began and that need not be decided yet: what follows in the stream
 * waits for its tokens, at most timeout_ms from now on, and this call does not. A row has -1 where its
 * decision is an error or did not come in time, so that a daemon that is dead holds up a GPU for that long
 * and no longer. A lean step's enqueue comes first, or the launch of the graph that replays it, whose stream
 * is the best to wait in: in another one a kernel waits on the GPU for it. Before its enqueue a lean
 * step is refused. What a lean step's samplers ask for after that time is not answered where rows are lent.
 * Not while a CUDA graph is captured. A thread of the library looks for the tokens. A writer on the host
 * waits in the call, and no longer than its session lasts. */
int croupier_writer_enqueue_awaited_tokens(croupier_writer* writer, void* stream, uint64_t step,
                                           uint32_t timeout_ms, int32_t* tokens, croupier_error* error);

/* Forgets the steps that are begun and were not enqueued, for instance after a failed forward pass: they can
 * be begun again, with their randoms. What was enqueued must be finished: synchronise the stream first. */
int croupier_writer_abandon(croupier_writer* writer, croupier_error* error);

const char* croupier_writer_error_name(uint32_t code);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
