/* A slice that is withdrawn and written again while a sampler decides from it: a writer begins an epoch, which
 * withdraws the slice, and stores other bytes into it. Stores become visible in any order but for those that a
 * fence keeps apart, and so do loads. Proved: a decision that stands was made of the slice as it was before.
 *
 * Mutants: NO_RELEASE_FENCE (nothing keeps the bytes behind the epoch and the word: LogitsPublisher::begin_epoch),
 * NO_ACQUIRE_FENCE (nothing keeps the last look at both behind the bytes: SentColumn::is_over, EarlyMaxima::finish). */
#define OLD 1
#define NEW 2

byte epoch = 1;
byte word_epoch = 1;         /* the ready word: the slice is whole, as the writer of this epoch says */
byte bytes[2] = { OLD, OLD };
bit sampler_done = 0;

#define STANDS (epoch == 1 && word_epoch == 1)

proctype Writer() {
    bit has_epoch = 0, has_word = 0, has_first = 0, has_second = 0;
    do
    :: !has_epoch -> epoch = 2; has_epoch = 1
    :: !has_word -> word_epoch = 0; has_word = 1
#ifdef NO_RELEASE_FENCE
    :: !has_first -> bytes[0] = NEW; has_first = 1
    :: !has_second -> bytes[1] = NEW; has_second = 1
#else
    :: has_epoch && has_word && !has_first -> bytes[0] = NEW; has_first = 1
    :: has_epoch && has_word && !has_second -> bytes[1] = NEW; has_second = 1
#endif
    :: has_epoch && has_word && has_first && has_second -> break
    od
}

proctype Sampler() {
    byte first = 0, second = 0;
    byte stood = 2;              /* 2: not looked yet */
    if
    :: !STANDS -> goto over      /* nothing is decided of it */
    :: STANDS
    fi;
    do
    :: first == 0 -> first = bytes[0]
    :: second == 0 -> second = bytes[1]
#ifdef NO_ACQUIRE_FENCE
    :: stood == 2 -> d_step { if :: STANDS -> stood = 1 :: else -> stood = 0 fi }
#else
    :: first != 0 && second != 0 && stood == 2 -> d_step { if :: STANDS -> stood = 1 :: else -> stood = 0 fi }
#endif
    :: first != 0 && second != 0 && stood != 2 -> break
    od;
    assert(stood == 0 || (first == OLD && second == OLD));
over:
    sampler_done = 1
}

init {
    atomic {
        run Writer();
        run Sampler()
    }
}

ltl the_sampler_ends { <> (sampler_done == 1) }
