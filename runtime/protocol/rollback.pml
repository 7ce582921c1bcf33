// rollback.pml: an actor that keeps state dies: the whole run goes back to its last checkpoint.
//
//     S -> U -> R
//
// U keeps state and R writes a file (a recorder); the director writes metrics, checkpoints and the log of changes. A
// life of the run is one set of actors; CRASHES times one of them dies, which ends the life, or the director itself
// does, which ends all and is followed by --resume. The next life begins with the last whole checkpoint.
// A change comes into force at batch CUT (0: none): its revision writes other results.
// Checked: each batch stands in the file and in the metrics once, in order, and made by the revision that was in force
// at its first time; no life begins with half of a checkpoint; a change that was in force is in force in every life.
//
// holds: -DCRASHES=2
// holds: -DCRASHES=2 -DCUT=3
// large: -DN=5 -DCRASHES=3 -DCUT=3
// fails: -DCRASHES=1 -DW_METRICS
// fails: -DCRASHES=1 -DW_FILE
// fails: -DCRASHES=1 -DW_ALIVE
// fails: -DCRASHES=1 -DW_MANIFEST
// fails: -DCRASHES=1 -DW_APART
// fails: -DCRASHES=1 -DCUT=3 -DW_NOTAGAIN
// fails: -DCRASHES=2 -DCUT=3 -DW_FORGET
// fails: -DCRASHES=1 -DCUT=3 -DW_GRANTFIRST
#ifndef N
#define N 4                                 // batches 1 .. N
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef CUT
#define CUT 0
#endif
#define FLIGHT 2
#define EVERY  2                            // a checkpoint after so many batches
#define MIN(a, b) ((a) < (b) -> (a) : (b))

// On disk: what outlives a life.
byte checkpoint;                            // the last whole one: so many batches; 0: none
byte part_u, part_r;                        // of the one that is being written: whose state is there, up to where
byte whole_u, whole_r;                      // in the whole one
byte file, metrics;                         // lines 1 .. so many
bit  other[N + 1];                          // a line of the file was written under the changed revision
bit  logged;                                // the change, with its cut
bit  begun;                                 // there was a life
bit  promised;                              // the change was in force once: whoever asked for it has its answer

// Of this life.
bit  lives;
byte granted, s, u, r, told;                // granted, made, done by U, done by R, told in metrics
byte state;                                 // U's: so many batches are in it
bit  due;                                   // the change is to be made in this life, and holds the permit of its batch
bit  changed;                               // it is in force
bit  old;                                   // W_ALIVE: the recorder of the life before goes on from …
byte old_r;                                 // … here
byte crashes = CRASHES;

inline write(k) {
    assert(file == k - 1);                  // once, in order
    file = k; other[k] = (changed && k >= CUT)
}

inline lose() {                              // nothing but the disk is left
#ifdef W_ALIVE                              // not all are dead when the next life begins
    old = 1; old_r = r;
#endif
    lives = 0; granted = 0; s = 0; u = 0; r = 0; told = 0; state = 0; due = 0; changed = 0; part_u = 0; part_r = 0
}

#define DUE(k) ((k) > checkpoint && (k) % EVERY == 0 && (k) < N)      // a checkpoint
#ifdef W_GRANTFIRST                         // a change that is made again does not hold its permit from the beginning
#define HELD   (due && !logged && granted + 1 == CUT)
#else
#define HELD   (due && granted + 1 == CUT)
#endif

active proctype party() {
end:
    do
    // A life begins: what the disk holds of later batches is cut off.
    :: d_step { !lives ->
           lives = 1; granted = checkpoint; s = checkpoint; u = checkpoint; r = checkpoint; told = checkpoint;
           state = whole_u;
           assert(state == checkpoint && whole_r == checkpoint);
#ifndef W_METRICS
           metrics = MIN(metrics, checkpoint);
#endif
#ifndef W_FILE
           file = MIN(file, checkpoint);
#endif
           changed = (logged && CUT <= checkpoint);
#ifdef W_NOTAGAIN                           // a change behind the checkpoint is not made again
           due = (CUT && !begun);
#else
           due = (CUT && (!begun || (logged && CUT > checkpoint)));
#endif
#ifdef W_FORGET                             // and is no more in the log until it is
           logged = (CUT <= checkpoint && logged);
#endif
           begun = 1 }
    :: d_step { lives && due && granted + 1 >= CUT ->
           assert(granted + 1 == CUT); logged = 1; promised = 1; changed = 1; due = 0 }
    :: d_step { lives && granted < N && granted < told + FLIGHT && !HELD -> granted++ }
    :: d_step { lives && s < granted -> s++ }
    // U and R save between two batches, and not before they are due.
    :: d_step { lives && u < s && !(DUE(u) && part_u != u) -> u++; state++ }
    :: d_step { lives && DUE(u) && part_u != u -> part_u = u }
    :: d_step { lives && r < u && !(DUE(r) && part_r != r) -> r++; write(r) }
    :: d_step { lives && DUE(r) && part_r != r -> part_r = r }
    :: d_step { lives && told < r -> told++; assert(metrics == told - 1); metrics = told }
    // A checkpoint is whole when all parts are there, all of one batch.
#if defined(W_MANIFEST)                     // when the first is
    :: d_step { lives && part_u > checkpoint -> checkpoint = part_u; whole_u = part_u; whole_r = part_r }
#elif defined(W_APART)                      // each on its own
    :: d_step { lives && r > checkpoint -> checkpoint = r; whole_r = r; whole_u = u }
#else
    :: d_step { lives && part_u > checkpoint && part_u == part_r && told >= part_u ->
           checkpoint = part_u; whole_u = part_u; whole_r = part_r }
#endif
    :: d_step { old && old_r < N -> old_r++; old = 0; write(old_r) }
    :: d_step { lives && crashes > 0 -> crashes--; lose() }
    od
}

active proctype judge() {
    timeout -> d_step {
        assert(lives && file == N && metrics == N && state == N && !due);
        granted = 1;
        do
        :: granted <= N -> assert(other[granted] == (promised && granted >= CUT)); granted++
        :: else -> break
        od;
        granted = N
    }
}
