/* What an engine's scheduler links: a C ABI, so that any language can. include/croupier/client.hpp is the
 * same in C++.
 *
 * A session is used by one thread at a time, and by the process that opened it: a forked child holds nothing
 * of it, and is told so (`forked`). Functions return 0 (or a positive count) on success and -1 on failure;
 * then `error`, when given, says what, where and what would be right.
 */
#ifndef CROUPIER_CLIENT_H
#define CROUPIER_CLIENT_H

#include "croupier/record_channel.h"
#include "croupier/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
typedef struct croupier_session croupier_session;

/* croupier_open_options_init() fills in the defaults; vocab and dtype must be set. */
typedef struct croupier_open_options {
    uint32_t size;
    uint32_t version;
    const char* endpoint; /* of the daemon's control socket; NULL: of this user's own daemon, or of the host's
                             where this user has none (docs/configuration.md, "Without a file") */
    const char* name;     /* of the session: one live client a name */
    uint32_t vocab;
    uint32_t tp;
    uint32_t max_batch; /* rows of a step: columns, or the rows of their windows */
    uint32_t steps_in_flight;
    uint32_t dtype; /* of all rows that writers enqueue, which nothing else tells: it must be set */
    uint32_t tile;  /* ids in a tile: 1 or 64 */
    uint32_t max_sequences;
    uint32_t max_length; /* prompt and output of one sequence */
    uint32_t max_bias;
    uint32_t max_stop_ids;
    uint32_t max_list_tokens; /* words of all lists of one sequence together; a stop string of n bytes has
                                 1 + (n + 3) / 4 */
    uint32_t mask_rows;       /* masks of a step, one a row */
    uint32_t summaries;       /* 1: writers give the largest logit of each tile too; used with tiles of 64 */
    uint32_t takeover;        /* 1: end a live holder's session of the name, with all that is in it */
    const uint32_t* order;    /* all (vocab + 63) / 64 blocks of 64 ids, hottest first; NULL: identity */
    uint32_t resume;          /* 1: go on with a session whose client is gone (croupier_resumed); 0: begin a
                                 new one, and what such a session has is lost */
    uint32_t decisions_over_zmq; /* 1: over ZMQ; by the ring where no message comes, as of a stand-in */
    uint32_t randoms_supplied;   /* 1: rank 0's writer supplies randoms in each step; 0: samplers make them */
    uint32_t timeout_ms;         /* for the daemon's answer; 0: 5000 */
    /* For a tcp endpoint: Z85 CURVE keys. */
    const char* server_key;
    const char* client_public_key;
    const char* client_secret_key;
    /* The order comes from this file, which `croupier hotset build` wrote for the vocabulary; instead of
     * `order`. */
    const char* hotness_file;
    /* The session is on another host: requests to the daemon there and records go through this channel to the
     * relay beside it (`croupier relay`), which also returns the decisions, whatever decisions_over_zmq says.
     * `endpoint` and the keys stay NULL. The channel must outlive the session. NULL: the session is on this
     * host. */
    const croupier_record_channel* relay;
    /* What the ranks hold together: the vocabulary and the engine's padding after it, which is never drawn.
     * Shares are equal where it is a multiple of tp, else as croupier_writer_get_info() tells. 0: vocab. */
    uint32_t padded_vocab;
    /* How many of the best log-probs one sequence may ask for (croupier_params.logprobs), up to
     * CROUPIER_MAX_SESSION_LOGPROBS. */
    uint32_t max_logprobs;
    /* How many ids each of the tp ranks holds, where the shares are not equal: together the vocabulary, or
     * more for padding after it. NULL: equal shares of padded_vocab. */
    const uint32_t* shard_ids;
    /* How many of the tokens left to draw from one sequence may ask for (croupier_params.support), up to
     * CROUPIER_MAX_SESSION_SUPPORT and to what the daemon's configuration allows (sessions.max_support). Each
     * column of each step in flight has room for so many: 16 bytes each. */
    uint32_t max_support;
    /* CROUPIER_TRANSPORT_...: LEAN where the writers are on GPUs, whose rows are then lent unless the writer
     * copies them (croupier/writer.h). A resumed session keeps the transport that it was opened with. */
    uint32_t transport;
    /* Columns of a step, of whatever rows. 0: max_batch. Where windows have several rows each, LEAN then
     * needs shared memory for a whole row of each window, in place of each row. */
    uint32_t max_windows;
    /* 1: this client keeps no texts, for which it decodes each token: croupier_text() and
     * croupier_text_stop() fail, and what decisions say of a text beside their flags is 0. Samplers look for
     * stop strings anyway. */
    uint32_t without_texts;
    /* The path of the model's tokenizer.json or tiktoken file, for stop strings and croupier_text(). NULL:
     * the session has neither. It is read here and now; samplers get the bytes of its tokens with the
     * session. */
    const char* tokenizer;
} croupier_open_options;

