/* What an engine's scheduler links: a C ABI, so that any language can. include/croupier/client.hpp is the
 * same in C++.
 *
 * A session is used by one thread at a time, and by the process that opened it: a forked child holds nothing
 * of it, and is told so (`forked`). Functions return 0 (or a positive count) on success and -1 on failure;
 * then `error`, when given, says what, where and what would be right.
 */
#ifndef CROUPIER_CLIENT_H
#define CROUPIER_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "croupier/record_channel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
#define CROUPIER_ABI_VERSION 6U

typedef struct croupier_session croupier_session;

typedef struct croupier_error {
    uint32_t code; /* croupier::shm::Errc */
    char text[508];
} croupier_error;

enum { CROUPIER_BF16 = 0, CROUPIER_FP16 = 1, CROUPIER_FP32 = 2 };

/* croupier_open_options_init() fills in the defaults; vocab must be set. */
typedef struct croupier_open_options {
    uint32_t abi_version;
    const char* endpoint; /* of the daemon's control socket */
    const char* name;     /* of the session: one live client a name */
    uint32_t vocab;
    uint32_t tp;
    uint32_t max_batch;
    uint32_t steps_in_flight;
    uint32_t dtype;
    uint32_t tile;
    uint32_t max_sequences;
    uint32_t max_length; /* prompt and output of one sequence */
    uint32_t max_bias;
    uint32_t max_stop_ids;
    uint32_t max_list_tokens; /* words of allowed ids, bad words and DRY breakers of one sequence together */
    uint32_t mask_rows;
    const uint32_t* order;       /* all (vocab + 63) / 64 blocks of 64 ids, hottest first; NULL: identity */
    uint32_t takeover;           /* 1: fence a live holder of the name */
    uint32_t resume;             /* 1: go on with a session whose client is gone */
    uint32_t decisions_over_zmq; /* 1: decisions come over ZMQ instead of the ring */
    uint32_t randoms_supplied;   /* 1: rank 0's writer supplies the randoms of rng SHVS; 0: samplers do */
    uint32_t timeout_ms;         /* for the daemon's answer; 0: 5000 */
    /* For a tcp endpoint: Z85 CURVE keys. */
    const char* server_key;
    const char* client_public_key;
    const char* client_secret_key;
    uint32_t summaries; /* 1: writers give the largest logit of each tile too; used with tiles of 64 */
    /* The order comes from this file, which `croupier hotset build` wrote for the vocabulary; instead of
     * `order`. */
    const char* hotness_file;
    /* The session's host is another: records go through this channel to the relay there (`croupier relay`),
     * `endpoint` is that host's, and decisions come over ZMQ, whatever decisions_over_zmq says. The channel
     * must outlive the session. NULL: the session is on this host. */
    const croupier_record_channel* relay;
    /* What the ranks hold together, in equal shares: the vocabulary and the engine's padding after it, which
     * is never drawn. 0: vocab. */
    uint32_t padded_vocab;
} croupier_open_options;

enum {
    CROUPIER_IGNORE_EOS = 1,
    CROUPIER_NO_LOGPROB = 2 /* the decision's log-prob is NaN: saves a pass over the row */
};

/* The steps that a request may put in an order of its own. */
enum {
    CROUPIER_STEP_END = 0,
    CROUPIER_STEP_PENALTIES = 1,
    CROUPIER_STEP_DRY = 2,
    CROUPIER_STEP_TOP_N_SIGMA = 3,
    CROUPIER_STEP_TEMPERATURE = 4,
    CROUPIER_STEP_MIN_P = 5,
    CROUPIER_STEP_TOP_K = 6,
    CROUPIER_STEP_TOP_P = 7,
    CROUPIER_STEP_TYPICAL_P = 8,
    CROUPIER_STEP_XTC = 9,
    CROUPIER_ORDER_STEPS = 12
};

/* How a token is drawn. RACE depends on nothing but the row and the parameters; SHVS proposes from a hot set;
 * SGLANG and VLLM draw as those engines do. */
enum { CROUPIER_RNG_RACE = 0, CROUPIER_RNG_SHVS = 1, CROUPIER_RNG_SGLANG = 2, CROUPIER_RNG_VLLM = 3 };
enum { CROUPIER_LOGPROB_RAW = 0, CROUPIER_LOGPROB_PROCESSED = 1 };

/* croupier_params_init() fills in the defaults, with which all controls are off. A decision carries the drawn
 * token's log-prob and no list of the best. */
