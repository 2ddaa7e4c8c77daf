/* Bells: the clients of two sessions publish work, each in its own session, and ring its bell; one sampler looks at
 * both and sleeps on both. futex_waitv is the kernel's: it queues the sleeper on one word after the other, and each
 * time compares the word and queues in one step; where a word has changed, or a wake came meanwhile, it returns.
 * Proved: no work is slept through, also when another sampler was killed in its sleep and left its bit.
 *
 * Mutants: NO_RECHECK (a sleep that does not compare the counts), RING_BEFORE_PUBLISH, ONE_BELL (a sleep on the
 * first bell alone). */
#define WORK 3

byte published[2];
byte done = 0;
byte rung[2];
bit sleeper[4];            /* [session * 2 + sampler] */
bit queued[2];             /* on the session's word */
bit asleep = 0;            /* in the kernel, or on the way: a wake ends it */

inline ring(session) {
    rung[session]++;
    if
    :: sleeper[session * 2] || sleeper[session * 2 + 1] ->
        /* FUTEX_WAKE: whoever is queued on this word. */
        atomic {
            if
            :: queued[session] -> asleep = 0
            :: else
            fi
        }
    :: else
    fi
}

/* One word of futex_waitv. */
inline wait_on(session) {
    atomic {
        if
#ifdef NO_RECHECK
        :: true -> queued[session] = 1
#else
        :: rung[session] == seen[session] -> queued[session] = 1
        :: else -> asleep = 0
#endif
        fi
    }
}

proctype Client(byte session; byte count) {
    byte i = 0;
    do
    :: i < count ->
#ifdef RING_BEFORE_PUBLISH
        ring(session);
        published[session]++;
#else
        published[session]++;
        ring(session);
#endif
        i++
    :: else -> break
    od
}

proctype Sampler() {
    byte seen[2];
    do
    :: done == WORK -> break
    :: done < WORK ->
        seen[0] = rung[0];
        seen[1] = rung[1];
        if
        :: published[0] + published[1] > done -> done++
        :: else ->
            sleeper[0] = 1;
            sleeper[2] = 1;
            asleep = 1;
            wait_on(0);
#ifndef ONE_BELL
            wait_on(1);
#endif
            (asleep == 0);
            atomic { queued[0] = 0; queued[1] = 0 }
            sleeper[0] = 0;
            sleeper[2] = 0
        fi
    od
}

proctype KilledSampler() {
    if
    :: sleeper[1] = 1
    :: true
    fi
    /* killed here: its bit stays */
}

init {
    atomic {
        run Client(0, 2);
        run Client(1, 1);
        run Sampler();
        run KilledSampler()
    }
}

ltl all_work_is_done { <> (done == WORK) }
