/* Records from a scheduler's process to the workers of another host: a C ABI over byte strings. A group has n
 * members; member 0, the root, sends; every other member receives all of it, in order, none lost, none twice.
 * Members answer the root.
 *
 * A group is used by one thread at a time, and by the process that opened it: a forked child is told so
 * (`forked`). Functions return 0 (or what they say) on success and -1 on failure; then `error`, when given,
 * says what, where and what would be right. After a failure of anything but an argument the group is over:
 * close it and open another.
 */
#ifndef CROUPIER_FAN_OUT_H
#define CROUPIER_FAN_OUT_H

#include "croupier/record_channel.h"
#include "croupier/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
typedef struct croupier_fan_out croupier_fan_out;

enum {
    CROUPIER_FAN_OUT_ZMQ = 0, /* over TCP */
    /* Broadcast from GPU to GPU, a member a GPU; who joins and what comes is told over ZMQ. For records of
     * megabytes; the GPU works for a record only while it is sent. */
    CROUPIER_FAN_OUT_NCCL = 1
};

enum { CROUPIER_FAN_OUT_BUSY = 1 };

#define CROUPIER_FAN_OUT_MAX_RECORD (64U << 20U) /* bytes */

/* croupier_fan_out_options_init() fills in the defaults; endpoint must be set. */
typedef struct croupier_fan_out_options {
    uint32_t size;
    uint32_t version;
    uint32_t transport;
    uint32_t window; /* records under way to the slowest member; beyond, sending is busy */
    /* Where the root listens: tcp://<host>:<port>, or ipc://<path> on one host. The host is an address, IPv6
     * in [ ], or a name, which is looked up as IPv4. */
    const char* endpoint;
    /* For a tcp endpoint: Z85 CURVE keys. The peer is the root; to the root: its members, which share one
     * key. */
    const char* own_public_key;
    const char* own_secret_key;
    const char* peer_public_key;
    uint32_t members; /* the root included */
    uint32_t member;  /* 0: the root */
    int32_t device;   /* of CUDA, with NCCL */
    uint32_t join_timeout_ms;
} croupier_fan_out_options;

static inline void croupier_fan_out_options_init(croupier_fan_out_options* options) {
    memset(options, 0, sizeof(*options));
    options->size = (uint32_t)sizeof(*options);
    options->version = CROUPIER_ABI_VERSION;
    options->transport = CROUPIER_FAN_OUT_ZMQ;
    options->window = 64;
    options->members = 2;
    options->join_timeout_ms = 5000;
}

/* The library's release, such as "1.0.0". */
const char* croupier_fan_out_version(void);

enum { CROUPIER_FAN_OUT_KEY_BYTES = 41 }; /* of Z85, with the zero at the end */

typedef struct croupier_fan_out_keys {
    char public_key[CROUPIER_FAN_OUT_KEY_BYTES];
    char secret_key[CROUPIER_FAN_OUT_KEY_BYTES];
} croupier_fan_out_keys;

/* A new pair of CURVE keys. */
int croupier_fan_out_make_keys(croupier_fan_out_keys* keys, croupier_error* error);

/* Returns when all members are there. */
int croupier_fan_out_open(const croupier_fan_out_options* options, croupier_fan_out** fan_out,
                          croupier_error* error);
/* A root tells its members, and waits up to a second for those that do not read. */
void croupier_fan_out_close(croupier_fan_out* fan_out);

/* The root's. CROUPIER_FAN_OUT_BUSY: a member has not received what is under way, and nothing was sent. */
int croupier_fan_out_send(croupier_fan_out* fan_out, const void* record, size_t size, croupier_error* error);
/* The root's. 1, an answer, valid until the next call, and who gave it; 0: there was none within timeout_ms
 * (0: only a look). */
int croupier_fan_out_receive_answer(croupier_fan_out* fan_out, uint32_t timeout_ms, uint32_t* member,
                                    const void** answer, size_t* size, croupier_error* error);

/* Another member's. 1 and a record, valid until the next call; 0: there was none within timeout_ms (0: only a
 * look). */
int croupier_fan_out_receive(croupier_fan_out* fan_out, uint32_t timeout_ms, const void** record,
                             size_t* size, croupier_error* error);
/* Another member's. CROUPIER_FAN_OUT_BUSY: the root does not read its answers, and nothing was sent. */
int croupier_fan_out_answer(croupier_fan_out* fan_out, const void* answer, size_t size,
                            croupier_error* error);

/* The root as the channel of a session (croupier_open_options.relay), into a struct that
 * croupier_record_channel_init() began. It must outlive the session. */
int croupier_fan_out_channel(croupier_fan_out* fan_out, croupier_record_channel* channel,
                             croupier_error* error);

const char* croupier_fan_out_error_name(uint32_t code);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
