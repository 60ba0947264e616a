/* The sampling thread: looks at all threads of one interpreter and never takes the interpreter lock. */
#ifndef CODEDAG_SAMPLER_THREAD_H
#define CODEDAG_SAMPLER_THREAD_H

#include "sampler_stack.h"

#define ACTIVITY_SECONDS 0.5 /* over which the program's use of a processor is averaged */
#define ACTIVITY_MIN 0.05

/* ---- one look ------------------------------------------------------------------------------------------------ */

static void forget_paths(Sampler *s) {
    for (int i = 0; i < s->thread_count; i++) s->threads[i].depth = 0;
    memset(s->heap, 0, sizeof s->heap);
}

static int make_room(Sampler *s, double now) {
    Tables *t = &s->tables;
    if (t->code_count + 256 < CODES_MAX && t->place_count + DEPTH_MAX < PLACES_MAX) return 1;
    int is_done = shrink_tables(t, now);
    forget_paths(s);
    return is_done;
}

/* Reads the stack of a thread into s->stack; -1: it changed each time, or was not to be understood. */
static int read_stack(Sampler *s, Thread *t, uintptr_t top) {
    for (int i = 0; i < TRIES; i++) {
        ThreadView view;
        if (i && (!view_thread(&s->memory, t->state, &view) || !(top = view.top))) continue;
        int depth = walk(s, t, top);
        if (depth < 0 || !resolve(s, depth)) continue;
        for (int j = 0; j < depth; j++) s->stack[j] = s->seen[depth - 1 - j];
        return depth;
    }
    return -1;
}

/* What a thread used while it was not looked at is charged to the next stack that is at work.  A stack that could not
 * be read, or that waits, leaves it for the next: each look at work is equally likely to meet any of the work. */
static void look_at_stack(Sampler *s, Thread *t, uintptr_t top, double waiting, double now) {
    int depth = make_room(s, now) ? read_stack(s, t, top) : -1;
    if (depth < 0 || !reserve(t, depth, s->walked_count)) {
        s->tables.rejected++;
        return; /* the path of the last look stays: the next one is compared with it */
    }
    find_turns(s, t, depth, now);
    for (int i = 0; i < depth; i++) {
        s->places[i] = place_of(&s->tables, s->stack[i].number, s->stack[i].unit);
        if (s->places[i] == NONE) return;
    }
    keep_path(s, t, depth);
    double due = 1e-9 * (double)(t->cpu - t->charged);
    double cpu = is_at_work(t->tid, t->cpu, due * s->hz > OVERDUE_LOOKS) ? due : 0.0;
    if (cpu > 0.0) t->charged = t->cpu;
    if (depth) t->node = add_sample(&s->tables, s->places, depth, cpu, waiting, now);
    else s->tables.unseen += cpu; /* no Python below: a thread of a library */
}

static int is_excluded(const Sampler *s, pid_t tid) {
    for (int i = 0; i < s->excluded_count; i++)
        if (s->excluded[i] == tid) return 1;
    return 0;
}

static Thread *find_thread(Sampler *s, uintptr_t state, pid_t tid, int *at) {
    int guesses[] = {*at + 1, *at - 1};
    for (int i = 0; i < 2; i++) {
        int g = guesses[i];
        if (g >= 0 && g < s->thread_count && s->threads[g].state == state && s->threads[g].tid == tid) { *at = g; return &s->threads[g]; }
    }
    for (int i = 0; i < s->thread_count; i++)
        if (s->threads[i].state == state && s->threads[i].tid == tid) { *at = i; return &s->threads[i]; }
    return NULL;
}

/* A thread seen for the first time: it has worked since its start, but no longer than since the last look. */
static Thread *new_thread(Sampler *s, uintptr_t state, const ThreadView *view, uint64_t cpu, double now) {
    if (s->thread_count == THREADS_MAX) return NULL;
    Thread *t = &s->threads[s->thread_count++];
    uint64_t elapsed = s->is_first_tick ? 0 : (uint64_t)(1e9 * (now - s->last_tick));
    *t = (Thread){.state = state, .tid = view->tid, .ident = view->ident, .cpu = cpu > elapsed ? cpu - elapsed : 0};
    t->charged = t->cpu;
    t->wall = now - 1e-9 * (double)(cpu - t->cpu);
    return t;
}

static void wait_on(Sampler *s, Thread *t, double waiting) {
    s->tables.codes[t->path[t->depth - 1].code].waiting += waiting;
    if (t->node != NONE) s->tables.nodes[t->node].waiting += waiting;
    t->idle++;
}

static void look_at_thread(Sampler *s, uintptr_t state, const ThreadView *view, int *at, double now) {
    uint64_t cpu;
    Thread *t = find_thread(s, state, view->tid, at);
    if (t) {
        t->tick = s->tick;
        if (t->idle > IDLE_LOOKS && s->tick % IDLE_STEP) return;
    }
    if (view->tid <= 0 || !nanoseconds_of(cpu_clock_of(view->tid), &cpu)) return;
    if (!t && !(t = new_thread(s, state, view, cpu, now))) return;
    t->tick = s->tick;
    uint64_t growth = cpu > t->cpu ? cpu - t->cpu : 0;
    double seconds = 1e-9 * (double)growth, waiting = now - t->wall - seconds;
    t->cpu = cpu;
    t->wall = now;
    if (waiting < 0.0) waiting = 0.0;
    if (is_excluded(s, view->tid)) { s->excluded_cpu += growth; return; }
    s->tables.cpu += seconds;
    s->tables.waiting += waiting;
    if (!growth && t->depth) { wait_on(s, t, waiting); return; }
    t->idle = 0;
    look_at_stack(s, t, view->top, waiting, now);
}

