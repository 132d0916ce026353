/* An access to a mapped file that was truncated raises SIGBUS, which would end the training. Pages of the recorder's
   own files get memory instead; records written there are lost and counted. Every other SIGBUS goes to the earlier
   handler. Independent of Python. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 4096 };

static struct {
    volatile uintptr_t begin, end;
} ranges[MOST];
static volatile int used; /* ranges beyond were never taken */
static struct sigaction before;
static uintptr_t page;
volatile int64_t holter_mapped_lost;

static int replaced(uintptr_t at)
{
    for (int i = 0; i < used; i++)
        if (at >= ranges[i].begin && at < ranges[i].end) {
            int kept = errno;
            void *memory = mmap((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            errno = kept;
            __atomic_fetch_add(&holter_mapped_lost, 1, __ATOMIC_RELAXED);
            return memory != MAP_FAILED;
        }
    return 0;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR && replaced((uintptr_t)info->si_addr))
        return;
    /* The access faults again, now for the earlier handler; a sent signal is sent on. */
    sigaction(number, &before, NULL);
    before.sa_flags = 0;
    before.sa_handler = SIG_DFL;
    if (info->si_code <= 0)
        raise(number);
}

/* Protect a mapping against truncation of its file; 0 when the table is full. */
int holter_mapped_keep(uintptr_t begin, int64_t size)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now))
        return 0;
    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_bus) {
        struct sigaction ours = {0};
        ours.sa_sigaction = on_bus;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        page = (uintptr_t)sysconf(_SC_PAGESIZE);
        before = now;
        if (sigaction(SIGBUS, &ours, NULL))
            return 0;
    }
    for (int i = 0; i < MOST; i++) {
        uintptr_t unused = 0;
        /* Taken with a begin above every address, so that nothing lies in it before its end is known. */
        if (__atomic_compare_exchange_n(&ranges[i].begin, &unused, UINTPTR_MAX, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            ranges[i].end = begin + (uintptr_t)size;
            ranges[i].begin = begin;
            for (int seen = used; seen <= i; seen = used)
                __atomic_compare_exchange_n(&used, &seen, i + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
            return 1;
        }
    }
    return 0;
}

/* It is not mapped any more. */
void holter_mapped_forget(uintptr_t begin)
{
    for (int i = 0; i < used; i++)
        if (ranges[i].begin == begin) {
            ranges[i].end = 0;
            ranges[i].begin = 0;
            return;
        }
}
