/* Notes what torch tells its observers, the begin and the end of each operator and range, of every thread, while a
   window is open. _observer.py loads it with ctypes, so nothing here holds Python's interpreter. It is C++ only for
   how torch calls it: neither the C++ library nor torch's headers are needed. The types below that torch knows must
   lie in memory as its own do; _observer.py compares the declarations before it lets torch see them. */

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

/* -- what torch knows: at::ObserverContext, std::unique_ptr of it, at::RecordFunctionCallback */

struct Context {
    virtual ~Context() {}
};

struct Owned {
    Context *it;
    ~Owned() {} /* torch's, from then on */
};

struct Callback {
    Owned (*begin)(const void *function);
    void (*end)(const void *function, Context *context);
    double probability;
    bool scopes[10];
    bool inputs, outputs, ids;
};

uint64_t (*add_global)(Callback);
void (*remove_one)(uint64_t);
const char *(*name_of)(const void *function);

/* -- what is kept */

struct Record {
    int64_t begin, duration;
    uint32_t name, range; /* range: not of torch, but of a script, or of Python's part of torch */
};

const size_t CHUNK = 1 << 17;
struct Chunk {
    Chunk *next;
    size_t used;
};
const size_t MOST = (CHUNK - sizeof(Chunk)) / sizeof(Record);

Record *records(Chunk *chunk) { return (Record *)(chunk + 1); }

/* A thread's own. Given to another thread once it has ended, never freed: who looks at one late finds one. */
struct Thread {
    Thread *next;
    Chunk *first, *last;
    int64_t id;
    unsigned window;
    int lock, over;
};

Thread *threads;
int threads_lock;
pthread_key_t at_exit;
pthread_once_t once = PTHREAD_ONCE_INIT;
thread_local Thread *mine;

int collecting;
unsigned window;
int64_t chunks, most_chunks, lost;
uint64_t handles[2];
int installed;

