/* What the headers of Croupier have in common.
 *
 * How a struct grows: it begins with the size that its caller's compiler gave it and with the version of the
 * caller's headers; the inline functions croupier_..._init() write both. A later version adds fields at the
 * end, whose zero means "off": what an older caller's struct lacks is off, and what a newer caller has set
 * that this library does not know is refused, with its place and both versions. An array whose elements grow
 * comes with the size of one. Structs that neither begin with their size nor are elements of such an array
 * never grow. What a struct points to is read during the call, unless the struct says otherwise.
 */
#ifndef CROUPIER_TYPES_H
#define CROUPIER_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using, modernize-deprecated-headers): this header is C. */

/* The major one is the libraries' SOVERSION, and libraries of another one are refused; the minor one grows
 * with each field or function that is added. */
enum { CROUPIER_ABI_MAJOR = 1, CROUPIER_ABI_MINOR = 0 };
#define CROUPIER_ABI_VERSION ((uint32_t)CROUPIER_ABI_MAJOR << 16U | (uint32_t)CROUPIER_ABI_MINOR)

/* Why a call failed: croupier_error.code. */
enum {
    CROUPIER_ERROR_NONE = 0,
    CROUPIER_ERROR_NOT_FOUND = 1, /* no such segment, session or endpoint */
    CROUPIER_ERROR_PERMISSION_DENIED = 2,
    CROUPIER_ERROR_NO_MEMORY = 3, /* /dev/shm or a quota is full */
    CROUPIER_ERROR_BAD_MAGIC = 4, /* not a file of Croupier's */
    CROUPIER_ERROR_WRONG_VERSION = 5,
    CROUPIER_ERROR_WRONG_SIZE = 6,
    CROUPIER_ERROR_CORRUPT_HEADER = 7,
    CROUPIER_ERROR_BAD_GEOMETRY = 8,
    CROUPIER_ERROR_ALREADY_HELD = 9, /* a live process has this role */
    CROUPIER_ERROR_STALE_EPOCH = 10, /* the caller was fenced while it was away */
    CROUPIER_ERROR_SESSION_CLOSED = 11,
    CROUPIER_ERROR_DRAINING = 12, /* no new steps are taken */
    CROUPIER_ERROR_RING_FULL = 13,
    CROUPIER_ERROR_BAD_ARGUMENT = 14,
    CROUPIER_ERROR_UNKNOWN_SEQUENCE = 15,
    CROUPIER_ERROR_TABLE_FULL = 16,
    CROUPIER_ERROR_DAEMON_GONE = 17,
    CROUPIER_ERROR_TIMED_OUT = 18,
    CROUPIER_ERROR_REFUSED = 19, /* by the daemon; the text says why */
    CROUPIER_ERROR_SYSTEM_ERROR = 20,
    CROUPIER_ERROR_PEER_GONE = 21, /* of a fan-out: the relay, the scheduler, another member */
    CROUPIER_ERROR_FORKED = 22     /* the caller is a forked child of the process that attached */
};

typedef struct croupier_error {
    uint32_t code; /* CROUPIER_ERROR_... */
    char text[508];
} croupier_error;

enum { CROUPIER_BF16 = 0, CROUPIER_FP16 = 1, CROUPIER_FP32 = 2 };
#define CROUPIER_DTYPE_UNSET 0xFFFFFFFFU

/* How the writers of a session send a step. All of them send all steps in this way. */
enum {
    /* Whole rows, in tiles: for writers on the host, and for whoever reads rows. */
    CROUPIER_TRANSPORT_ROWS = 0,
    /* Some blocks of ids and what is known of the rest, a thirtieth of the bytes, for the same tokens: for
     * writers on GPUs. The last bits of a log-prob may be others than with rows. Tiles have 64 ids; hotness
     * orders, summaries, supplied randoms and CROUPIER_RNG_SHVS need rows. */
    CROUPIER_TRANSPORT_LEAN = 1
};

enum {
    CROUPIER_IGNORE_EOS = 1,
    CROUPIER_NO_LOGPROB = 2, /* the decision's log-prob is NaN: saves a pass over the row */
    /* EOS and stop ids are banned until min_tokens are out, and end nothing: for an engine that ends its
     * sequences itself, where a decision that stopped would make later steps in flight void. */
    CROUPIER_STOPS_ONLY_BAN = 4,
    /* The drawn token's rank is the number of tokens at or above it, itself among them, as vLLM counts. */
    CROUPIER_RANK_COUNTS_TIES = 8,
    /* Of croupier_text(): the text ends after the stop string or stop token that ended it, not before. */
    CROUPIER_INCLUDE_STOP = 16,
    /* Of croupier_text(): special tokens are in it. */
    CROUPIER_KEEP_SPECIAL = 32,
    /* The first JSON value that the output's text has, after no more than whitespace, ends the sequence. It
     * needs a session with a tokenizer. */
    CROUPIER_STOP_AT_JSON = 64
};

