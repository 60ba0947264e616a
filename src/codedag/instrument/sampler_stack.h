/* One stack of a thread, read without the interpreter lock, and the loops that it shows against the last look. */
#ifndef CODEDAG_SAMPLER_STACK_H
#define CODEDAG_SAMPLER_STACK_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include "sampler_tables.h"

#define THREADS_MAX 1024
#define DEPTH_MAX 2048
#define TRIES 3               /* of one stack that changes while it is read */
#define CACHE_REACH 32        /* how far to look for a frame among those of the last walk */
#define IDLE_LOOKS 50         /* a thread that did nothing for so many looks ... */
#define IDLE_STEP 8           /* ... is looked at every so many */
#define OVERDUE_LOOKS 3       /* CPU time of so many looks was charged to no stack */
#define MISSED_TICKS_MAX 10
#define EXCLUDED_MAX 16
#define HEAP_FRAMES 256
#define STACK_BYTES (512 * 1024)

typedef struct { uintptr_t frame; uint32_t code; int32_t unit; uint64_t activation, locals; } Slot;
typedef struct {
    uintptr_t frame, code, instruction;
    uint32_t number;
    int32_t unit;
    uint64_t activation, locals; /* locals: hash of its variables, 0: not known */
    const char *words;
    char is_entry, is_generator;
} Seen;
typedef struct {
    uintptr_t state;
    pid_t tid;
    unsigned long ident;
    uint64_t cpu, charged; /* nanoseconds at the last look; those that stacks were charged with */
    double wall;
    uint32_t tick, node;    /* node: of the last look, in the call tree */
    int idle, depth, walked;
    Slot *path;             /* of the last look, outermost first */
    uintptr_t *addresses;   /* the same with the frames of the C stack */
    int path_room, address_room;
} Thread;
typedef struct { uintptr_t frame; uint32_t code; int32_t unit; uint64_t locals; } HeapFrame;

typedef struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pid_t pid, tid;
    int is_running, is_stopping, is_first_tick;
    uintptr_t interpreter;
    double hz, own_share_max, wall, last_tick, tick_cost, activity;
    uint64_t own_cpu, excluded_cpu, activations, random;
    uint32_t tick;
    pid_t excluded[EXCLUDED_MAX];
    int excluded_count, thread_count;
    Thread threads[THREADS_MAX];
    HeapFrame heap[HEAP_FRAMES];
    Memory memory;
    Tables tables;
    Seen seen[DEPTH_MAX];       /* leaf first */
    Seen stack[DEPTH_MAX];      /* outermost first */
    uint32_t places[DEPTH_MAX];
    uintptr_t walked[DEPTH_MAX]; /* leaf first, with the frames of the C stack */
    int walked_count;
    char copies[DEPTH_MAX * FRAME_READ];  /* frames of the last walk */
    char singles[DEPTH_MAX * FRAME_READ]; /* frames that were not among them */
    char code_copies[BATCH_MAX * CODE_BYTES];
} Sampler;

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int nanoseconds_of(clockid_t clock, uint64_t *found) {
    struct timespec now;
    if (clock_gettime(clock, &now)) return 0;
    *found = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return 1;
}

/* The kernel's name for the CPU clock of a thread; a thread that is gone gives an error, not a crash. */
static clockid_t cpu_clock_of(pid_t tid) { return (clockid_t)((~(unsigned)tid << 3) | 6u); }

/* Whether a thread is on a processor, seen by its clock that grows between two readings.
 * A thread that waits used its CPU time elsewhere, and one that was interrupted was so more often at some places than
 * at others; only where there is one processor for the two of us must "could run" do. */
static int is_at_work(pid_t tid, uint64_t cpu, int is_overdue) {
    uint64_t now;
    char path[64], text[512];
    if (nanoseconds_of(cpu_clock_of(tid), &now) && now > cpu) return 1;
    if (!is_overdue) return 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 1;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size > 0 ? size : 0] = 0;
    const char *state = strrchr(text, ')'); /* "tid (name) S ..." */
    return !state || !state[1] || state[2] == 'R';
}

/* ---- reading one stack --------------------------------------------------------------------------------------- */

/* Reads the frames of the last walk at once: most of them are still there. */
static int copy_last_frames(Sampler *s, const Thread *t) {
    int copied = 0;
    while (copied < t->walked) {
        int count = t->walked - copied < BATCH_MAX ? t->walked - copied : BATCH_MAX;
        for (int i = 0; i < count; i++) s->memory.remote[i] = (struct iovec){(void *)t->addresses[copied + i], FRAME_READ};
        int done = copy_batch(&s->memory, s->copies + (size_t)copied * FRAME_READ, count, FRAME_READ);
        copied += done;
        if (done < count) break;
    }
    return copied;
}

static const char *copy_of_frame(Sampler *s, const Thread *t, uintptr_t address, int *at, int *has_words) {
    *has_words = 1;
    for (int i = *at; i >= 0 && i > *at - CACHE_REACH; i--)
        if (t->addresses[i] == address) {
            *at = i - 1;
            return s->copies + (size_t)i * FRAME_READ;
        }
    char *single = s->singles + (size_t)s->walked_count * FRAME_READ;
    if (copy_from(&s->memory, single, address, FRAME_READ)) return single;
    *has_words = 0; /* the frame may end where its memory ends */
    return copy_from(&s->memory, single, address, FRAME_BYTES) ? single : NULL;
}

