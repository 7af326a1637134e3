// Runs a kernel of shim.h on the host: blocks and warps in sequence, lanes as fibers.
//
// A lane runs until it votes or returns. When all lanes of a warp have stopped, they must be at the
// same place of the text with a full mask; then each gets the votes of all. Every load and store of
// the text calls this file first (-fsanitize=kernel-address, outlined), and so does everything that
// C++ leaves undefined (-fsanitize=undefined). The first error ends the launch.
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#include "shim.h"

Now shim_now;

namespace {

constexpr int WARP = 32;
constexpr uintptr_t STACK = 1 << 18;
constexpr int64_t MAX_ACCESSES = 1 << 27;  // per launch; no test needs a tenth of this
enum class State { READY, VOTES, DONE };
enum Shadow : unsigned char { SET, UNSET, FRESH };  // FRESH: written by this launch

struct Lane {
    ucontext_t start;
    jmp_buf at;
    char* stack;
    bool begun;
    State state;
    const void* site;
    unsigned mask;
    bool answer;
};

struct Region {
    uintptr_t begin, end;
    unsigned char* shadow;
    int64_t writable;
};

Lane lanes[WARP];
unsigned answers;  // of the last vote
jmp_buf scheduler;
int current;
char wrong[512];
void (*entry)(void**);
void** arguments;
const Region* regions;
int count, last;
int64_t accesses;
std::vector<unsigned char*> written;

void leave()
{
    if (!_setjmp(lanes[current].at)) _longjmp(scheduler, 1);
}

void describe(const char* format, ...)
{
    va_list values;
    va_start(values, format);
    int used = snprintf(
        wrong, sizeof wrong, "block %u, thread %u: ", shim_now.block.x, shim_now.thread.x);
    vsnprintf(wrong + used, sizeof wrong - used, format, values);
    va_end(values);
}

void body()
{
    for (;;) {
        entry(arguments);
        lanes[current].state = State::DONE;
        leave();
    }
}

void forget()
{
    for (Lane& lane : lanes) {
        if (!lane.stack)
            lane.stack = (char*)mmap(
                nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&lane.start);
        lane.start.uc_stack.ss_sp = lane.stack;
        lane.start.uc_stack.ss_size = STACK;
        lane.start.uc_link = nullptr;
        makecontext(&lane.start, body, 0);
        lane.begun = false;
    }
}

void enter(int lane)
{
    current = lane;
    if (_setjmp(scheduler)) return;
    if (lanes[lane].begun) _longjmp(lanes[lane].at, 1);
    lanes[lane].begun = true;
    setcontext(&lanes[lane].start);
}

// Exchanges votes when all lanes have stopped. Returns whether they may continue together.
bool vote()
{
    answers = 0;
    for (int i = 0; i < WARP; ++i) {
        const bool together = lanes[i].mask == ~0u && lanes[i].site == lanes[0].site;
        if (lanes[i].state == State::VOTES && together) {
            answers |= (unsigned)lanes[i].answer << i;
            lanes[i].state = State::READY;
            continue;
        }
        const char* how = lanes[i].state == State::DONE ? "has returned"
                          : lanes[i].mask != ~0u ? "names some lanes only"
                                                 : "is elsewhere";
        describe("divergent: lane %d %s", i, how);
        return false;
    }
    return true;
}

bool warp(unsigned first)
{
    for (Lane& lane : lanes) lane.state = State::READY;
    for (;;) {
        int done = 0;
        for (int i = 0; i < WARP; ++i) {
            shim_now.thread = {first + i, 0, 0};
            enter(i);
            if (*wrong) return false;
            done += lanes[i].state == State::DONE;
        }
        if (done == WARP) return true;
        if (!vote()) return false;
    }
}

void touch(uintptr_t p, uintptr_t size, bool store)
{
    const uintptr_t stack = (uintptr_t)lanes[current].stack;
    if (p >= stack && p + size <= stack + STACK) return;
    if (!store && p >= (uintptr_t)&shim_now && p + size <= (uintptr_t)(&shim_now + 1)) return;
    if (++accesses > MAX_ACCESSES) {
        describe("endless: more than %ld accesses", (long)MAX_ACCESSES);
        leave();
    }
    const char* does = store ? "writes" : "reads";
    for (int tried = 0; tried < count; ++tried, last = last + 1 < count ? last + 1 : 0) {
        const Region& r = regions[last];
        if (p < r.begin || p + size > r.end) continue;
        const long at = (long)(p - r.begin);
        if (size <= 16 && p % size)
            describe("misaligned: %s %lu bytes at %ld of array %d", does, size, at, last);
        else if (store && !r.writable) describe("read only: writes to array %d", last);
        else
            for (uintptr_t i = p - r.begin; i < p + size - r.begin && !*wrong; ++i) {
                unsigned char& shadow = r.shadow[i];
                if (shadow == FRESH)
                    describe(
                        "race: %s byte %lu of array %d, which this launch wrote", does, i, last);
                else if (store) shadow = FRESH, written.push_back(&shadow);
                else if (shadow == UNSET)
                    describe("unset: reads byte %lu of array %d, which nobody wrote", i, last);
            }
        if (*wrong) leave();
        return;
    }
    int nearest = -1;
    uintptr_t far = ~(uintptr_t)0;
    for (int i = 0; i < count; ++i) {
        const uintptr_t d = p < regions[i].begin ? regions[i].begin - p : p - regions[i].begin;
        if (d < far) far = d, nearest = i;
    }
    if (nearest < 0) {
        describe("out of bounds: %s %lu bytes where no array is", does, size);
        leave();
    }
    const Region& r = regions[nearest];
    describe(
        "out of bounds: %s %lu bytes at %ld of array %d, which has %lu", does, size,
        (long)(p - r.begin), nearest, r.end - r.begin);
    leave();
}

struct Source {
    const char* file;
    uint32_t line, column;
};

void undefined(const char* what, const Source* at)
{
    describe("undefined: %s at %u:%u", what, at->line, at->column);
    leave();
}

}  // namespace

