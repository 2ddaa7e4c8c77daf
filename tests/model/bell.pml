/* The bell: two clients publish work and ring, a sampler looks and sleeps. The futex is the kernel's: it compares
 * the word and queues the sleeper in one step. Proved: no work is slept through, also when another sampler was
 * killed in its sleep and left its bit.
 *
 * Mutants: NO_RECHECK (a sleep that does not compare the count), RING_BEFORE_PUBLISH. */
#define WORK 3

byte published = 0;
byte done = 0;
byte rung = 0;
bit sleeper[2];
bit queued = 0;            /* in the futex's queue */

inline ring() {
    rung++;
    if
    :: sleeper[0] || sleeper[1] -> queued = 0
    :: else
    fi
}

proctype Client(byte count) {
    byte i = 0;
    do
    :: i < count ->
#ifdef RING_BEFORE_PUBLISH
        ring();
        published++;
#else
        published++;
        ring();
#endif
        i++
    :: else -> break
    od
}

proctype Sampler() {
    byte seen;
    do
    :: done == WORK -> break
    :: done < WORK ->
        seen = rung;
        if
        :: published > done -> done++
        :: else ->
            sleeper[0] = 1;
#ifdef NO_RECHECK
            queued = 1;
#else
            if
            :: rung == seen ->
                /* FUTEX_WAIT: compared and queued in one step. */
                atomic {
                    if
                    :: rung == seen -> queued = 1
                    :: else
                    fi
                }
            :: else
            fi;
#endif
            (queued == 0);
            sleeper[0] = 0
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
        run Client(2);
        run Client(1);
        run Sampler();
        run KilledSampler()
    }
}

ltl all_work_is_done { <> (done == WORK) }
