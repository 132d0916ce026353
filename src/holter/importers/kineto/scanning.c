/* Events of a trace as columns, in one pass over the text of a list of them.

   What torch.profiler writes by the hundred thousand is taken apart here: operators, calls, kernels, copies,
   marks of the allocator. Any other event, and one of these with a field of another type than usual, is left
   to Python, as the places where it begins and ends; a text that is no JSON is left to it as a whole.
   Nothing is read beyond the text that was given; only texts met for the first time are kept. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 6, DETAILS = 16, MOST_DEPTH = 64, MOST_PROBES = 256, LONGEST_SEEN = 512, MOST_SEEN = 65536 };
enum { STREAM = 1 };                                  /* place of the stream among the numbers of work */
enum { MOST_KNOWN = 127, LONGEST_KNOWN = 64 };       /* keys and categories; what is beyond is not known */
enum { NAMES, CARRIED, SEEN, TABLES };               /* tables of texts */
enum { DROP, NUMBER = 1, DETAIL = 32, OTHERS = 127 }; /* what becomes of a field of args */
enum { STRETCH, ARROW, MARK };                        /* what a category is */
static const int64_t NONE = INT64_MIN;
static const uint64_t ONES = 0x0101010101010101u, HIGHS = 0x8080808080808080u;

typedef struct { const char *at; int64_t length; } slice;

/* Distinct texts, numbered as they are met first. */
typedef struct {
    char *bytes;
    int64_t *ends;
    uint32_t *hashes;
    int32_t *slots;
    int64_t room, slots_count;
    int32_t count, most;
} texts;

/* What the caller sets: keys of args and categories in use, with what is to be done about them. */
typedef struct {
    const char *key_bytes; const int64_t *key_ends; int64_t keys;
    const char *category_bytes; const int64_t *category_ends; int64_t categories;
    const int8_t *sorts;   /* of a category: STRETCH, ARROW or MARK */
    const int8_t *actions; /* of a category, of a key: DROP, NUMBER + n, DETAIL + n or OTHERS */
} rules;

/* What the caller gets: of each event taken apart one value a column; of each other one where it lies. */
typedef struct {
    int64_t room, rows, others, omitted;
    int8_t *category;
    int32_t *name, *detail;
    int64_t *process, *thread, *numbers; /* numbers: NUMBERS for each event */
    double *time, *duration;
    int64_t *begins, *ends;
} columns;

typedef struct { int8_t first[LONGEST_KNOWN], next[MOST_KNOWN]; } by_length;

typedef struct {
    texts tables[TABLES];
    char *built;
    int64_t built_room;
    uint64_t seed;
    by_length keys, categories;
} scanner;

typedef struct { const char *p, *end; } cursor;

