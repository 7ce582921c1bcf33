// weights.pml: which version of the weights a batch is worked with, across a change and across a resume.
//
//     G -> U      U publishes to G
//
// U updates the weights after each batch, G (another actor) reads them STALE batches late: batch k wants the version of
// update k - 1 - STALE, or, where that lies before the cut of its revision, the base: the weights as they were at the
// cut, which the writer publishes as update cut - 1. Batches are 0 .. N - 1; FLIGHT are alive; a change comes into
// force at batch CUT (0: none). CRASHES times the run goes back to its last checkpoint (rollback.pml), which holds the
// weights and those older versions that batches behind it still want.
// Checked: the version of a batch follows from its number and the cuts alone, whatever crashed, and every run ends.
//
// holds: -DSTALE=0 -DCUT=2
// holds: -DSTALE=1 -DCUT=2
// holds: -DSTALE=2 -DCUT=3 -DFLIGHT=3
// holds: -DSTALE=2 -DCUT=1 -DFLIGHT=1
// large: -DSTALE=2 -DCUT=5 -DFLIGHT=4 -DN=9 -DCRASHES=3
// fails: -DSTALE=0 -DCUT=2 -DW_NOBASE
// fails: -DSTALE=1 -DCUT=3 -DW_EARLYBASE
// fails: -DSTALE=1 -DCUT=0 -DW_WEIGHTSONLY
// fails: -DSTALE=1 -DCUT=0 -DW_LATEST
#ifndef N
#define N 6
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FLIGHT
#define FLIGHT 2
#endif
#ifndef EVERY
#define EVERY 2
#endif
#define BIT(v)     (1 << ((v) + 1))         // version v is the one of update v; -1: what everybody loads
#define MAX(a, b)  ((a) > (b) -> (a) : (b))
#define CUT_OF(k)  ((k) >= CUT -> CUT : 0)
#define WANTED(k)  MAX((k) - 1 - STALE, CUT_OF(k) - 1)

short g, u;                                 // the batches that G and U work on next; so many updates are made: u
short got[2];                               // by revision: versions in G's mailbox, as bits
short using = -1;                           // the version that G has in use …
bit   from;                                 // … and the revision by which it came
short content[N + 1];                       // of version v, at v + 1: how many updates are in it
bit   open;                                 // U's world of the second revision: its base is published
short checkpoint, held, past[N + 1];        // batches before it are in it; versions that it holds, and their contents
byte  crashes = CRASHES;
short v;

#define REVISION(k) (CUT && (k) >= CUT)

#ifdef W_LATEST                             // G takes the newest that is there
#define THERE(k) ((got[REVISION(k)] & ~(BIT(WANTED(k)) - 1)) || WANTED(k) < 0)
#else
#define THERE(k) (WANTED(k) < 0 || (using == WANTED(k) && from == REVISION(k)) || (got[REVISION(k)] & BIT(WANTED(k))))
#endif

inline take(k) {
    v = WANTED(k);
#ifdef W_LATEST
    v = u - 1;
#endif
    if
    :: v >= 0 ->
        using = v; from = REVISION(k); got[REVISION(k)] = got[REVISION(k)] & ~(BIT(v - 1) | (BIT(v - 1) - 1))
    :: else
    fi;
    assert(v == WANTED(k) && (v < 0 || content[v + 1] == v + 1));    // its number says what is in it
    v = 0
}

// The writer begins anew behind a checkpoint: the weights as they are, and of the older versions those that it holds.
inline again() {
    v = MAX(checkpoint - 1 - STALE, CUT_OF(checkpoint) - 1);
    do
    :: v < checkpoint ->
        if
        :: v >= 0 && (v == checkpoint - 1 || (held & BIT(v))) ->
            got[REVISION(checkpoint)] = got[REVISION(checkpoint)] | BIT(v);
            content[v + 1] = (v == checkpoint - 1 -> checkpoint : past[v + 1])
        :: else
        fi;
        v++
    :: else -> break
    od;
    v = 0
}

inline save() {
    checkpoint = u; held = 0; v = 0;
#ifndef W_WEIGHTSONLY
    do
    :: v < u -> if :: v + 1 + STALE >= u -> held = held | BIT(v); past[v + 1] = content[v + 1] :: else fi; v++
    :: else -> break
    od;
#endif
    v = 0
}

active proctype party() {
end:
    do
    :: d_step { g < N && g < u + FLIGHT && THERE(g) -> take(g); g++ }
    // Nobody of the first revision wants its last update.
    :: d_step { u < g && (!REVISION(u) || open || u != CUT) ->
           content[u + 1] = u + 1;
           if :: !CUT || u != CUT - 1 -> got[REVISION(u)] = got[REVISION(u)] | BIT(u) :: else fi;
           u++ }
    // The world of the second revision opens when the first is over, and its writer publishes the base.
#ifdef W_EARLYBASE
    :: d_step { CUT && !open && u + 1 >= CUT -> open = 1; got[1] = got[1] | BIT(CUT - 1); content[CUT] = u }
#elif defined(W_NOBASE)
    :: d_step { CUT && !open && u == CUT -> open = 1 }
#else
    :: d_step { CUT && !open && u == CUT -> open = 1; got[1] = got[1] | BIT(CUT - 1); content[CUT] = u }
#endif
    :: d_step { u > checkpoint && u % EVERY == 0 && u < N -> save() }
    :: d_step { crashes > 0 ->
           crashes--; g = checkpoint; u = checkpoint; got[0] = 0; got[1] = 0; using = -1; from = 0; open = 0; again();
           open = (CUT && checkpoint > CUT) }
    od
}

active proctype judge() {
    timeout -> assert(g == N && u == N)
}
