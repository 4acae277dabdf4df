/* Memory, streams and events. A stream is a thread with a queue; what is in it runs in order. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/cudaemu/fiber.h"
#include "tests/cudaemu/grid.h"

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { DEVICE_ALIGN = 256, CANARY = 0xa5, STREAM_QUEUE = 4096 };

struct cudaemu_stream {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue; /* the front one is taken off when it has run */
    bool quit = false;
    std::thread thread;
};

struct cudaemu_event {
    std::mutex lock;
    std::condition_variable changed;
    uint64_t recorded = 0, done = 0; /* generations */
};

struct device_area {
    size_t bytes, mapped;
    char *mapping;
};

static struct {
    std::mutex lock;
    int gpus = 8, sms = 4;
    size_t bytes = (size_t)64 << 30, taken = 0;
    std::map<char *, struct device_area> areas;
    std::map<char *, size_t> registered;
    std::set<cudaStream_t> streams;
} device;
static std::atomic<int> fault{cudaSuccess};
static std::atomic<uint64_t> launches{0};
static thread_local cudaError_t last_error;

static cudaError_t result(cudaError_t error)
{
    if (fault.load())
        error = (cudaError_t)fault.load();
    if (error)
        last_error = error;
    return error;
}

/* What only asks has no error of its own to leave behind. */
#define RETURN_FAULT                                                                                                   \
    if (fault.load())                                                                                                  \
    return result(cudaSuccess)

void cudaemu_set_device(int gpus, size_t bytes, int sms)
{
    std::lock_guard<std::mutex> guard(device.lock);
    device.gpus = gpus;
    device.bytes = bytes ? bytes : device.bytes;
    device.sms = sms ? sms : device.sms;
}

void cudaemu_set_fault(cudaError_t error)
{
    fault = error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = device.gpus;
    return result(device.gpus ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int index)
{
    return result(index >= 0 && index < device.gpus ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int index)
{
    *prop = {};
    strcpy(prop->name, "cudaemu");
    prop->totalGlobalMem = device.bytes;
    prop->major = 8;
    prop->multiProcessorCount = device.sms;
    return cudaSetDevice(index);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    std::lock_guard<std::mutex> guard(device.lock);
    *total = device.bytes;
    *free_bytes = device.bytes - device.taken;
    return result(cudaSuccess);
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return fault.load() ? (cudaError_t)fault.load() : error;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
};

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &e : errors)
        if (e.error == error)
            return e.text;
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &e : errors)
        if (e.error == error)
            return e.name;
    return "unrecognized error code";
}

/* ---- Memory: right-aligned in front of a page that nobody may touch ---- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
    std::lock_guard<std::mutex> guard(device.lock);
    if (bytes == 0 || size > device.bytes - device.taken)
        return result(bytes ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    size_t usable = (size + page - 1) / page * page;
    char *mapping =
        (char *)mmap(NULL, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return result(cudaErrorMemoryAllocation);
    mprotect(mapping + usable, page, PROT_NONE);
    char *at = mapping + usable - size;
#ifdef FIBER_ASAN
    __asan_unpoison_memory_region(mapping, usable); /* a thread's stack that was here may have left marks */
#endif
    if (bytes <= (size_t)256 << 20) /* more would only take memory of the machine */
        memset(mapping, 0xff, usable);
    memset(at + bytes, CANARY, size - bytes);
#ifdef FIBER_ASAN
    __asan_poison_memory_region(mapping, usable);
    __asan_unpoison_memory_region(at, bytes);
#endif
    device.areas[at] = {bytes, usable + page, mapping};
    device.taken += size;
    *out = at;
    return result(cudaSuccess);
}