typedef struct croupier_params {
    uint64_t seed;
    double temperature;
    double top_p;
    double min_p;
    double repetition_penalty;
    double frequency_penalty;
    double presence_penalty;
    double dynatemp_range; /* 0: off */
    double dynatemp_exponent;
    double top_n_sigma; /* 0 or less: off */
    double typical_p;
    double xtc_probability;
    double xtc_threshold;
    double dry_multiplier; /* 0: off */
    double dry_base;
    double mirostat_tau;
    double mirostat_eta;
    double adaptive_target; /* below 0: off */
    double adaptive_decay;
    int32_t top_k;        /* 0 or -1: off */
    int32_t eos_token_id; /* -1: none */
    uint32_t min_tokens;
    uint32_t max_tokens; /* 0: as far as the session's max_length */
    uint32_t flags;
    /* 0, or the number of this sequence among those of one request, 0 to 1023: with the same seed each draws
     * its own. 0 with SGLANG and VLLM, whose children differ in their seed. */
    uint32_t child;
    int32_t penalty_last_n;     /* -1: prompt and output, each as its penalty says; 0: no penalties */
    int32_t dry_penalty_last_n; /* -1: prompt and output; 0: off */
    int32_t dry_allowed_length;
    uint8_t mirostat; /* 0: off; 1 and 2: its versions */
    uint8_t rng;
    uint8_t logprob_mode;
    uint8_t order[CROUPIER_ORDER_STEPS]; /* up to CROUPIER_STEP_END; none: the default order */
} croupier_params;

typedef struct croupier_bias {
    int32_t token;
    float bias;
} croupier_bias;

typedef struct croupier_sequence {
    uint64_t uid; /* unique among the session's live sequences */
    croupier_params params;
    const int32_t* prompt;
    size_t prompt_count;
    /* Decided earlier, elsewhere: a sequence that comes back. Mirostat and adaptive-p then begin anew: what
     * they carried was not in the tokens. */
    const int32_t* output;
    size_t output_count;
    const croupier_bias* bias;
    size_t bias_count;
    const int32_t* stop_ids;
    size_t stop_count;
    const int32_t* allowed_ids; /* none: all are allowed */
    size_t allowed_count;
    /* Several lists in one: each list's length, then its ids. The counts are of all these words. */
    const int32_t* bad_words;
    size_t bad_words_count;
    const int32_t* dry_breakers;
    size_t dry_breakers_count;
} croupier_sequence;

typedef struct croupier_column {
    uint64_t uid;
    const uint32_t* mask; /* grammar mask, (vocab + 31) / 32 words; NULL: all allowed */
} croupier_column;

enum {
    CROUPIER_STOPPED_EOS = 1,
    CROUPIER_STOPPED_TOKEN = 2,
    CROUPIER_STOPPED_LENGTH = 4,
    CROUPIER_STOPPED = 7
};

typedef struct croupier_decision {
    uint64_t uid;
    int32_t token; /* -1 when error is not 0 */
    float logprob;
    uint32_t position;
    uint16_t flags;
    uint16_t error; /* croupier_decision_error_text() explains it */
} croupier_decision;

typedef struct croupier_step {
    uint64_t step;
    uint32_t count;
    uint16_t refused;                   /* not 0: the whole step was refused, with this decision error */
    const croupier_decision* decisions; /* valid until the next call on the session */
} croupier_step;

void croupier_open_options_init(croupier_open_options* options);
void croupier_params_init(croupier_params* params);

int croupier_open(const croupier_open_options* options, croupier_session** session, croupier_error* error);
/* Leaves the daemon's sessions as they are, as a process that dies would; `resume` finds it again. */
void croupier_detach(croupier_session* session);
/* Closes the session: its memory is given back. */
int croupier_close(croupier_session* session, croupier_error* error);

/* Where the ranks' writers attach, on the session's host. */
const char* croupier_segment_path(const croupier_session* session);
/* 1 when open() went on with an earlier session. */
int croupier_resumed(const croupier_session* session);

int croupier_add(croupier_session* session, const croupier_sequence* sequence, croupier_error* error);
/* Frees the sequence's slot; it must not be in a step in flight. */
int croupier_finish(croupier_session* session, uint64_t uid, croupier_error* error);
/* The uids of live sequences; returns how many there are, writes at most `room`. */
size_t croupier_list(const croupier_session* session, uint64_t* uids, size_t room);
/* A live sequence's output, as far as steps were waited for; returns its length or -1, writes at most `room`.
 */
int64_t croupier_output(const croupier_session* session, uint64_t uid, int32_t* tokens, size_t room);

/* Publishes a step: one column a sequence. Fails with ring_full when every slot is in flight. */
int croupier_submit(croupier_session* session, const croupier_column* columns, size_t count, uint64_t* step,
                    croupier_error* error);
/* Steps published and not yet waited for. */
uint32_t croupier_in_flight(const croupier_session* session);
/* The oldest step in flight: 1 and its decisions, 0 when it is not decided within timeout_ms (0: only a
 * look), -1 on failure. A daemon that restarts meanwhile goes unnoticed when it is back within the time-out.
 */
int croupier_wait(croupier_session* session, uint32_t timeout_ms, croupier_step* step, croupier_error* error);

/* Gives up a step in flight, for instance because a rank's logits will not come: each column that nobody has
 * begun to decide is answered with the decision error given_up, and the position of its sequence is asked for
 * again. croupier_wait() returns the step in its turn; then its sequences can be finished. What a late rank
 * still writes for the step is refused. */
int croupier_give_up(croupier_session* session, uint64_t step, croupier_error* error);

const char* croupier_error_name(uint32_t code);
const char* croupier_decision_error_text(uint16_t error);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
