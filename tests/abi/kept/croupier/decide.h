/* The decision as a library call: a row of logits, a request and its history, and the next token comes back,
 * with log-probs and the tokens that were left to draw from. No daemon, no shared memory; the token is the
 * one that a daemon decides for the same request and row.
 *
 * A decider is used by one thread at a time and remembers nothing that its caller can see: it keeps what it
 * derived from the history, so that the next position of the same request costs its new tokens only.
 * Functions return 0 on success and -1 on failure; then `error`, when given, says what, where and what would
 * be right.
 */
#ifndef CROUPIER_DECIDE_H
#define CROUPIER_DECIDE_H

#include "croupier/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
typedef struct croupier_decider croupier_decider;

/* croupier_decider_options_init() fills in the defaults; vocab must be set. */
typedef struct croupier_decider_options {
    uint32_t size;
    uint32_t version;
    uint32_t vocab;
    uint32_t max_length; /* prompt and output of one sequence */
} croupier_decider_options;

static inline void croupier_decider_options_init(croupier_decider_options* options) {
    memset(options, 0, sizeof(*options));
    options->size = (uint32_t)sizeof(*options);
    options->version = CROUPIER_ABI_VERSION;
    options->max_length = 8192;
}

/* croupier_row_init(), then logits, dtype and what else it has. */
typedef struct croupier_row {
    uint32_t size;
    uint32_t version;
    const void* logits;   /* vocab elements, in the order of the ids */
    const uint32_t* mask; /* grammar mask, (vocab + 31) / 32 words; NULL: all allowed */
    uint32_t dtype;       /* of the logits, which nothing else tells: it must be set */
    /* 1: answer every token that was left to draw from, and its probability; 0: as many as the parameters'
     * `support` says */
    uint32_t wants_support;
    /* What mirostat and adaptive-p left at the position before; 0 and 0 at the first one. */
    double feedback_level;
    double feedback_weight;
} croupier_row;

static inline void croupier_row_init(croupier_row* row) {
    memset(row, 0, sizeof(*row));
    row->size = (uint32_t)sizeof(*row);
    row->version = CROUPIER_ABI_VERSION;
    row->dtype = CROUPIER_DTYPE_UNSET;
}

/* croupier_answer_init() begins one. The arrays are valid until the decider's next call. */
typedef struct croupier_answer {
    uint32_t size;
    uint32_t version;
    int32_t token; /* -1 when error is not 0 */
    float logprob;
    uint32_t rank;         /* of the token; 0 where no log-probs were asked for */
    uint32_t output_index; /* of the token in its sequence's output, from 0 on */
    uint16_t flags;
    uint16_t error;    /* CROUPIER_DECISION_... */
    uint32_t reserved; /* 0 */
    double feedback_level;
    double feedback_weight;
    const croupier_logprob* best;
    size_t best_count;
    const croupier_survivor* support;
    size_t support_count;
    size_t support_total; /* how many were left to draw from; 0 where none were asked for */
} croupier_answer;

static inline void croupier_answer_init(croupier_answer* answer) {
    memset(answer, 0, sizeof(*answer));
    answer->size = (uint32_t)sizeof(*answer);
    answer->version = CROUPIER_ABI_VERSION;
}

/* The library's release, such as "1.0.0". */
const char* croupier_decide_version(void);

int croupier_decider_open(const croupier_decider_options* options, croupier_decider** decider,
                          croupier_error* error);
void croupier_decider_close(croupier_decider* decider);

/* The token after the sequence's prompt and output. `sequence->uid` is not looked at. */
int croupier_decide(croupier_decider* decider, const croupier_row* row, const croupier_sequence* sequence,
                    croupier_answer* answer, croupier_error* error);

const char* croupier_decide_error_name(uint32_t code);
/* Of a decision's error (croupier_answer.error). */
const char* croupier_decide_decision_error_text(uint16_t error);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