extern "C" {

unsigned __ballot_sync(unsigned mask, int predicate)
{
    Lane& lane = lanes[current];
    lane.state = State::VOTES;
    lane.site = __builtin_return_address(0);
    lane.mask = mask;
    lane.answer = predicate != 0;
    leave();
    return answers;
}

// g++ calls this for `__builtin_popcount`; its own is in a library that texts are not linked with.
int __popcountdi2(unsigned long long x)
{
    int set = 0;
    for (; x; x &= x - 1) ++set;
    return set;
}

// Runs blocks [begin, end) of a launch. Returns the first error, or null.
const char* shim_start(
    void (*text)(void**), void** values, const Region* arrays, int64_t size, uint32_t blocks,
    uint32_t threads, uint32_t begin, uint32_t end)
{
    entry = text, arguments = values, regions = arrays, count = (int)size;
    last = 0, accesses = 0, *wrong = 0;
    shim_now.threads = {threads, 1, 1};
    shim_now.blocks = {blocks, 1, 1};
    if (!lanes[0].stack) forget();
    for (uint32_t block = begin; block < end && !*wrong; ++block) {
        shim_now.block = {block, 0, 0};
        for (uint32_t first = 0; first < threads && !*wrong; first += WARP)
            if (!warp(first)) forget();
    }
    for (unsigned char* shadow : written) *shadow = SET;
    written.clear();
    return *wrong ? wrong : nullptr;
}

#define ACCESS(size)                                                        \
    void __asan_load##size##_noabort(uintptr_t p) { touch(p, size, false); } \
    void __asan_store##size##_noabort(uintptr_t p) { touch(p, size, true); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
void __asan_loadN_noabort(uintptr_t p, uintptr_t size) { touch(p, size, false); }
void __asan_storeN_noabort(uintptr_t p, uintptr_t size) { touch(p, size, true); }
void __asan_handle_no_return() {}

// The first argument of each handler is the place of the error.
#define UNDEFINED(name) \
    void __ubsan_handle_##name##_abort(const Source* at) { undefined(#name, at); }
UNDEFINED(add_overflow) UNDEFINED(sub_overflow) UNDEFINED(mul_overflow)
UNDEFINED(negate_overflow) UNDEFINED(divrem_overflow) UNDEFINED(shift_out_of_bounds)
UNDEFINED(out_of_bounds) UNDEFINED(pointer_overflow) UNDEFINED(float_cast_overflow)
UNDEFINED(type_mismatch_v1) UNDEFINED(load_invalid_value)
void __ubsan_handle_missing_return(const Source* at) { undefined("missing_return", at); }
void __ubsan_handle_builtin_unreachable(const Source* at) { undefined("unreachable", at); }
}