static uint32_t hashed(const char *at, int64_t length, uint64_t h) {
    uint64_t word, other, g = h ^ 0xC2B2AE3D27D4EB4Fu;
    for (h ^= (uint64_t)length; length >= 16; at += 16, length -= 16) { /* two that need not wait for each other */
        memcpy(&word, at, 8);
        memcpy(&other, at + 8, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        g = (g ^ other) * 0xD6E8FEB86659FD93u;
        h ^= h >> 29;
        g ^= g >> 32;
    }
    for (h ^= g; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    word = 0;
    memcpy(&word, at, (size_t)length);
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static int64_t begin_of(const texts *t, int32_t number) { return number ? t->ends[number - 1] : 0; }

static int grown(void **memory, int64_t size) {
    void *more = realloc(*memory, (size_t)size);
    if (more) *memory = more;
    return more != NULL;
}

static int more_slots(texts *t) {
    int64_t count = t->slots_count ? 2 * t->slots_count : 1024;
    int32_t *slots = calloc((size_t)count, sizeof *slots);
    if (!slots) return 0;
    for (int32_t n = 0; n < t->count; n++) {
        int64_t at = t->hashes[n] & (count - 1);
        while (slots[at]) at = (at + 1) & (count - 1);
        slots[at] = n + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->slots_count = count;
    return 1;
}

/* The number of a text; a new one is kept. -1 without memory, or for texts made to collide. */
static int32_t numbered(texts *t, slice s, uint64_t seed, int *is_new) {
    uint32_t hash = hashed(s.at, s.length, seed);
    *is_new = 0;
    if (2 * (int64_t)t->count >= t->slots_count && !more_slots(t)) return -1;
    int64_t at = hash & (t->slots_count - 1);
    for (int probes = 0; t->slots[at]; at = (at + 1) & (t->slots_count - 1)) {
        int32_t n = t->slots[at] - 1;
        int64_t begin = begin_of(t, n);
        if (t->hashes[n] == hash && t->ends[n] - begin == s.length && !memcmp(t->bytes + begin, s.at, (size_t)s.length))
            return n;
        if (++probes > MOST_PROBES) return -1;
    }
    if (t->count == t->most) {
        int32_t most = t->most ? 2 * t->most : 512;
        if (most <= 0 || !grown((void **)&t->ends, most * (int64_t)sizeof *t->ends) ||
            !grown((void **)&t->hashes, most * (int64_t)sizeof *t->hashes)) return -1;
        t->most = most;
    }
    int64_t begin = begin_of(t, t->count);
    if (!t->bytes || begin + s.length > t->room) {
        int64_t room = 2 * (begin + s.length) + 64; /* never 0: the first text may be empty */
        if (!grown((void **)&t->bytes, room)) return -1;
        t->room = room;
    }
    memcpy(t->bytes + begin, s.at, (size_t)s.length);
    t->ends[t->count] = begin + s.length;
    t->hashes[t->count] = hash;
    t->slots[at] = ++t->count;
    *is_new = 1;
    return t->count - 1;
}

/* Where to look for one of a few texts: the first of each length, and of each the next that is as long. */
static void indexed(by_length *index, const int64_t *ends, int64_t count) {
    memset(index, -1, sizeof *index);
    for (int64_t n = count < MOST_KNOWN ? count : MOST_KNOWN; n-- > 0;) {
        int64_t length = ends[n] - (n ? ends[n - 1] : 0);
        if (length >= LONGEST_KNOWN) continue;
        index->next[n] = index->first[length];
        index->first[length] = (int8_t)n;
    }
}

/* Which of a few texts this is; -1 for none. */
static int known(const by_length *index, const char *bytes, const int64_t *ends, slice s) {
    if (s.length >= LONGEST_KNOWN) return -1;
    for (int n = index->first[s.length]; n >= 0; n = index->next[n])
        if (!memcmp(bytes + (n ? ends[n - 1] : 0), s.at, (size_t)s.length)) return n;
    return -1;
}

static int is(slice s, const char *word) {
    return s.length == (int64_t)strlen(word) && !memcmp(s.at, word, (size_t)s.length);
}

static void blanks(cursor *c) {
    const uint64_t spaces = 0x2020202020202020u;
    uint64_t word;
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r')) {
        c->p++; /* a line's indentation is most of some traces */
        while (c->end - c->p >= 8 && (memcpy(&word, c->p, 8), word == spaces)) c->p += 8;
    }
}

/* The place of the lowest byte whose highest bit is set in a mask that is not 0. */
static int lowest(uint64_t mask) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_ctzll(mask) >> 3;
#else
    return (void)mask, 0;
#endif
}

static int taken(cursor *c, char wanted) {
    blanks(c);
    if (c->p >= c->end || *c->p != wanted) return 0;
    c->p++;
    return 1;
}

/* A string's inside, as it is written; the cursor is behind its first quote. */
static int string(cursor *c, slice *s) {
    s->at = c->p;
    for (;;) {
        while (c->end - c->p >= 8) { /* eight at a time while none is a quote, a backslash or a control */
            uint64_t w, q, b, found;
            memcpy(&w, c->p, 8);
            q = w ^ (ONES * '"');
            b = w ^ (ONES * '\\');
            found = (((q - ONES) & ~q) | ((b - ONES) & ~b) | ((w - ONES * 32) & ~w)) & HIGHS;
            if (found) {
                c->p += lowest(found);
                break;
            }
            c->p += 8;
        }
        if (c->p >= c->end || (unsigned char)*c->p < 32) return 0;
        if (*c->p == '"') {
            s->length = c->p++ - s->at;
            return 1;
        }
        c->p += *c->p == '\\' ? 2 : 1;
    }
}

/* A value of any kind, as it is written. Only brackets are checked; the decoder finds other faults. */
static int value(cursor *c, slice *s) {
    char open[MOST_DEPTH];
    int depth = 0;
    slice inside;
    blanks(c);
    s->at = c->p;
    while (c->p < c->end) {
        while (depth && c->end - c->p >= 8) { /* eight at a time while none is a quote or a bracket */
            uint64_t w, q, o, e, found;
            memcpy(&w, c->p, 8);
            q = w ^ (ONES * '"');
            o = (w | (ONES * 32)) ^ (ONES * '{'); /* [ and ] are { and } without that bit */
            e = (w | (ONES * 32)) ^ (ONES * '}');
            found = (((q - ONES) & ~q) | ((o - ONES) & ~o) | ((e - ONES) & ~e)) & HIGHS;
            if (found) {
                c->p += lowest(found);
                break;
            }
            c->p += 8;
        }
        if (c->p >= c->end) return 0;
        char letter = *c->p++;
        if (letter == '"') {
            if (!string(c, &inside)) return 0;
        } else if (letter == '{' || letter == '[') {
            if (depth == MOST_DEPTH) return 0;
            open[depth++] = letter == '{' ? '}' : ']';
            continue;
        } else if (letter == '}' || letter == ']') {
            if (!depth || open[--depth] != letter) return 0;
        } else if (depth) {
            continue; /* commas, colons, blanks, and what numbers and words are made of */
        } else if (letter == '-' || (letter >= '0' && letter <= '9') || letter == 't' || letter == 'f' || letter == 'n') {
            while (c->p < c->end && *c->p != ',' && *c->p != '}' && *c->p != ']' && (unsigned char)*c->p > 32) c->p++;
        } else {
            return 0;
        }
        if (!depth) {
            s->length = c->p - s->at;
            return 1;
        }
    }
    return 0;
}

/* A number without an exponent: the nearest double, and where it is whole, exactly. */
static int number(slice s, double *near, int64_t *whole) {
    static const double tens[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    int64_t at = 0, digits = 0, behind = 0;
    uint64_t all = 0;
    int negative = s.length && *s.at == '-', point = 0;
    at = negative;
    if (s.length - at > 1 && s.at[at] == '0' && s.at[at + 1] != '.') return 0;
    for (; at < s.length; at++) {
        char letter = s.at[at];
        if (letter == '.' && !point && digits) {
            point = 1;
        } else if (letter >= '0' && letter <= '9') {
            if (++digits > 18 && !point) return 0;
            behind += point;
            all = digits > 18 ? UINT64_MAX : all * 10 + (uint64_t)(letter - '0');
        } else {
            return 0;
        }
    }
    if (!digits || (point && !behind)) return 0;
    *whole = point ? NONE : negative ? -(int64_t)all : (int64_t)all;
    if (point && (all > (1ull << 53) || behind > 15)) { /* the quotient would be rounded twice */
        char copy[64], *end;
        if (s.length >= (int64_t)sizeof copy) return 0;
        memcpy(copy, s.at, (size_t)s.length);
        copy[s.length] = 0;
        *near = strtod(copy, &end);
        return end == copy + s.length; /* not where a locale has another point */
    }
    *near = (double)all / tens[behind];
    if (negative) *near = -*near;
    return 1;
}

static int built(scanner *s, const rules *r, const int *keys, const slice *parts, slice *whole) {
    int64_t size = 2;
    for (int n = 0; n < DETAILS; n++)
        if (parts[n].at) size += parts[n].length + r->key_ends[keys[n]] + 4;
    if (size > s->built_room) {
        if (!grown((void **)&s->built, 2 * size)) return 0;
        s->built_room = 2 * size;
    }
    char *to = s->built;
    *to++ = '{';
    for (int n = 0; n < DETAILS; n++) {
        if (!parts[n].at) continue;
        int64_t begin = keys[n] ? r->key_ends[keys[n] - 1] : 0, length = r->key_ends[keys[n]] - begin;
        if (to[-1] != '{') *to++ = ',';
        *to++ = '"';
        memcpy(to, r->key_bytes + begin, (size_t)length);
        to += length;
        *to++ = '"', *to++ = ':';
        memcpy(to, parts[n].at, (size_t)parts[n].length);
        to += parts[n].length;
    }
    *to++ = '}';
    whole->at = s->built;
    whole->length = to - s->built;
    return 1;
}

/* Take apart what an event carries. 1: done, 0: no JSON, 2: for others. */
static int carried(scanner *s, const rules *r, int category, cursor *c, int64_t *numbers, int32_t *detail) {
    slice key, what, parts[DETAILS] = {{0, 0}}, whole;
    int keys[DETAILS], any = 0, is_new;
    double near;
    for (int n = 0; n < NUMBERS; n++) numbers[n] = NONE;
    *detail = -1;
    if (!taken(c, '{')) return 2;
    if (taken(c, '}')) return 1;
    do {
        if (!taken(c, '"') || !string(c, &key) || !taken(c, ':') || !value(c, &what)) return 0;
        int k = known(&s->keys, r->key_bytes, r->key_ends, key);
        int action = k < 0 ? memchr(key.at, '\\', (size_t)key.length) ? OTHERS : DROP : r->actions[category * r->keys + k];
        if (action == OTHERS) return 2;
        if (action >= DETAIL) {
            keys[action - DETAIL] = k;
            parts[action - DETAIL] = what;
            any = 1;
        } else if (action >= NUMBER && (!number(what, &near, &numbers[action - NUMBER]) || numbers[action - NUMBER] == NONE)) {
            return 2;
        }
    } while (taken(c, ','));
    if (!taken(c, '}')) return 0;
    if (any) {
        if (!built(s, r, keys, parts, &whole)) return 2;
        *detail = numbered(&s->tables[CARRIED], whole, s->seed, &is_new);
        if (*detail < 0) return 2;
    }
    return 1;
}

/* The first versions wrote threads as text: of "25738" and "stream 7", what is the number. */
static slice numeral(slice s, int *on_stream) {
    static const char prefix[] = "stream ";
    int64_t length = sizeof prefix - 1;
    *on_stream = s.length > length && !memcmp(s.at, prefix, (size_t)length);
    return *on_stream ? (slice){s.at + length, s.length - length} : s;
}

/* Take apart an event. 1: done, 0: no JSON, 2: for others. */
static int event(scanner *s, const rules *r, columns *to, cursor *c) {
    slice key, what, kind = {0, 0}, category = {0, 0}, name = {0, 0};
    const char *begin = c->p - 1, *args = NULL;
    int64_t row = to->rows, *numbers = to->numbers + row * NUMBERS;
    int64_t process = NONE, thread = NONE, ignored;
    double time = 0, duration = 0;
    int usual = row < to->room, timed = 0, sort = -1, carries = -1, on_stream = 0, is_new;
    if (taken(c, '}')) return 2;
    do {
        if (!taken(c, '"') || !string(c, &key) || !taken(c, ':')) return 0;
        if (is(key, "args")) {
            blanks(c);
            args = c->p;
            carries = -1;
            if (usual && sort >= 0 && r->sorts[sort] != ARROW) { /* its category stands before it: one pass */
                int done = carried(s, r, sort, c, numbers, &to->detail[row]);
                if (done == 1) {
                    carries = sort;
                    continue;
                }
                usual = 0; /* others find what is wrong, or odd */
                c->p = args;
            }
            if (!value(c, &what)) return 0;
            continue;
        }
        if (!value(c, &what)) return 0;
        slice inside = {what.at + 1, what.length - 2};
        int text = *what.at == '"';
        if (is(key, "ph")) kind = inside, usual &= text;
        else if (is(key, "cat")) {
            category = inside, usual &= text;
            sort = text ? known(&s->categories, r->category_bytes, r->category_ends, category) : -1;
        }
        else if (is(key, "name")) name = inside, usual &= text;
        else if (is(key, "pid")) usual &= number(what, &(double){0}, &process);
        else if (is(key, "tid")) usual &= number(text ? numeral(inside, &on_stream) : what, &(double){0}, &thread);
        else if (is(key, "ts")) usual &= timed = number(what, &time, &ignored);
        else if (is(key, "dur")) usual &= number(what, &duration, &ignored);
        else usual &= !memchr(key.at, '\\', (size_t)key.length);
    } while (taken(c, ','));
    if (!taken(c, '}')) return 0;
    if (!usual || kind.length != 1) return 2;
    if (*kind.at == 'M') { /* names of threads stand there again and again */
        slice whole = {begin, c->p - begin};
        if (whole.length > LONGEST_SEEN || s->tables[SEEN].count > MOST_SEEN || numbered(&s->tables[SEEN], whole, s->seed, &is_new) < 0 || is_new) return 2;
        return 1;
    }
    if (sort < 0) return 2;
    if (r->sorts[sort] == ARROW) {
        if (*kind.at != 's' && *kind.at != 't' && *kind.at != 'f') return 2;
        to->omitted++;
        return 1;
    }
    if (*kind.at != (r->sorts[sort] == MARK ? 'i' : 'X') || !timed || process == NONE || thread == NONE) return 2;
    if (r->sorts[sort] == MARK && !is(name, "[memory]")) return 2;
    if (!args) {
        for (int n = 0; n < NUMBERS; n++) numbers[n] = NONE;
        to->detail[row] = -1;
    } else if (carries != sort) {
        cursor again = {args, c->p};
        int done = carried(s, r, sort, &again, numbers, &to->detail[row]);
        if (done != 1) return done;
    }
    if (on_stream && numbers[STREAM] != thread) return 2;
    if (!name.at) name.at = begin;
    to->name[row] = numbered(&s->tables[NAMES], name, s->seed, &is_new);
    if (to->name[row] < 0) return 2;
    to->category[row] = (int8_t)sort;
    to->process[row] = process;
    to->thread[row] = thread;
    to->time[row] = time;
    to->duration[row] = duration;
    to->rows++;
    return 1;
}

/* Take apart a list of events; returns how many there are, or -1 where it is no JSON or has too many. */
int64_t holter_scan(scanner *s, const rules *r, columns *to, const char *text, int64_t length) {
    cursor c = {text, text + length};
    int64_t count = 0;
    to->rows = to->others = to->omitted = 0;
    indexed(&s->keys, r->key_ends, r->keys);
    indexed(&s->categories, r->category_ends, r->categories);
    if (!taken(&c, '[')) return -1;
    if (!taken(&c, ']')) {
        do {
            if (!taken(&c, '{')) return -1;
            const char *begin = c.p - 1;
            int done = event(s, r, to, &c);
            if (!done || (done == 2 && to->others >= to->room)) return -1;
            if (done == 2) {
                to->begins[to->others] = begin - text;
                to->ends[to->others++] = c.p - text;
            }
            count++;
        } while (taken(&c, ','));
        if (!taken(&c, ']')) return -1;
    }
    blanks(&c);
    return c.p == c.end ? count : -1;
}

scanner *holter_scanner(uint64_t seed) {
    scanner *s = calloc(1, sizeof *s);
    if (s) s->seed = seed;
    return s;
}

/* Where a table's texts lie, and where each ends; returns how many there are. */
int64_t holter_texts(const scanner *s, int32_t table, const char **bytes, const int64_t **ends) {
    *bytes = s->tables[table].bytes;
    *ends = s->tables[table].ends;
    return s->tables[table].count;
}

void holter_forget(scanner *s) {
    for (int n = 0; n < TABLES; n++) {
        texts *t = &s->tables[n];
        free(t->bytes), free(t->ends), free(t->hashes), free(t->slots);
        memset(t, 0, sizeof *t);
    }
}

void holter_end(scanner *s) {
    holter_forget(s);
    free(s->built);
    free(s);
}