static inline void croupier_open_options_init(croupier_open_options* options) {
    memset(options, 0, sizeof(*options));
    options->size = (uint32_t)sizeof(*options);
    options->version = CROUPIER_ABI_VERSION;
    options->endpoint = NULL;
    options->name = "default";
    options->tp = 1;
    options->max_batch = 64;
    options->steps_in_flight = 2;
    options->dtype = CROUPIER_DTYPE_UNSET;
    options->tile = 64;
    options->max_sequences = 256;
    options->max_length = 8192;
    options->max_bias = 64;
    options->max_stop_ids = 8;
    options->max_list_tokens = 2048; /* all stop strings that a sequence may have need 1,040 */
}

/* croupier_column_of() begins one; it may grow. */
typedef struct croupier_column {
    uint64_t uid;
    const uint32_t* mask; /* grammar masks, (vocab + 31) / 32 words for each row; NULL: all allowed */
    /* More than 1: a window, so many rows of the sequence one after another, at most CROUPIER_MAX_WINDOW_ROWS
     * in all its steps in flight. The writer says what each row was computed from (croupier_rows). The first
     * is the sequence's next token; another counts where it was computed from the token that is decided
     * before it, and is else answered with the decision error rejected, which brings no token and ends
     * nothing. 0: 1. */
    uint32_t rows;
    uint32_t reserved; /* 0 */
} croupier_column;

/* One row of the sequence, where all tokens are allowed. */
static inline croupier_column croupier_column_of(uint64_t uid) {
    croupier_column column;
    memset(&column, 0, sizeof(column));
    column.uid = uid;
    column.rows = 1;
    return column;
}

typedef struct croupier_step {
    uint32_t size;
    uint32_t version;
    uint64_t step;
    uint32_t count;        /* rows of all columns */
    uint16_t refused;      /* not 0: the whole step was refused, with this decision error */
    uint16_t reserved;     /* 0 */
    const void* decisions; /* croupier_step_decision() reads them; valid until the next call on the session */
    size_t decision_size;  /* of one of them */
} croupier_step;

static inline void croupier_step_init(croupier_step* step) {
    memset(step, 0, sizeof(*step));
    step->size = (uint32_t)sizeof(*step);
    step->version = CROUPIER_ABI_VERSION;
}

/* The decision of a row, the columns' rows one after another; what the library does not know of is 0. */
static inline croupier_decision croupier_step_decision(const croupier_step* step, size_t row) {
    croupier_decision decision;
    const size_t known = step->decision_size < sizeof(decision) ? step->decision_size : sizeof(decision);
    memset(&decision, 0, sizeof(decision));
    memcpy(&decision, (const char*)step->decisions + row * step->decision_size, known);
    return decision;
}

/* The library's release, such as "1.0.0". */
const char* croupier_version(void);

int croupier_open(const croupier_open_options* options, croupier_session** session, croupier_error* error);
/* Leaves the daemon's sessions as they are, as a process that dies would; `resume` finds it again. */
void croupier_detach(croupier_session* session);
/* Closes the session: its memory is given back. The handle is gone in any case. If the daemon does not answer
 * within timeout_ms, this fails, and the session ends when nobody resumes it. Closing a session that has
 * ended already succeeds; it fails with stale_epoch if another client took the session over. */
int croupier_close(croupier_session* session, croupier_error* error);

/* Where the ranks' writers attach, on the session's host. */
const char* croupier_segment_path(const croupier_session* session);
/* 1 when open() went on with an earlier session; 0 when it made a new one, to which the caller adds its
 * sequences with the outputs that it has. A resumed session has its sequences (croupier_list), their outputs
 * up to the last step that was waited for (croupier_output), its steps in flight (croupier_in_flight), which
 * are to be waited for, and its writers. docs/examples/two_ranks.cpp resumes. */
int croupier_resumed(const croupier_session* session);

int croupier_add(croupier_session* session, const croupier_sequence* sequence, croupier_error* error);
/* Adds the sequence `uid`, which goes on from the first `outputs` outputs of the live sequence `parent`, with
 * its parameters and lists. `child` is its own number, 0 to CROUPIER_MAX_CHILD, or 0 with rng sglang and
 * vllm. With the parent's it is decided as the parent, with another it draws by other randoms. Mirostat and
 * adaptive-p begin anew if it is forked from before the last 64 outputs that the parent ever had. */
int croupier_fork(croupier_session* session, uint64_t parent, uint64_t uid, uint32_t outputs, uint32_t child,
                  croupier_error* error);
/* Ends a sequence; read its output first. A stopped sequence counts among max_sequences until then.
 * Its uid may be added again at once. The steps in flight that it stands in are still waited for: its columns
 * in them are answered with the decision error void, those of other sequences are decided; when they have
 * been, its slot is free. Before, it counts among max_sequences. */