void lock(int *word)
{
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

void unlock(int *word) { __atomic_store_n(word, 0, __ATOMIC_RELEASE); }

int64_t now()
{
    timespec read;
    clock_gettime(CLOCK_MONOTONIC, &read);
    return read.tv_sec * INT64_C(1000000000) + read.tv_nsec;
}

/* -- names: numbered in the order in which they come; found without a lock, added under one */

struct Name {
    uint64_t hash;
    uint32_t length;
    char text[];
};

const uint32_t SLOTS = 1 << 17, MOST_NAMES = SLOTS / 2, MOST_LENGTH = 1 << 12;
const int64_t MOST_TEXT = 32 << 20;
uint32_t slots[SLOTS]; /* a name's number and one; 0 is free */
Name *names[MOST_NAMES];
uint32_t name_count;
int64_t text_bytes;
int names_lock;

const char OTHERS[] = "(one name too many)";

uint64_t hashed(const char *text, size_t length)
{
    uint64_t hash = length;
    while (length) {
        uint64_t word = 0;
        size_t part = length < 8 ? length : 8;
        memcpy(&word, text, part);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
        text += part;
        length -= part;
    }
    return hash;
}

/* Returns the number of a text, or the slot where it belongs, as -1 - slot. */
int64_t look(const char *text, size_t length, uint64_t hash)
{
    for (uint32_t at = hash % SLOTS;; at = (at + 1) % SLOTS) { /* half of the slots stay free */
        uint32_t found = __atomic_load_n(&slots[at], __ATOMIC_ACQUIRE);
        if (!found)
            return -1 - (int64_t)at;
        Name *name = names[found - 1];
        if (name->hash == hash && name->length == length && !memcmp(name->text, text, length))
            return found - 1;
    }
}

uint32_t numbered(const char *text)
{
    size_t length = strnlen(text, MOST_LENGTH);
    uint64_t hash = hashed(text, length);
    int64_t found = look(text, length, hash);
    if (found >= 0)
        return (uint32_t)found;
    lock(&names_lock);
    found = look(text, length, hash);
    if (found < 0) {
        bool full = name_count >= MOST_NAMES - 1 || text_bytes > MOST_TEXT;
        Name *name = full ? nullptr : (Name *)malloc(sizeof(Name) + length);
        if (name) {
            name->hash = hash;
            name->length = (uint32_t)length;
            memcpy(name->text, text, length);
            text_bytes += (int64_t)length;
            names[name_count] = name;
            __atomic_store_n(&slots[-1 - found], ++name_count, __ATOMIC_RELEASE);
            found = name_count - 1;
        } else {
            found = 0; /* OTHERS */
        }
    }
    unlock(&names_lock);
    return (uint32_t)found;
}

void forget_names()
{
    for (uint32_t at = 0; at < name_count; at++)
        free(names[at]);
    memset(slots, 0, sizeof slots);
    name_count = 0;
    text_bytes = 0;
}

/* -- threads */

void ended(void *thread)
{
    mine = nullptr; /* other destructors of this thread may still compute */
    __atomic_store_n(&((Thread *)thread)->over, 1, __ATOMIC_RELEASE);
}

void drop(Thread *thread)
{
    while (Chunk *chunk = thread->first) {
        thread->first = chunk->next;
        munmap(chunk, CHUNK);
    }
    thread->last = nullptr;
}

/* A child has one thread and no window; what other threads of the parent held stays locked for ever. */
void forked()
{
    collecting = 0;
    chunks = 0;
    threads_lock = names_lock = 0;
    for (Thread *thread = threads; thread; thread = thread->next) {
        thread->lock = 0;
        thread->over = thread != mine;
        drop(thread);
    }
}

void prepare()
{
    pthread_key_create(&at_exit, ended);
    pthread_atfork(nullptr, nullptr, forked);
}

Thread *enrolled()
{
    lock(&threads_lock);
    Thread *thread = threads;
    while (thread && !(__atomic_load_n(&thread->over, __ATOMIC_ACQUIRE) && !thread->first))
        thread = thread->next;
    if (thread) {
        thread->over = 0;
    } else if ((thread = (Thread *)calloc(1, sizeof(Thread)))) {
        thread->next = threads;
        threads = thread;
    }
    unlock(&threads_lock);
    if (thread) {
        mine = thread;
        pthread_setspecific(at_exit, thread);
    }
    return thread;
}

/* Returns room for one more record of a thread, which is locked. */
Record *room(Thread *thread)
{
    if (thread->window != window) {
        thread->window = window;
        thread->id = syscall(SYS_gettid);
    }
    Chunk *chunk = thread->last;
    if (!chunk || chunk->used == MOST) {
        if (__atomic_fetch_add(&chunks, 1, __ATOMIC_RELAXED) >= most_chunks)
            chunk = (Chunk *)MAP_FAILED;
        else /* not of the C library's heap, which learns from what the training asks for */
            chunk = (Chunk *)mmap(nullptr, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED) {
            __atomic_fetch_sub(&chunks, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
            return nullptr;
        }
        *(thread->last ? &thread->last->next : &thread->first) = chunk;
        thread->last = chunk;
    }
    return &records(chunk)[chunk->used++];
}

/* -- what torch calls */

struct Open : Context {
    Thread *thread;
    Record *record;
    unsigned window;
    void *operator new(size_t size) noexcept { return malloc(size); }
    void operator delete(void *open) { free(open); }
};

template <bool RANGE> Owned begun(const void *function)
{
    Open *open = nullptr;
    Thread *thread = mine;
    if (__atomic_load_n(&collecting, __ATOMIC_RELAXED) && (thread || (thread = enrolled()))) {
        lock(&thread->lock);
        if (__atomic_load_n(&collecting, __ATOMIC_ACQUIRE) && (open = new Open)) {
            if (Record *record = room(thread)) {
                const char *name = name_of(function);
                open->thread = thread;
                open->record = record;
                open->window = window;
                record->name = numbered(name ? name : "");
                record->range = RANGE;
                record->duration = -1;
                record->begin = now();
            } else {
                delete open;
                open = nullptr;
            }
        }
        unlock(&thread->lock);
    }
    return Owned{open};
}

/* Often on the thread of the begin, but not always: collectives end on one of their own. */
void finished(const void *, Context *context)
{
    Open *open = (Open *)context;
    if (!open || !__atomic_load_n(&collecting, __ATOMIC_RELAXED) || open->window != window)
        return;
    int64_t ended = now();
    lock(&open->thread->lock);
    if (__atomic_load_n(&collecting, __ATOMIC_ACQUIRE) && open->window == window)
        open->record->duration = ended - open->record->begin;
    unlock(&open->thread->lock);
}

bool put(int file, const void *bytes, size_t size)
{
    const char *at = (const char *)bytes;
    while (size) {
        ssize_t done = write(file, at, size);
        if (done < 0)
            return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

char piece[1 << 16];

/* Writes one column; `field` makes a value of a record and its thread. */
template <class Value, class Field> bool column(int file, Field field)
{
    size_t at = 0;
    for (Thread *thread = threads; thread; thread = thread->next)
        for (Chunk *chunk = thread->first; chunk; chunk = chunk->next)
            for (size_t one = 0; one < chunk->used; one++) {
                Value value = (Value)field(records(chunk)[one], thread);
                memcpy(piece + at, &value, sizeof value);
                at += sizeof value;
                if (at == sizeof piece) {
                    if (!put(file, piece, at))
                        return false;
                    at = 0;
                }
            }
    return put(file, piece, at);
}

} // namespace

/* Where torch's functions lie: at::addGlobalCallback, at::removeCallback, at::RecordFunction::name. */
EXPORTED void holter_observer_know(void *add, void *remove, void *name)
{
    add_global = (uint64_t(*)(Callback))add;
    remove_one = (void (*)(uint64_t))remove;
    name_of = (const char *(*)(const void *))name;
    pthread_once(&once, prepare);
}

/* Begins to collect, at most about `most` events. What was collected before must have been freed. */
EXPORTED void holter_observer_begin(int64_t most, int user_scope)
{
    forget_names();
    numbered(OTHERS);
    lost = 0;
    most_chunks = (most + (int64_t)MOST - 1) / (int64_t)MOST;
    __atomic_add_fetch(&window, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&collecting, 1, __ATOMIC_RELEASE);
    if (installed) /* in the parent that this process was forked off */
        return;
    Callback operators = {begun<false>, finished, 1.0, {}, false, false, false}, ranges = operators;
    ranges.begin = begun<true>;
    for (int scope = 0; scope < 10; scope++)
        (scope == user_scope ? ranges : operators).scopes[scope] = true;
    handles[0] = add_global(operators);
    handles[1] = add_global(ranges);
    installed = 1;
}

/* Ends it; afterwards no thread is at work on what was collected. */
EXPORTED void holter_observer_end()
{
    __atomic_store_n(&collecting, 0, __ATOMIC_RELEASE);
    for (int one = 0; installed && one < 2; one++)
        remove_one(handles[one]);
    installed = 0;
    lock(&threads_lock);
    for (Thread *thread = threads; thread; thread = thread->next) {
        lock(&thread->lock);
        unlock(&thread->lock);
    }
    unlock(&threads_lock);
}

/* How many events there is room taken for. */
EXPORTED int64_t holter_observer_events()
{
    return __atomic_load_n(&chunks, __ATOMIC_RELAXED) * (int64_t)MOST;
}

/* Once it has ended: events, names, bytes of names with a length of four bytes before each, events lost. */
EXPORTED void holter_observer_counts(int64_t *counts)
{
    int64_t events = 0;
    for (Thread *thread = threads; thread; thread = thread->next)
        for (Chunk *chunk = thread->first; chunk; chunk = chunk->next)
            events += (int64_t)chunk->used;
    counts[0] = events;
    counts[1] = name_count;
    counts[2] = text_bytes + 4 * (int64_t)name_count;
    counts[3] = lost;
}

EXPORTED void holter_observer_names(char *texts)
{
    for (uint32_t at = 0; at < name_count; at++) {
        memcpy(texts, &names[at]->length, 4);
        memcpy(texts + 4, names[at]->text, names[at]->length);
        texts += 4 + names[at]->length;
    }
}

/* Writes the columns name, range (4 bytes each), begin, duration, thread (8 bytes each); false: errno says why. */
EXPORTED int holter_observer_write(int file)
{
    return column<int32_t>(file, [](Record &one, Thread *) { return one.name; }) &&
           column<int32_t>(file, [](Record &one, Thread *) { return one.range; }) &&
           column<int64_t>(file, [](Record &one, Thread *) { return one.begin; }) &&
           column<int64_t>(file, [](Record &one, Thread *) { return one.duration; }) &&
           column<int64_t>(file, [](Record &, Thread *thread) { return thread->id; });
}

EXPORTED void holter_observer_free()
{
    lock(&threads_lock);
    for (Thread *thread = threads; thread; thread = thread->next)
        drop(thread);
    __atomic_store_n(&chunks, 0, __ATOMIC_RELAXED);
    unlock(&threads_lock);
}