cudaError_t cudaFree(void *memory)
{
    char *at = (char *)memory;
    if (!at)
        return result(cudaSuccess);
    cudaDeviceSynchronize();
    std::lock_guard<std::mutex> guard(device.lock);
    auto found = device.areas.find(at);
    if (found == device.areas.end())
        return result(cudaErrorInvalidValue);
    struct device_area area = found->second;
    size_t size = (area.bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
#ifdef FIBER_ASAN
    __asan_unpoison_memory_region(area.mapping, area.mapped);
#endif
    for (size_t i = area.bytes; i < size; i++)
        if ((unsigned char)at[i] != CANARY)
            cudaemu_die("byte %zu behind device memory of %zu was written to", i - area.bytes, area.bytes);
    munmap(area.mapping, area.mapped);
    device.areas.erase(found);
    device.taken -= size;
    return result(cudaSuccess);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return result(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *at)
{
    free(at);
    return result(cudaSuccess);
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned)
{
    std::lock_guard<std::mutex> guard(device.lock);
    char *begin = (char *)at, *end = begin + bytes;
    if (!bytes)
        return result(cudaErrorInvalidValue);
    for (const auto &r : device.registered)
        if (begin < r.first + r.second && r.first < end)
            return result(cudaErrorHostMemoryAlreadyRegistered);
    device.registered[begin] = bytes;
    return result(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *at)
{
    std::lock_guard<std::mutex> guard(device.lock);
    return result(device.registered.erase((char *)at) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

/* ---- Streams ---- */

static void stream_main(struct cudaemu_stream *s)
{
    std::unique_lock<std::mutex> guard(s->lock);
    for (;;) {
        s->changed.wait(guard, [s] { return s->quit || !s->queue.empty(); });
        if (s->queue.empty())
            return;
        guard.unlock();
        s->queue.front()();
        guard.lock();
        s->queue.pop_front();
        s->changed.notify_all();
    }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    RETURN_FAULT;
    cudaStream_t s = new struct cudaemu_stream;
    s->thread = std::thread(stream_main, s);
    std::lock_guard<std::mutex> guard(device.lock);
    device.streams.insert(s);
    *out = s;
    return result(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    {
        std::lock_guard<std::mutex> guard(device.lock);
        if (!device.streams.erase(s))
            return result(cudaErrorInvalidValue);
    }
    {
        std::lock_guard<std::mutex> guard(s->lock);
        s->quit = true;
        s->changed.notify_all();
    }
    s->thread.join();
    delete s;
    return result(cudaSuccess);
}

static void stream_put(cudaStream_t s, std::function<void()> work)
{
    if (!s)
        cudaemu_die("the default stream is not emulated: name a stream");
    std::unique_lock<std::mutex> guard(s->lock);
    s->changed.wait(guard, [s] { return s->queue.size() < STREAM_QUEUE; });
    s->queue.push_back(std::move(work));
    s->changed.notify_all();
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    std::unique_lock<std::mutex> guard(s->lock);
    s->changed.wait(guard, [s] { return s->queue.empty(); });
    return result(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    std::set<cudaStream_t> streams;
    {
        std::lock_guard<std::mutex> guard(device.lock);
        streams = device.streams;
    }
    for (cudaStream_t s : streams)
        cudaStreamSynchronize(s);
    return result(cudaSuccess);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind)
{
    RETURN_FAULT;
    memmove(dst, src, bytes);
    return result(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    RETURN_FAULT;
    stream_put(stream, [=] { memmove(dst, src, bytes); });
    return result(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
    RETURN_FAULT;
    stream_put(stream, [=] { memset(dst, value, bytes); });
    return result(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*fn)(void *ctx), void *ctx)
{
    RETURN_FAULT;
    stream_put(stream, [=] { fn(ctx); });
    return result(cudaSuccess);
}

/* ---- Events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    RETURN_FAULT;
    *out = new struct cudaemu_event;
    return result(cudaSuccess);
}

/* The record may still be on its way. */
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    cudaEventSynchronize(e);
    delete e;
    return result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    RETURN_FAULT;
    uint64_t generation;
    {
        std::lock_guard<std::mutex> guard(e->lock);
        generation = ++e->recorded;
    }
    stream_put(stream, [=] {
        std::lock_guard<std::mutex> guard(e->lock);
        e->done = e->done < generation ? generation : e->done;
        e->changed.notify_all();
    });
    return result(cudaSuccess);
}

static void event_await(cudaEvent_t e, uint64_t generation)
{
    std::unique_lock<std::mutex> guard(e->lock);
    e->changed.wait(guard, [=] { return e->done >= generation; });
}

static uint64_t event_recorded(cudaEvent_t e)
{
    std::lock_guard<std::mutex> guard(e->lock);
    return e->recorded;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    RETURN_FAULT;
    std::lock_guard<std::mutex> guard(e->lock);
    return e->done >= e->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    event_await(e, event_recorded(e));
    return result(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned)
{
    RETURN_FAULT;
    uint64_t generation = event_recorded(e);
    stream_put(stream, [=] { event_await(e, generation); });
    return result(cudaSuccess);
}

/* ---- Launches ---- */

static uint64_t seed_of_launch(void)
{
    static const uint64_t seed = [] {
        const char *text = getenv("CUDAEMU_SEED");
        return text ? strtoull(text, NULL, 10) : 1;
    }();
    return seed * 0x9e3779b97f4a7c15u + launches++;
}

void cudaemu_launch(dim3 grid, dim3 block, size_t dyn_shared, cudaStream_t stream, std::function<void()> body)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (fault.load()) {
        result(cudaSuccess);
        return;
    }
    if (threads == 0 || threads > CUDAEMU_MAX_THREADS || block.z > 64 || !grid.x || !grid.y || !grid.z ||
        grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535 || dyn_shared > CUDAEMU_SHARED_BYTES) {
        last_error = cudaErrorInvalidConfiguration;
        return;
    }
    uint64_t seed = seed_of_launch();
    stream_put(stream, [=] {
        struct cudaemu_grid g = {grid, block, dyn_shared, seed, &body};
        cudaemu_grid_run(&g);
    });
}

void cudaemu_run(dim3 grid, dim3 block, size_t dyn_shared, uint64_t seed, const std::function<void()> &body)
{
    struct cudaemu_grid g = {grid, block, dyn_shared, seed, &body};
    cudaemu_grid_run(&g);
}