int croupier_finish(croupier_session* session, uint64_t uid, croupier_error* error);
/* Keeps the first `outputs` tokens of its output and forgets the others, as if they had never been decided.
 * Mirostat and adaptive-p begin anew if that is before the last 64 outputs that it ever had. What it has in
 * flight is void: a column that is decided already brings no token either, though a worker's
 * croupier_writer_enqueue_tokens() may have had it. */
int croupier_truncate(croupier_session* session, uint64_t uid, uint32_t outputs, croupier_error* error);
/* Lengthens the output of a live sequence, as if these tokens had been decided: another token than the one
 * that was drawn, after croupier_truncate(), or tokens that need no decision. It may not stand in a step in
 * flight, nor be in a session on another host. Mirostat and adaptive-p begin anew. */
int croupier_append(croupier_session* session, uint64_t uid, const int32_t* tokens, size_t count,
                    croupier_error* error);
/* The uids of live sequences; returns how many there are or -1, writes at most `room`. */
int64_t croupier_list(const croupier_session* session, uint64_t* uids, size_t room, croupier_error* error);
/* A live sequence's output, as far as steps were waited for; returns its length or -1, writes at most `room`.
 */
int64_t croupier_output(const croupier_session* session, uint64_t uid, int32_t* tokens, size_t room,
                        croupier_error* error);

/* The released text of a live sequence's output, as far as steps were waited for, from byte `from` on: writes
 * at most `room` bytes and returns how many there are, or -1. The text is UTF-8. Whole characters are
 * released, and nothing that may still become a part of a stop string; when the sequence ends, all that is
 * left, up to what ended the text. A truncate takes the released text of the tokens back that it takes back.
 */
int64_t croupier_text(const croupier_session* session, uint64_t uid, uint64_t from, char* bytes, size_t room,
                      croupier_error* error);

/* What of its text the last token of a live sequence's output completes: CROUPIER_STOPPED_STRING, which stop
 * string and where it begins; CROUPIER_STOPPED_JSON, and where the value begins; 0; or -1. For a client that
 * has resumed a session and did not see the decision; the ids of its output show the other ends. */
int croupier_text_stop(const croupier_session* session, uint64_t uid, uint32_t* stop_string,
                       uint64_t* stop_begin, croupier_error* error);

/* Publishes a step: one column a sequence, of which one element has `column_size` bytes. The step has a
 * decision for each of their rows, in this order. Fails with ring_full when every slot is in flight.
 *
 * A sequence may stand in several steps in flight: its columns are decided one after another, each when the
 * one before it is. After a decision that ends the sequence (a stop, an error, a step that was given up), and
 * after croupier_truncate(), those in flight are void: they bring no token, and wait for no logits. A column
 * that is submitted once that decision was waited for goes on from there, beyond the stop: the engine calls
 * croupier_finish(). */
int croupier_submit_columns(croupier_session* session, const croupier_column* columns, size_t count,
                            size_t column_size, uint64_t* step, croupier_error* error);
static inline int croupier_submit(croupier_session* session, const croupier_column* columns, size_t count,
                                  uint64_t* step, croupier_error* error) {
    return croupier_submit_columns(session, columns, count, sizeof(croupier_column), step, error);
}
/* Steps published and not yet waited for. */
uint32_t croupier_in_flight(const croupier_session* session);
/* The oldest step in flight, into a struct that croupier_step_init() began: 1 and its decisions, 0 when it is
 * not decided within timeout_ms (0: only a look), -1 on failure. A daemon that restarts meanwhile goes
 * unnoticed when it is back within the time-out.
 */
int croupier_wait(croupier_session* session, uint32_t timeout_ms, croupier_step* step, croupier_error* error);

/* A descriptor for poll(), epoll or an event loop, the session's own: -1 on failure. When it is readable,
 * call croupier_wait() with timeout_ms 0 until it returns 0, or until no step is in flight: then nothing is
 * lost by waiting for the descriptor again. It may be readable though no step is decided. What becomes of the
 * daemon is seen by croupier_wait() alone: call it once a second in any case; with no step in flight it fails
 * with what is wrong, such as daemon_gone or session_closed, or with bad_argument if all is well. A
 * daemon_gone of such a look is final only if it lasts: a daemon that is started again has its sessions. The
 * first call starts a thread of the library where the session is on this host. */
int croupier_event_fd(croupier_session* session, croupier_error* error);

/* Gives up a step in flight, for instance because a rank's logits will not come: each column that nobody has
 * begun to decide is answered with the decision error given_up, and the position of its sequence is asked for
 * again. croupier_wait() returns the step in its turn. What a late rank still writes for it counts for
 * nothing. */
int croupier_give_up(croupier_session* session, uint64_t step, croupier_error* error);

const char* croupier_error_name(uint32_t code);
const char* croupier_decision_error_text(uint16_t error);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