static void drop_dead_threads(Sampler *s, uint32_t missed_ticks) {
    int kept = 0;
    for (int i = 0; i < s->thread_count; i++) {
        if (s->tick - s->threads[i].tick > missed_ticks) {
            free(s->threads[i].path);
            free(s->threads[i].addresses);
        } else s->threads[kept++] = s->threads[i];
    }
    s->thread_count = kept;
}

static void look_at_all(Sampler *s, double now) {
    uintptr_t state = 0, head = s->interpreter + offsetof(PyInterpreterState, threads.head);
    int is_whole = copy_from(&s->memory, &state, head, sizeof state), at = -1;
    for (int i = 0; is_whole && state && i < THREADS_MAX; i++) {
        ThreadView view;
        is_whole = view_thread(&s->memory, state, &view) && view.interpreter == s->interpreter;
        if (!is_whole) break;
        look_at_thread(s, state, &view, &at, now);
        state = view.next;
    }
    drop_dead_threads(s, is_whole && !state ? 0 : MISSED_TICKS_MAX);
}

/* Processors that the program uses, at most one: a share of its CPU time is less where it waits or is crowded out. */
static void note_activity(Sampler *s, double cpu, double wall) {
    if (wall <= 0.0) return;
    double activity = cpu / wall < 1.0 ? cpu / wall : 1.0, weight = wall / (wall + ACTIVITY_SECONDS);
    s->activity += weight * (activity - s->activity);
    if (s->activity < ACTIVITY_MIN) s->activity = ACTIVITY_MIN;
}

static void look_once(Sampler *s) {
    double now = seconds_now(), cpu = s->tables.cpu;
    s->tick++;
    if (!s->is_first_tick) s->wall += now - s->last_tick;
    look_at_all(s, now);
    if (!s->is_first_tick) note_activity(s, s->tables.cpu - cpu, now - s->last_tick);
    s->is_first_tick = 0;
    s->last_tick = now;
}

/* ---- the thread ---------------------------------------------------------------------------------------------- */

/* The pause until the next look: of random length, so that no loop of the program runs in step with it. */
static double next_pause(Sampler *s) {
    s->random ^= s->random << 13; s->random ^= s->random >> 7; s->random ^= s->random << 17;
    double pause = 1.0 / s->hz, least = s->tick_cost / s->own_share_max / s->activity;
    if (pause < least) pause = least;
    return pause * (0.5 + (double)(s->random >> 11) / 9007199254740992.0);
}

static void sleep_for(Sampler *s, double pause) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)pause;
    until.tv_nsec += (long)(1e9 * (pause - floor(pause)));
    if (until.tv_nsec >= 1000000000L) { until.tv_nsec -= 1000000000L; until.tv_sec++; }
    double hz = s->hz;
    while (!s->is_stopping && s->hz == hz && pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0) {}
}

static void *run_sampler(void *argument) {
    Sampler *s = argument;
    uint64_t before = 0, after = 0;
    pthread_mutex_lock(&s->lock);
    s->tid = (pid_t)syscall(SYS_gettid);
    while (!s->is_stopping) {
        look_once(s);
        if (nanoseconds_of(CLOCK_THREAD_CPUTIME_ID, &after)) {
            s->own_cpu += after - before;
            s->tick_cost += 0.1 * (1e-9 * (double)(after - before) - s->tick_cost);
            before = after;
        }
        sleep_for(s, next_pause(s));
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int make_thread(Sampler *s) {
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&s->thread, &attributes, run_sampler, s);
    if (error) error = pthread_create(&s->thread, NULL, run_sampler, s); /* thread-local storage may need more */
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) pthread_setname_np(s->thread, "codedag-heat");
    return error;
}

static int start_thread(Sampler *s, double hz) {
    s->hz = hz;
    s->is_stopping = 0;
    s->is_first_tick = 1;
    for (int i = 0; i < s->thread_count; i++) { free(s->threads[i].path); free(s->threads[i].addresses); }
    s->thread_count = 0;
    memset(s->heap, 0, sizeof s->heap);
    int error = make_thread(s);
    s->is_running = !error;
    return error;
}

/* A thread that was joined is still counted by the kernel for a moment, and a fork would warn of it. */
static void await_end(const Sampler *s) {
    struct timespec pause = {0, 20000};
    for (int i = 0; s->tid && i < 100 && !syscall(SYS_tgkill, s->pid, s->tid, 0); i++) nanosleep(&pause, NULL);
}

static void stop_thread(Sampler *s) {
    if (!s->is_running) return;
    pthread_mutex_lock(&s->lock);
    s->is_stopping = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    await_end(s);
    s->is_running = s->tid = 0;
}
#endif
