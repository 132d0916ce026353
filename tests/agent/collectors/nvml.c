/* A driver library that answers from a text file, so that the real binding can be tested without a GPU.
 *
 * The file named by FAKE_NVML has one line "function device value…" for each answer; "error N" as value is an
 * error code. A function that is not in the file answers "not supported".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned int gpu, memory; } rates_t;
typedef struct { unsigned long long total, free, used; } memory_t;
static int handles[16];

static int answer(const char *function, int device, char *text, size_t size) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    if (!file) return 9; /* driver not loaded */
    while (fgets(line, sizeof line, file)) {
        char name[64];
        int number, used = 0;
        if (sscanf(line, "%63s %d %n", name, &number, &used) == 2 && !strcmp(name, function) && number == device) {
            int code = 0;
            fclose(file);
            line[strcspn(line, "\n")] = 0;
            if (sscanf(line + used, "error %d", &code) == 1) return code;
            snprintf(text, size, "%s", line + used);
            return 0;
        }
    }
    fclose(file);
    return 3; /* not supported */
}

static int device_of(void *handle) { return (int)((int *)handle - handles); }

static int number_of(const char *function, void *handle, unsigned int *value) {
    char text[128];
    int code = answer(function, device_of(handle), text, sizeof text);
    if (!code) *value = (unsigned int)strtoul(text, NULL, 0);
    return code;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return getenv("FAKE_NVML") ? 0 : 9; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    return code == 3 ? "Not Supported" : code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost" : "Unknown Error";
}
int nvmlDeviceGetCount_v2(unsigned int *count) { return number_of("count", &handles[0], count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) { *handle = &handles[index]; return 0; }
int nvmlDeviceGetName(void *handle, char *name, unsigned int size) { return answer("name", device_of(handle), name, size); }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int size) { return answer("uuid", device_of(handle), uuid, size); }
int nvmlDeviceGetUtilizationRates(void *handle, rates_t *rates) {
    char text[128];
    int code = answer("utilization", device_of(handle), text, sizeof text);
    if (!code) sscanf(text, "%u %u", &rates->gpu, &rates->memory);
    return code;
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    char text[128];
    int code = answer("memory", device_of(handle), text, sizeof text);
    if (!code) {
        sscanf(text, "%llu %llu", &memory->total, &memory->used);
        memory->free = memory->total - memory->used;
    }
    return code;
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned int *value) { (void)sensor; return number_of("temperature", handle, value); }
int nvmlDeviceGetPowerUsage(void *handle, unsigned int *value) { return number_of("power", handle, value); }
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned int *value) { return number_of("power_limit", handle, value); }
int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned int *value) { (void)kind; return number_of("clock", handle, value); }
int nvmlDeviceGetMaxClockInfo(void *handle, int kind, unsigned int *value) { (void)kind; return number_of("clock_max", handle, value); }
int nvmlDeviceGetPcieThroughput(void *handle, int counter, unsigned int *value) {
    return number_of(counter == 0 ? "pcie_tx" : "pcie_rx", handle, value);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    unsigned int value;
    int code = number_of("throttle", handle, &value);
    if (!code) *reasons = value;
    return code;
}
int nvmlDeviceGetTemperatureThreshold(void *handle, int kind, unsigned int *value) {
    (void)kind;
    return number_of("slowdown", handle, value);
}
int nvmlDeviceGetPcieReplayCounter(void *handle, unsigned int *value) { return number_of("replays", handle, value); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *handle, unsigned int *value) { return number_of("gen", handle, value); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned int *value) { return number_of("gen_max", handle, value); }
int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned int *value) { return number_of("width", handle, value); }
int nvmlDeviceGetMaxPcieLinkWidth(void *handle, unsigned int *value) { return number_of("width_max", handle, value); }
int nvmlDeviceGetRemappedRows(void *handle, unsigned int *fixed, unsigned int *lost, unsigned int *pending, unsigned int *failed) {
    char text[128];
    int code = answer("remapped", device_of(handle), text, sizeof text);
    if (!code) sscanf(text, "%u %u %u %u", fixed, lost, pending, failed);
    return code;
}
typedef struct {
    unsigned int id, scope;
    long long time, latency;
    unsigned int type, code;
    union { unsigned int number; unsigned long long wide; } value;
} field_t;
int nvmlDeviceGetFieldValues(void *handle, int count, field_t *fields) {
    for (int i = 0; i < count; i++) fields[i].code = number_of("memory_temperature", handle, &fields[i].value.number);
    return 0;
}
/* A set of events is the place of the one GPU it was registered for; each error is told once. */
static void *sets[16];
static int made, told[16];
int nvmlEventSetCreate(void ***set) { *set = &sets[made++]; return 0; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long kinds, void **set) { (void)kinds; *set = handle; return 0; }
typedef struct { void *device; unsigned long long kind, data; unsigned int gpu, compute; } event_t;
int nvmlEventSetWait_v2(void **set, event_t *event, unsigned int timeout) {
    unsigned int value;
    (void)timeout;
    if (told[device_of(*set)] || number_of("xid", *set, &value)) return 10; /* timeout */
    told[device_of(*set)] = 1;
    event->device = *set;
    event->data = value;
    return 0;
}
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu, compute; } process_t;
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process_t *found) {
    unsigned int pid;
    int code = number_of("process", handle, &pid);
    unsigned int room = *count;
    *count = 0;
    if (code == 3) return 0; /* nobody */
    if (code) return code;
    *count = 1;
    if (!found || room < 1) return 7;
    found[0].pid = pid;
    return 0;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *count) {
    unsigned int value;
    int code = number_of("ecc", handle, &value);
    (void)kind, (void)counter;
    if (!code) *count = value;
    return code;
}
#endif