/* The controls that a request may put in an order of its own. */
enum {
    CROUPIER_ORDER_END = 0,
    CROUPIER_ORDER_PENALTIES = 1,
    CROUPIER_ORDER_DRY = 2,
    CROUPIER_ORDER_TOP_N_SIGMA = 3,
    CROUPIER_ORDER_TEMPERATURE = 4,
    CROUPIER_ORDER_MIN_P = 5,
    CROUPIER_ORDER_TOP_K = 6,
    CROUPIER_ORDER_TOP_P = 7,
    CROUPIER_ORDER_TYPICAL_P = 8,
    CROUPIER_ORDER_XTC = 9,
    CROUPIER_MAX_ORDER = 12
};

/* How a token is drawn. RACE depends on nothing but the row and the parameters; SHVS proposes from a hot set;
 * SGLANG and VLLM draw as those engines do. */
enum { CROUPIER_RNG_RACE = 0, CROUPIER_RNG_SHVS = 1, CROUPIER_RNG_SGLANG = 2, CROUPIER_RNG_VLLM = 3 };
enum { CROUPIER_LOGPROB_RAW = 0, CROUPIER_LOGPROB_PROCESSED = 1 };

/* croupier_params_init() fills in the defaults, with which all controls are off. */
typedef struct croupier_params {
    uint32_t size;
    uint32_t version;
    /* The key of its random numbers. 0 is a seed like any other: of two sequences with equal rows that leave
     * it at 0, each draws what the other draws. Give a request without a seed a random one. */
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
    /* 0, or the number of this sequence among those of one request, 0 to CROUPIER_MAX_CHILD: with the same
     * seed each draws its own. 0 with SGLANG and VLLM, whose children differ in their seed. */
    uint32_t child;
    int32_t penalty_last_n;     /* -1: prompt and output, each as its penalty says; 0: no penalties */
    int32_t dry_penalty_last_n; /* -1: prompt and output; 0: off */
    int32_t dry_allowed_length;
    uint8_t mirostat; /* 0: off; 1 and 2: its versions */
    uint8_t rng;
    uint8_t logprob_mode;
    uint8_t loop_count;                /* 2 to 255; times loop_max_period up to 4096 */
    uint8_t order[CROUPIER_MAX_ORDER]; /* up to CROUPIER_ORDER_END; none: the default order */
    uint32_t logprobs;                 /* how many of the best to answer, beside the drawn token's own */
    /* How many of the tokens that were left to draw from to answer with their probabilities, the likeliest
     * first; 0: none. It costs a sort of what is left, which is the whole row where no filter is on. */
    uint32_t support;
    /* The output ends with a loop when its last tokens are loop_count times the same tail of loop_min_period
     * to loop_max_period tokens (up to CROUPIER_MAX_LOOP_PERIOD): that ends the sequence. 0: off. */
    uint16_t loop_max_period;
    uint16_t loop_min_period; /* 0: 1 */
} croupier_params;

static inline void croupier_params_init(croupier_params* params) {
    memset(params, 0, sizeof(*params));
    params->size = (uint32_t)sizeof(*params);
    params->version = CROUPIER_ABI_VERSION;
    params->temperature = 1.0;
    params->top_p = 1.0;
    params->repetition_penalty = 1.0;
    params->dynatemp_exponent = 1.0;
    params->top_n_sigma = -1.0;
    params->typical_p = 1.0;
    params->xtc_threshold = 0.1;
    params->dry_base = 1.75;
    params->mirostat_tau = 5.0;
    params->mirostat_eta = 0.1;
    params->adaptive_target = -1.0;
    params->adaptive_decay = 0.9;
    params->eos_token_id = -1;
    params->penalty_last_n = -1;
    params->dry_penalty_last_n = -1;
    params->dry_allowed_length = 2;
}

/* Never grows. */
typedef struct croupier_bias {
    int32_t token;
    float bias;
} croupier_bias;

/* So many bytes of UTF-8. Never grows. */
typedef struct croupier_string {
    const char* bytes;
    size_t count;
} croupier_string;

/* A request: croupier_sequence_init(), then params and what else it has. */
typedef struct croupier_sequence {
    uint32_t size;
    uint32_t version;
    uint64_t uid;                  /* unique among the session's live sequences */
    const croupier_params* params; /* NULL: the defaults */
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
    /* The first of these that the output's text has ends the sequence. They need a session with a tokenizer.
     * Up to CROUPIER_MAX_STOP_STRINGS, each of 1 to CROUPIER_MAX_STOP_STRING_BYTES bytes. */
    const croupier_string* stop_strings;
    size_t stop_string_count;
} croupier_sequence;

static inline void croupier_sequence_init(croupier_sequence* sequence) {
    memset(sequence, 0, sizeof(*sequence));
    sequence->size = (uint32_t)sizeof(*sequence);
    sequence->version = CROUPIER_ABI_VERSION;
}

