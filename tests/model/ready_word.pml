/* A rank's ready word: writers put two tiles into a slot, publish their count, and die anywhere; the next writer
 * begins an epoch, vouches for complete slices, writes partial ones again. The role's lock dies with its
 * holder, so that there is one writer at a time. Proved: a slice that reads as ready is whole and does not change, and it
 * becomes ready at last.
 *
 * Mutants: VOUCH_PARTIAL (a part of a slice is vouched for),
 * COUNT_FIRST (the count is stored before the tile). */
#define TILES 2
#define LIVES 3
#define EMPTY 0
#define TORN 1
#define WHOLE 2

byte tile[TILES];            /* EMPTY, TORN while it is written, WHOLE */
byte word_epoch = 0;         /* the ready word: one store writes both halves */
byte word_tiles = 0;
byte epoch = 0;              /* of the rank's present owner */
bit lock = 0;
bit step_done = 0;

#define READY (word_tiles >= TILES && word_epoch == epoch)

inline store_word(tiles_now) { d_step { word_epoch = mine; word_tiles = tiles_now } }

inline maybe_die() {
    if
    :: life < LIVES -> goto died
    :: true
    fi
}

proctype Writer() {
    byte mine;
    byte life = 0;
    byte landed;
born:
    life++;
    atomic { lock == 0 -> lock = 1 }
    mine = epoch + 1;
    maybe_die();
    epoch = mine;
    maybe_die();
    /* Vouching: the predecessor's complete slice is taken over under the new epoch. */
    landed = word_tiles;
    if
#ifdef VOUCH_PARTIAL
    :: landed > 0 -> store_word(TILES)
#else
    :: landed == TILES -> store_word(TILES)
#endif
    :: else
    fi;
    maybe_die();
    if
    :: READY -> goto written
    :: else
    fi;
    landed = 0;
    do
    :: landed < TILES ->
        maybe_die();
#ifdef COUNT_FIRST
        store_word(landed + 1);
        maybe_die();
        tile[landed] = TORN;
        tile[landed] = WHOLE;
#else
        tile[landed] = TORN;
        maybe_die();
        tile[landed] = WHOLE;
        maybe_die();
        store_word(landed + 1);
#endif
        landed++
    :: else -> break
    od;
written:
    if
    :: !step_done && life < LIVES -> goto died
    :: step_done
    fi;
    goto over;
died:
    lock = 0;
    goto born;
over:
    skip
}

proctype Sampler() {
    READY;
    assert(tile[0] == WHOLE);
    assert(tile[1] == WHOLE);
    /* The column is decided meanwhile; a new writer may come and go. */
    assert(tile[0] == WHOLE);
    assert(tile[1] == WHOLE);
    step_done = 1
}

init {
    atomic {
        run Writer();
        run Sampler()
    }
}

ltl the_slice_becomes_ready { <> (step_done == 1) }
