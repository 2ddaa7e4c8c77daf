/* How a scheduler exchanges messages with the relay on another host: functions in C, so that libcroupier.so
 * and libcroupier_fan_out.so do not depend on each other. croupier_fan_out_channel() fills in the struct.
 */
#ifndef CROUPIER_RECORD_CHANNEL_H
#define CROUPIER_RECORD_CHANNEL_H

#include "croupier/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
typedef struct croupier_record_channel {
    uint32_t size;
    uint32_t version;
    void* context;
    /* 0; 1: the queue is full and nothing was sent; -1: failed. */
    int (*send)(void* context, const void* record, size_t size, croupier_error* error);
    /* 1 and an answer, valid until the next call; 0: there was none in time; -1: failed. */
    int (*receive)(void* context, uint32_t timeout_ms, const void** answer, size_t* size,
                   croupier_error* error);
    /* A descriptor that becomes readable when an answer may have come; -1, or NULL here: there is none. A
     * call of send may consume that: call receive until it returns 0 before you wait. */
    int (*descriptor)(void* context);
} croupier_record_channel;

static inline void croupier_record_channel_init(croupier_record_channel* channel) {
    memset(channel, 0, sizeof(*channel));
    channel->size = (uint32_t)sizeof(*channel);
    channel->version = CROUPIER_ABI_VERSION;
}
/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