/* Of a decision: what it did. */
enum {
    CROUPIER_STOPPED_EOS = 1,
    CROUPIER_STOPPED_TOKEN = 2,
    CROUPIER_STOPPED_LENGTH = 4,  /* max_tokens, or max_length */
    CROUPIER_STOPPED_STRING = 64, /* a stop string: stop_string, stop_begin */
    CROUPIER_STOPPED_LOOP = 128,  /* loop_count repeats of its tail */
    CROUPIER_STOPPED_JSON = 256,  /* a finished JSON value: stop_begin */
    CROUPIER_STOPPED =
        8135, /* any of them, and of 512 to 4096, which later versions may give to other stops */
    CROUPIER_GREEDY = 8,
    CROUPIER_TRUNCATED = 16,
    CROUPIER_SUPPORT_CUT = 32 /* more tokens were left to draw from than the request asked for */
};

/* Why a column has no token: croupier_decision.error. */
enum {
    CROUPIER_DECISION_FINE = 0,
    CROUPIER_DECISION_NAN_LOGIT = 1,
    CROUPIER_DECISION_INFINITE_LOGIT = 2,
    CROUPIER_DECISION_NO_TOKEN_LEFT = 3, /* every token is masked, banned or -inf */
    CROUPIER_DECISION_BAD_PARAMETER = 4,
    CROUPIER_DECISION_BAD_TOKEN = 5, /* an id outside of the vocabulary */
    CROUPIER_DECISION_BAD_SEQUENCE = 6,
    CROUPIER_DECISION_BAD_POSITION = 7,
    CROUPIER_DECISION_BAD_MASK = 8,
    CROUPIER_DECISION_SEQUENCE_FULL = 9,
    CROUPIER_DECISION_BAD_RECORD = 10,
    CROUPIER_DECISION_SAMPLER_CRASHED = 11, /* samplers ended or hung repeatedly while they decided it */
    CROUPIER_DECISION_GIVEN_UP = 12,        /* its logits did not come: croupier_give_up() */
    CROUPIER_DECISION_VOID = 13,            /* the sequence ended, was truncated or finished meanwhile */
    CROUPIER_DECISION_NO_MEMORY = 14,       /* shared memory has no room for the sequence's next token */
    /* Of a window's row: it was computed from another token than was decided before it. It ends nothing. */
    CROUPIER_DECISION_REJECTED = 15,
    /* A window's head was fed another token than the last one of its sequence. */
    CROUPIER_DECISION_BAD_INPUT = 16
};

/* Never grows. */
typedef struct croupier_logprob {
    int32_t token;
    float logprob;
    uint32_t rank; /* 1 + the number of tokens strictly above */
} croupier_logprob;

/* A token that was left to draw from. Never grows. */
typedef struct croupier_survivor {
    int32_t token;
    uint32_t reserved;
    double probability;
} croupier_survivor;

typedef struct croupier_decision {
    uint64_t uid;
    int32_t token; /* -1 when error is not 0 */
    float logprob;
    uint32_t output_index; /* of the token in its sequence's output, from 0 on */
    uint16_t flags;
    uint16_t error;               /* CROUPIER_DECISION_... */
    const croupier_logprob* best; /* as many as the request asked for, or all that there are */
    uint32_t best_count;
    uint32_t rank; /* of the token; 0 where no log-probs were asked for */
    /* What the token was drawn from, the likeliest first: as many as the request asked for. */
    const croupier_survivor* support;
    uint32_t support_count;
    uint32_t support_total; /* how many were left to draw from; 0 where none were asked for */
    /* In a session with a tokenizer: how many bytes of the sequence's text are released after this token
     * (croupier_text). With CROUPIER_STOPPED_STRING, stop_begin is the byte of the text at which the stop
     * string begins, and stop_string its place in the request's list. With CROUPIER_STOPPED_JSON, the value
     * is the text from stop_begin to text_bytes. */
    uint64_t text_bytes;
    uint64_t stop_begin;
    uint32_t stop_string;
    uint32_t reserved;
} croupier_decision;

/* What a session can be asked for at most; a daemon's configuration may allow less. But for
 * CROUPIER_MAX_ORDER they may rise in 1.x: no array should have its size from them. */
enum {
    CROUPIER_MAX_VOCAB = 1 << 20,
    CROUPIER_MAX_BATCH = 16384,
    CROUPIER_MAX_TP = 64,
    CROUPIER_MAX_STEPS_IN_FLIGHT = 64,
    CROUPIER_MAX_WINDOW_ROWS = 64, /* of one sequence, in all its steps in flight */
    CROUPIER_MAX_SEQUENCES = 65536,
    CROUPIER_MAX_LENGTH = 1 << 21,
    CROUPIER_MAX_BIAS = 4096,
    CROUPIER_MAX_STOP_IDS = 256,
    CROUPIER_MAX_LIST_TOKENS = 1 << 16,
    CROUPIER_MAX_STOP_STRINGS = 16,
    CROUPIER_MAX_STOP_STRING_BYTES = 256,
    CROUPIER_MAX_LOOP_PERIOD = 256,
    CROUPIER_MAX_CHILD = 1023,
    CROUPIER_MAX_LOGPROBS = 1024, /* of croupier_decide() */
    CROUPIER_MAX_SESSION_LOGPROBS = 64,
    CROUPIER_MAX_SESSION_SUPPORT = 1 << 16
};

/* NOLINTEND(modernize-use-using, modernize-deprecated-headers) */

#ifdef __cplusplus
}
#endif

#endif