/* The frames of a thread, leaf first; -1: the chain broke, since the thread went on meanwhile. */
static int walk(Sampler *s, const Thread *t, uintptr_t top) {
    int at = copy_last_frames(s, t) - 1, count = 0;
    s->walked_count = 0;
    for (uintptr_t address = top; address && s->walked_count < DEPTH_MAX;) {
        int has_words;
        const char *bytes = copy_of_frame(s, t, address, &at, &has_words);
        if (!bytes) return -1;
        FrameView view = view_frame(bytes);
        s->walked[s->walked_count++] = address;
        if (view.is_shim) {
            if (count) s->seen[count - 1].is_entry = 1;
        } else
            s->seen[count++] = (Seen){.frame = address, .code = view.code, .instruction = view.instruction, .number = NONE,
                                      .words = has_words ? bytes + FRAME_BYTES : NULL, .is_entry = view.is_entry,
                                      .is_generator = view.is_generator};
        if (view.previous == address) return -1;
        address = view.previous;
    }
    return count;
}

/* Checks one code object against what is known of its address. */
static int check_code(Sampler *s, uintptr_t address, const char *bytes) {
    Tables *t = &s->tables;
    CodeView view;
    uint32_t number = code_at(t, address);
    int is_code = bytes && view_code(bytes, &view);
    if (number != NONE && is_code && is_same_code(&view, &t->codes[number].view)) {
        t->codes[number].checked = s->tick;
        return 1;
    }
    if (number != NONE) t->codes[number].address = 0; /* freed, and perhaps another one lies there now */
    if (!is_code) return 0;
    number = add_code(t, &s->memory, address, &view);
    if (number != NONE) t->codes[number].checked = s->tick;
    return number != NONE;
}

static int check_batch(Sampler *s, int count) {
    int is_valid = 1, copied = copy_batch(&s->memory, s->code_copies, count, CODE_BYTES);
    uintptr_t addresses[BATCH_MAX];
    for (int i = 0; i < count; i++) addresses[i] = (uintptr_t)s->memory.remote[i].iov_base;
    for (int i = 0; i < count; i++) {
        char *bytes = s->code_copies + (size_t)i * CODE_BYTES;
        if (i >= copied && !copy_from(&s->memory, bytes, addresses[i], CODE_BYTES)) bytes = NULL;
        is_valid &= check_code(s, addresses[i], bytes);
    }
    return is_valid;
}

/* Looks at every code object of the stack once in a tick: an address may have a new tenant. */
static int check_codes(Sampler *s, int depth) {
    int count = 0, is_valid = 1;
    uintptr_t last = 0;
    for (int i = 0; i < depth; i++) {
        uintptr_t address = s->seen[i].code;
        uint32_t number = code_at(&s->tables, address);
        if (address == last || (number != NONE && s->tables.codes[number].checked == s->tick)) continue;
        last = address;
        if (number != NONE) s->tables.codes[number].checked = s->tick; /* recursion: once is enough */
        s->memory.remote[count++] = (struct iovec){(void *)address, CODE_BYTES};
        if (count == BATCH_MAX) { is_valid &= check_batch(s, count); count = 0; }
    }
    return check_batch(s, count) && is_valid;
}

/* Finds code and instruction of each frame; 0: the copies do not fit together. */
static int resolve(Sampler *s, int depth) {
    if (!check_codes(s, depth)) return 0;
    for (int i = 0; i < depth; i++) {
        Seen *seen = &s->seen[i];
        seen->number = code_at(&s->tables, seen->code);
        if (seen->number == NONE) { /* two objects with the same contents take turns in one row of the table */
            char bytes[CODE_BYTES];
            if (!copy_from(&s->memory, bytes, seen->code, CODE_BYTES) || !check_code(s, seen->code, bytes)) return 0;
            seen->number = code_at(&s->tables, seen->code);
        }
        intptr_t nbytes = (intptr_t)(seen->instruction - (seen->code + CODE_BYTES));
        if (nbytes < -UNIT_BYTES || nbytes % UNIT_BYTES || nbytes / UNIT_BYTES >= s->tables.codes[seen->number].view.units) return 0;
        seen->unit = nbytes < 0 ? 0 : (int32_t)(nbytes / UNIT_BYTES);
    }
    return 1;
}

static int reserve(Thread *t, int depth, int walked) {
    if (depth > t->path_room) {
        Slot *path = realloc(t->path, (size_t)(depth + 32) * sizeof(Slot));
        if (!path) return 0;
        t->path = path;
        t->path_room = depth + 32;
    }
    if (walked > t->address_room) {
        uintptr_t *addresses = realloc(t->addresses, (size_t)(walked + 32) * sizeof(uintptr_t));
        if (!addresses) return 0;
        t->addresses = addresses;
        t->address_room = walked + 32;
    }
    return 1;
}

