/* Sums over floating-point numbers in one pass over memory, in double; compiled by the build, loaded by `sums.py`.

   Lanes are independent, so that a compiler makes vectors of them without changing what is added to what. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define ROW 1024 /* Elements between two collections of the lanes: counts of a row fit 32 bits. */

/* One file serves all processors of an architecture: where the loader can choose, each gets the code made for it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && (!defined(__clang__) || __clang_major__ >= 14)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

enum type { SINGLE, BRAIN, HALF }; /* float32, bfloat16, float16 */

struct sums {
    double low, high, total, squares, absolute, change, change_squares, largest;
    double zeros, small, odd; /* elements that are 0; others below `tiny`; that are not finite */
};

static inline float number(uint32_t bits) {
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

static inline float at(const void *from, int64_t i, enum type type) {
    if (type == SINGLE) return ((const float *)from)[i];
    uint32_t bits = ((const uint16_t *)from)[i];
    if (type == BRAIN) return number(bits << 16);
    uint32_t sign = (bits & 0x8000) << 16, rest = (bits & 0x7fff) << 13;
    float tiny = (float)(int32_t)(bits & 0x03ff) * 0x1p-24f; /* what it is without an exponent */
    uint32_t wide, without = -(uint32_t)(rest < 0x0400 << 13), endless = -(uint32_t)(rest >= 0x7c00 << 13);
    memcpy(&wide, &tiny, sizeof wide);
    return number(sign | (wide & without) | ((rest + (112u << 23) + (endless & 112u << 23)) & ~without));
}

static inline void copy(const void *from, void *to, int64_t i, enum type type) {
    if (type == SINGLE) ((float *)to)[i] = ((const float *)from)[i];
    else ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
}

#define EACH for (int j = 0; j < LANES; j++)

static inline __attribute__((always_inline)) void pass(const void *now, void *before, int64_t count, float tiny,
                                                       enum type type, struct sums *found) {
    struct sums s = {.low = INFINITY, .high = -INFINITY};
    for (int64_t begin = 0; begin < count; begin += ROW) {
        float low[LANES], high[LANES], largest[LANES] = {0};
        double total[LANES] = {0}, squares[LANES] = {0}, absolute[LANES] = {0};
        double change[LANES] = {0}, change_squares[LANES] = {0};
        int32_t zeros[LANES] = {0}, small[LANES] = {0}, odd[LANES] = {0};
        EACH low[j] = INFINITY, high[j] = -INFINITY;
        int64_t end = count - begin < ROW ? count : begin + ROW, whole = end - (end - begin) % LANES;
#define ADD(j, i)                                                                                                      \
    do {                                                                                                               \
        float v_ = at(now, i, type), m_ = fabsf(v_);                                                                   \
        low[j] = v_ < low[j] ? v_ : low[j];                                                                            \
        high[j] = v_ > high[j] ? v_ : high[j];                                                                         \
        total[j] += v_;                                                                                                \
        squares[j] += (double)v_ * v_;                                                                                 \
        absolute[j] += m_;                                                                                             \
        zeros[j] += m_ == 0;                                                                                           \
        small[j] += m_ < tiny;                                                                                         \
        odd[j] += !(m_ < INFINITY);                                                                                    \
    } while (0)
#define COMPARE(j, i)                                                                                                  \
    do {                                                                                                               \
        float d_ = fabsf(at(now, i, type) - at(before, i, type));                                                      \
        copy(now, before, i, type);                                                                                    \
        largest[j] = d_ > largest[j] ? d_ : largest[j];                                                                \
        change[j] += d_;                                                                                               \
        change_squares[j] += (double)d_ * d_;                                                                          \
    } while (0)
        if (before)
            for (int64_t i = begin; i < whole; i += LANES) {
                EACH ADD(j, i + j);
                EACH COMPARE(j, i + j); /* apart, which is half as long */
            }
        else
            for (int64_t i = begin; i < whole; i += LANES) EACH ADD(j, i + j);
        for (int64_t i = whole; i < end; i++) {
            ADD(0, i);
            if (before) COMPARE(0, i);
        }
        EACH {
            s.low = low[j] < s.low ? low[j] : s.low;
            s.high = high[j] > s.high ? high[j] : s.high;
            s.largest = largest[j] > s.largest ? largest[j] : s.largest;
            s.total += total[j], s.squares += squares[j], s.absolute += absolute[j];
            s.change += change[j], s.change_squares += change_squares[j];
            s.zeros += zeros[j], s.small += small[j] - zeros[j], s.odd += odd[j];
        }
    }
    *found = s;
}

/* `before`, if it is not NULL, is compared with `now`, and is `now` afterwards. */
FOR_EACH_PROCESSOR
void holter_sums(const void *now, void *before, int64_t count, float tiny, int32_t type, struct sums *found) {
    if (type == SINGLE) pass(now, before, count, tiny, SINGLE, found);
    else if (type == BRAIN) pass(now, before, count, tiny, BRAIN, found);
    else pass(now, before, count, tiny, HALF, found);
}