/* ---- turns: a frame that stays while its place goes back ------------------------------------------------------- */

static void saw_turn(Sampler *s, const Thread *t, int depth, Range range, int is_call, uint64_t activation, double now) {
    Loop *loop = loop_for(&s->tables, s->stack[depth].number, range, t->ident);
    loop->is_call = is_call;
    add_turn(loop, activation, depth, now, t->cpu);
}

static int loop_at(const Sampler *s, int depth, int32_t other, Range *range) {
    const Seen *seen = &s->stack[depth];
    const Code *code = &s->tables.codes[seen->number];
    if (code->loop_count < 0) { *range = (Range){0, code->view.units - 1}; return 1; } /* not known: all of it */
    int number = loop_around(code->loops, code->loop_count, seen->unit, other);
    if (number >= 0) *range = code->loops[number];
    return number >= 0;
}

/* A frame was entered again from the same instruction of its caller: the loop is the caller's, or that of its caller.
 * Where C lies between, the C function may loop (map, sorted, apply): then the call itself is the loop. */
static void called_again(Sampler *s, const Thread *t, int child, int is_sure, double now) {
    for (int i = child - 1; i >= 0; i--) {
        Range range;
        if (loop_at(s, i, s->stack[i].unit, &range)) { saw_turn(s, t, i, range, 0, s->stack[i].activation, now); return; }
        if (s->stack[i + 1].is_entry) {
            range = (Range){s->stack[i].unit, s->stack[i].unit};
            if (is_sure) saw_turn(s, t, i, range, 1, s->stack[i].activation, now);
            return;
        }
        s->stack[i].activation = ++s->activations;
    }
}

static uint64_t generator_activation(const Seen *seen) { return mixed(seen->frame) | (1ULL << 63); }

/* A generator or coroutine leaves the stack between its turns; its frame stays where it is. */
static void look_at_generator(Sampler *s, const Thread *t, int depth, int is_new, double now) {
    Seen *seen = &s->stack[depth];
    HeapFrame *last = &s->heap[mixed(seen->frame) % HEAP_FRAMES];
    Range range;
    int is_back = seen->unit < last->unit ||
                  (seen->unit == last->unit && seen->locals && last->locals && seen->locals != last->locals);
    if (is_new && last->frame == seen->frame && last->code == seen->number && is_back && loop_at(s, depth, last->unit, &range))
        saw_turn(s, t, depth, range, 0, seen->activation, now);
    *last = (HeapFrame){seen->frame, seen->number, seen->unit, seen->locals};
}

static void compare_frame(Sampler *s, const Thread *t, int depth, double now) {
    const Slot *old = &t->path[depth];
    Seen *new = &s->stack[depth];
    Range range;
    if (old->frame != new->frame || old->code != new->number) { called_again(s, t, depth, 0, now); return; }
    if (new->unit > old->unit) { new->activation = old->activation; return; }
    if (!loop_at(s, depth, old->unit, &range)) { called_again(s, t, depth, 1, now); return; }
    new->activation = old->activation;
    saw_turn(s, t, depth, range, 0, new->activation, now);
}

/* The variables of a frame that waits for a call to return: they stay as they are until it does. */
static uint64_t locals_of(const Sampler *s, const Seen *seen) {
    int words = s->tables.codes[seen->number].view.words;
    return seen->words && words ? hash_of_words(seen->words, words) | 1 : 0;
}

/* Whether a frame is where it was at the last look, in the same call and the same turn as far as can be seen. */
static int is_unchanged(const Slot *old, const Seen *new) {
    if (old->frame != new->frame || old->code != new->number || old->unit != new->unit) return 0;
    return !old->locals || !new->locals || old->locals == new->locals;
}

/* Only the first frame that differs from the last look tells anything: those within it were called anew. */
static void find_turns(Sampler *s, const Thread *t, int depth, double now) {
    int same = 0, common = depth < t->depth ? depth : t->depth;
    for (int i = 0; i + 1 < depth; i++) s->stack[i].locals = locals_of(s, &s->stack[i]);
    while (same < common && is_unchanged(&t->path[same], &s->stack[same])) {
        s->stack[same].activation = t->path[same].activation;
        same++;
    }
    for (int i = same; i < depth; i++)
        s->stack[i].activation = s->stack[i].is_generator ? generator_activation(&s->stack[i]) : ++s->activations;
    int is_compared = same < common;
    if (is_compared) compare_frame(s, t, same, now);
    for (int i = same; i < depth; i++)
        if (s->stack[i].is_generator)
            look_at_generator(s, t, i, i > same || !is_compared || t->path[same].frame != s->stack[same].frame, now);
}

static void keep_path(Sampler *s, Thread *t, int depth) {
    t->depth = depth;
    t->walked = s->walked_count;
    for (int i = 0; i < depth; i++)
        t->path[i] = (Slot){s->stack[i].frame, s->stack[i].number, s->stack[i].unit, s->stack[i].activation, s->stack[i].locals};
    for (int i = 0; i < s->walked_count; i++) t->addresses[i] = s->walked[s->walked_count - 1 - i];
}
#endif
