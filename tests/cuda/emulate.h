// Runs the CUDA sources of backends/cuda on the CPU, for tests only.
//
// A block's threads are fibers of one OS thread (default; fast, deterministic), or OS threads
// (EMULATE_THREADS; for AddressSanitizer and ThreadSanitizer). Blocks run one after another.
// What the emulation is strict about, so that mistakes show:
//   * a block barrier that some thread leaves out is an error, not a wait for ever;
//   * dynamic shared memory is filled with 0xFF (NaN) before each block and has its exact size;
//   * cp.async copies happen only when the thread waits for their group: a missing wait reads NaN;
//   * 16-byte accesses check their alignment.
// What it cannot show: timing, bank conflicts, memory-order faults between blocks, and the rounding
// of the tensor cores' own accumulation (products are exact, sums are in float).
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef EMULATE_THREADS
#include <barrier>
#include <memory>
#include <thread>
#include <vector>
#define EMULATE_LOCAL thread_local
#else
#define EMULATE_LOCAL
#endif

#define PORTABLE_EMULATE 1
#ifndef WARP
#define WARP 32
#endif
#ifndef ARCH
#define ARCH 800
#endif
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static

namespace emulate {

struct Dim { unsigned x, y, z; };
enum { MAX_THREADS = 1024, STACK = 64 << 10, ASYNC = 256 };

[[noreturn]] inline void fail(const char *what) {
  fprintf(stderr, "emulation: %s\n", what);
  fflush(stderr);
  abort();
}

struct AsyncCopy { void *to; const void *from; int bytes, total; int group; };

// What one warp-wide operation exchanges: a slot per lane, two generations deep so that a fast
// lane can start the next operation while a slow one still reads the last.
struct Warp {
  alignas(16) uint32_t slots[2][WARP][16];
  alignas(16) uint32_t results[2][WARP][8];
  int arrived;
  unsigned generation;
};

static Dim grid_dim, block_dim;
static unsigned char *dynamic_shared;
static Warp *warps;
static EMULATE_LOCAL Dim thread_idx, block_idx;
static EMULATE_LOCAL AsyncCopy *pending;       // this thread's cp.async copies, oldest first
static EMULATE_LOCAL int *pending_count, *open_group;

inline int lane() { return (int)(thread_idx.x % WARP); }
inline Warp &warp() { return warps[thread_idx.x / WARP]; }

#ifndef EMULATE_THREADS
// ---- fibers ---------------------------------------------------------------------------------
#if defined(__x86_64__)
extern "C" void emulate_switch(void **save, void *to);
asm(R"(
.text
.local emulate_switch
.type emulate_switch,@function
emulate_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
)");
#else
#include <ucontext.h>
#endif

struct Fiber {
  void *sp;
#if !defined(__x86_64__)
  ucontext_t context;
#endif
  char *stack;
  AsyncCopy *copies;
  int copy_count, open_group;
  bool done, at_barrier;
};
static Fiber fibers[MAX_THREADS];
static void *scheduler_sp;
#if !defined(__x86_64__)
static ucontext_t scheduler_context;
#endif
static int current;
static void (*body)(void **);
static void **body_args;

inline void resume(int id) {
  current = id;
  thread_idx = Dim{(unsigned)id, 0, 0};
  pending = fibers[id].copies;
  pending_count = &fibers[id].copy_count;
  open_group = &fibers[id].open_group;
#if defined(__x86_64__)
  emulate_switch(&scheduler_sp, fibers[id].sp);
#else
  swapcontext(&scheduler_context, &fibers[id].context);
#endif
  asm volatile("" ::: "memory");
}
__attribute__((noinline)) inline void yield() {
  asm volatile("" ::: "memory");
#if defined(__x86_64__)
  emulate_switch(&fibers[current].sp, scheduler_sp);
#else
  swapcontext(&fibers[current].context, &scheduler_context);
#endif
  asm volatile("" ::: "memory");
}
inline void fiber_main() {
  body(body_args);
  fibers[current].done = true;
  for (;;) yield();
}
inline void block_barrier() {
  fibers[current].at_barrier = true;
  yield();
}
// The last lane that arrives runs `work` for the whole warp; all leave together.
template <class F> inline void warp_collective(F work) {
  Warp &w = warp();
  unsigned mine = w.generation;
  if (++w.arrived == WARP) {
    work(w);
    w.arrived = 0;
    w.generation++;
  } else {
    while (w.generation == mine) yield();
  }
}
inline unsigned generation() { return warp().generation; }

inline void prepare(int id) {
  Fiber &f = fibers[id];
  if (!f.stack) {
    f.stack = (char *)malloc(STACK);
    f.copies = (AsyncCopy *)malloc(sizeof(AsyncCopy) * ASYNC);
  }
  f.done = f.at_barrier = false;
  f.copy_count = f.open_group = 0;
#if defined(__x86_64__)
  void **top = (void **)(((uintptr_t)f.stack + STACK) & ~(uintptr_t)63);
  *--top = nullptr;  // keeps the stack 16-byte aligned at entry
  *--top = (void *)fiber_main;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f.sp = top;
#else
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = STACK;
  f.context.uc_link = nullptr;
  makecontext(&f.context, fiber_main, 0);
#endif
}

inline void run_block(int threads) {
  for (int i = 0; i < threads; i++) prepare(i);
  for (;;) {
    int done = 0, waiting = 0, moved = 0;
    for (int first = 0; first < threads; first += WARP) {
      // One warp at a time, lane after lane, until all of its lanes are done or at the barrier.
      for (bool again = true; again;) {
        again = false;
        unsigned before = warps[first / WARP].generation;
        bool ran = false;
        for (int i = first; i < first + WARP; i++) {
          if (fibers[i].done || fibers[i].at_barrier) continue;
          resume(i);
          ran = true;
          moved++;
        }
        bool live = false;
        for (int i = first; i < first + WARP; i++)
          live |= !fibers[i].done && !fibers[i].at_barrier;
        if (live && ran && warps[first / WARP].generation == before)
          fail("a warp-wide operation was not reached by all lanes of the warp");
        again = live;
      }
      for (int i = first; i < first + WARP; i++) {
        done += fibers[i].done;
        waiting += fibers[i].at_barrier;
      }
    }
    if (done == threads) return;
    if (waiting != threads) fail("__syncthreads() was not reached by all threads of the block");
    for (int i = 0; i < threads; i++) fibers[i].at_barrier = false;
  }
}
#else
// ---- OS threads -----------------------------------------------------------------------------
static void (*body)(void **);
static void **body_args;
static std::unique_ptr<std::barrier<>> block_gate;
static std::vector<std::unique_ptr<std::barrier<>>> warp_gates;
static thread_local unsigned my_generation;

inline void block_barrier() { block_gate->arrive_and_wait(); }
template <class F> inline void warp_collective(F work) {
  std::barrier<> &gate = *warp_gates[thread_idx.x / WARP];
  gate.arrive_and_wait();
  if (lane() == 0) work(warp());
  gate.arrive_and_wait();
  my_generation++;
}
inline unsigned generation() { return my_generation; }

inline void run_block(int threads) {
  block_gate = std::make_unique<std::barrier<>>(threads);
  warp_gates.clear();
  for (int i = 0; i < threads; i += WARP)
    warp_gates.push_back(std::make_unique<std::barrier<>>(WARP));
  Dim block = block_idx;
  std::vector<std::thread> all;
  for (int i = 0; i < threads; i++)
    all.emplace_back([i, block] {
      std::vector<AsyncCopy> copies(ASYNC);
      int count = 0, group = 0;
      thread_idx = Dim{(unsigned)i, 0, 0};
      block_idx = block;
      pending = copies.data();
      pending_count = &count;
      open_group = &group;
      my_generation = 0;
      body(body_args);
      warp_gates[i / WARP]->arrive_and_drop();
      block_gate->arrive_and_drop();
    });
  for (std::thread &t : all) t.join();
}
#endif

// ---- launch ---------------------------------------------------------------------------------
inline void launch(Dim grid, int threads, int shared, void (*what)(void **), void **args) {
  if (threads <= 0 || threads > MAX_THREADS || threads % WARP)
    fail("the block size must be a multiple of the warp size, at most 1024");
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535) fail("grid size");
  grid_dim = grid;
  block_dim = Dim{(unsigned)threads, 1, 1};
  body = what;
  body_args = args;
  warps = (Warp *)aligned_alloc(64, (sizeof(Warp) * (threads / WARP) + 63) / 64 * 64);
  // Exact size behind an alignment of 128: an access past the end is one byte off the block.
  unsigned char *raw = (unsigned char *)malloc(shared + 128);
  dynamic_shared = raw + 128 - ((uintptr_t)raw % 128);
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        block_idx = Dim{x, y, z};
        memset(dynamic_shared, 0xFF, shared);
        memset(warps, 0, sizeof(Warp) * (threads / WARP));
        run_block(threads);
      }
  free(raw);
  free(warps);
}

template <class T> struct Next;
template <int... I> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> { typedef Indices<I...> type; };
template <class T> struct Bare { typedef T type; };
template <class T> struct Bare<const T> { typedef T type; };
template <class... P, int... I> inline void call(void (*k)(P...), void **a, Indices<I...>) {
  k(*(typename Bare<P>::type *)a[I]...);
}
template <class... P> inline void call(void (*k)(P...), void **a) {
  call(k, a, typename MakeIndices<(int)sizeof...(P)>::type());
}
template <class... P> constexpr int arity(void (*)(P...)) { return (int)sizeof...(P); }

// ---- half types -----------------------------------------------------------------------------
inline uint32_t bits_of(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }
inline float float_of(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }
inline float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
  if (e == 31) return float_of(sign | 0x7F800000 | (m << 13));
  if (e) return float_of(sign | ((e + 112) << 23) | (m << 13));
  float x = (float)m * 0x1p-24f;
  return sign ? -x : x;
}
inline uint16_t float_to_half(float x) {  // nearest, ties to even
  uint32_t b = bits_of(x), sign = (b >> 16) & 0x8000;
  b &= 0x7FFFFFFF;
  if (b > 0x7F800000) return (uint16_t)(sign | 0x7FFF);
  if (b >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
  if (b < 0x38800000) return (uint16_t)(sign | (uint32_t)rintf(float_of(b) * 0x1p24f));
  uint32_t odd = (b >> 13) & 1;
  return (uint16_t)(sign | ((b - 0x38000000 + 0xFFF + odd) >> 13));
}
inline float bfloat_to_float(uint16_t h) { return float_of((uint32_t)h << 16); }
inline uint16_t float_to_bfloat(float x) {
  uint32_t b = bits_of(x);
  if ((b & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return (uint16_t)((b + 0x7FFF + ((b >> 16) & 1)) >> 16);
}

// ---- warp-wide operations -------------------------------------------------------------------
template <class T> inline T shuffle(T value, int from) {
  static_assert(sizeof(T) <= 64, "slot");
  Warp &w = warp();
  unsigned side = generation() & 1;
  memcpy(w.slots[side][lane()], &value, sizeof(T));
  warp_collective([](Warp &) {});
  T got;
  memcpy(&got, w.slots[side][from % WARP], sizeof(T));
  return got;
}
inline void warp_barrier() { warp_collective([](Warp &) {}); }

// Eight 16-byte rows per matrix; lane i gives the address of row i % 8 of matrix i / 8.
inline void ldmatrix(uint32_t *r, int matrices, bool transposed, const void *row) {
  if ((uintptr_t)row % 16) fail("ldmatrix row is not 16-byte aligned");
  Warp &w = warp();
  unsigned side = generation() & 1;
  memcpy(w.slots[side][lane()], &row, sizeof row);
  warp_collective([](Warp &) {});
  for (int m = 0; m < matrices; m++) {
    uint16_t two[2];
    for (int i = 0; i < 2; i++) {
      int across = lane() / 4, along = 2 * (lane() % 4) + i;
      const uint16_t *source;
      int at = transposed ? along : across;
      memcpy(&source, w.slots[side][8 * m + at], sizeof source);
      two[i] = source[transposed ? across : along];
    }
    memcpy(&r[m], two, 4);
  }
}

// D = A B + D on fragments as mma.sync lays them out. A lane puts its A and B registers into its
// slot; one lane multiplies for the warp.
//   16-bit:  a[4] b[2]  m16n8k16;   8-bit: a[4] b[2] m16n8k32;   tf32: a[4] b[2] m16n8k8
template <class Load, int K, int PACK, class Acc>
inline void mma(Acc *d, const uint32_t *a, const uint32_t *b, Load load) {
  Warp &w = warp();
  unsigned side = generation() & 1;
  uint32_t *slot = w.slots[side][lane()];
  memcpy(slot, a, 16);
  memcpy(slot + 4, b, 8);
  memcpy(slot + 8, d, 16);
  warp_collective([side, load](Warp &v) {
    Acc A[16][K], B[K][8];
    for (int l = 0; l < 32; l++) {
      const uint32_t *s = v.slots[side][l];
      int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; r++)
        for (int i = 0; i < PACK; i++)
          A[g + 8 * (r & 1)][PACK * t + i + (K / 2) * (r >> 1)] = load(s[r], i);
      for (int r = 0; r < 2; r++)
        for (int i = 0; i < PACK; i++)
          B[PACK * t + i + (K / 2) * r][g] = load(s[4 + r], i);
    }
    for (int l = 0; l < 32; l++) {
      Acc c[4];
      memcpy(c, v.slots[side][l] + 8, 16);
      for (int i = 0; i < 4; i++) {
        int row = l / 4 + 8 * (i >> 1), col = 2 * (l % 4) + (i & 1);
        Acc sum = 0;
        for (int k = 0; k < K; k++) sum += A[row][k] * B[k][col];
        c[i] += sum;
      }
      memcpy(v.results[side][l], c, 16);
    }
  });
  memcpy(d, w.results[side][lane()], 16);
}
inline float e4m3_to_float(uint8_t h) {
  int e = (h >> 3) & 15, m = h & 7;
  float x = e == 15 && m == 7 ? float_of(0x7FC00000)
            : e ? ldexpf(1.0f + m / 8.0f, e - 7) : ldexpf(m / 8.0f, -6);
  return h & 0x80 ? -x : x;
}
struct LoadHalf { float operator()(uint32_t r, int i) const { return half_to_float((uint16_t)(r >> 16 * i)); } };
struct LoadBfloat { float operator()(uint32_t r, int i) const { return bfloat_to_float((uint16_t)(r >> 16 * i)); } };
struct LoadInt8 { int operator()(uint32_t r, int i) const { return (int8_t)(r >> 8 * i); } };
struct LoadTf32 { float operator()(uint32_t r, int) const { return float_of(r & 0xFFFFE000); } };
inline void mma_f16(float *d, const uint32_t *a, const uint32_t *b) { mma<LoadHalf, 16, 2>(d, a, b, LoadHalf()); }
inline void mma_bf16(float *d, const uint32_t *a, const uint32_t *b) { mma<LoadBfloat, 16, 2>(d, a, b, LoadBfloat()); }
inline void mma_s8(int *d, const uint32_t *a, const uint32_t *b) { mma<LoadInt8, 32, 4>(d, a, b, LoadInt8()); }
inline void mma_tf32(float *d, const uint32_t *a, const uint32_t *b) { mma<LoadTf32, 8, 1>(d, a, b, LoadTf32()); }
// The parts that sm_75 has: m16n8k8 in f16, m8n8k16 in int8.
inline void mma_k8(float *d, uint32_t a0, uint32_t a1, uint32_t b) {
  uint32_t a[4] = {a0, a1, 0, 0}, both[2] = {b, 0};
  mma_f16(d, a, both);
}
inline void mma_m8(int *d, uint32_t a, uint32_t b) {
  uint32_t rows[4] = {a, 0, 0, 0}, both[2] = {b, 0};
  int all[4] = {d[0], d[1], 0, 0};
  mma_s8(all, rows, both);
  d[0] = all[0], d[1] = all[1];
}

// m8n8k4 in double: a and b are one element a lane, d two.
inline void mma_f64(double *d, double a, double b) {
  Warp &w = warp();
  unsigned side = generation() & 1;
  memcpy(w.slots[side][lane()], &a, 8);
  memcpy(w.slots[side][lane()] + 2, &b, 8);
  warp_collective([](Warp &) {});
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 4; k++) {
      double x, y;
      memcpy(&x, w.slots[side][lane() / 4 * 4 + k], 8);
      memcpy(&y, w.slots[side][(2 * (lane() % 4) + i) * 4 + k] + 2, 8);
      d[i] += x * y;
    }
}

// ---- cp.async: done when waited for -----------------------------------------------------------
inline void async_copy(void *to, const void *from, int bytes, int total) {
  if ((uintptr_t)to % total || (bytes && (uintptr_t)from % total)) fail("cp.async is not aligned");
  if (*pending_count == ASYNC) fail("too many cp.async copies in flight");
  pending[(*pending_count)++] = AsyncCopy{to, from, bytes, total, *open_group};
}
inline void async_commit() { ++*open_group; }
inline void async_wait(int allowed) {
  int kept = 0;
  for (int i = 0; i < *pending_count; i++) {
    AsyncCopy c = pending[i];
    if (c.group < *open_group - allowed) {
      memset(c.to, 0, c.total);
      if (c.bytes) memcpy(c.to, c.from, c.bytes);
    } else {
      pending[kept++] = c;
    }
  }
  *pending_count = kept;
}
template <class P> inline void check_aligned(const P *p, int bytes) {
  if ((uintptr_t)p % bytes) fail("vector access is not aligned");
}
}  // namespace emulate

#define threadIdx emulate::thread_idx
#define blockIdx emulate::block_idx
#define blockDim emulate::block_dim
#define gridDim emulate::grid_dim
#ifndef PLANTED_RACE
inline void __syncthreads() { emulate::block_barrier(); }
#else
inline void __syncthreads() {}  // for the test that such a fault is found
#endif
inline void __syncwarp() { emulate::warp_barrier(); }
inline float __uint_as_float(unsigned b) { return emulate::float_of(b); }
inline unsigned __float_as_uint(float x) { return emulate::bits_of(x); }
inline double __longlong_as_double(long long b) { double x; memcpy(&x, &b, 8); return x; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }

// One entry per kernel the test calls: args[i] points at the i-th argument.
#define EMULATE_ENTRY(id, kernel)                                                         \
  extern "C" int emulate_arity_##id() { return emulate::arity(kernel); }                  \
  extern "C" void emulate_launch_##id(unsigned gx, unsigned gy, unsigned gz, int threads, \
                                      int shared, void **args) {                          \
    emulate::launch(emulate::Dim{gx, gy, gz}, threads, shared,                            \
                    [](void **a) { emulate::call(kernel, a); }, args);                    \
  }

// A program of its own, for the sanitizers: `program FILE` reads one launch with all its memory,
// runs it, and writes the memory back. Every buffer has its exact size.
#ifdef EMULATE_MAIN
extern "C" void EMULATE_MAIN(unsigned, unsigned, unsigned, int, int, void **);
template <class T> inline T emulate_read(FILE *f) {
  T x;
  if (fread(&x, sizeof x, 1, f) != 1) emulate::fail("the launch file is cut short");
  return x;
}
int main(int, char **argv) {
  FILE *f = fopen(argv[1], "rb");
  if (!f) emulate::fail("no launch file");
  long long head[7];  // grid x y z, threads, shared, buffers, arguments
  for (long long &x : head) x = emulate_read<long long>(f);
  char *buffers[64];
  long long sizes[64];
  for (int i = 0; i < head[5]; i++) {
    sizes[i] = emulate_read<long long>(f);
    buffers[i] = (char *)malloc(sizes[i]);
    if (sizes[i] && fread(buffers[i], sizes[i], 1, f) != 1) emulate::fail("no buffer");
  }
  long long values[64];
  void *arguments[64];
  for (int i = 0; i < head[6]; i++) {  // buffer number or -1, then the value or the offset
    long long buffer = emulate_read<long long>(f), value = emulate_read<long long>(f);
    values[i] = buffer < 0 ? value : (long long)(uintptr_t)(buffers[buffer] + value);
    arguments[i] = &values[i];
  }
  fclose(f);
  EMULATE_MAIN(head[0], head[1], head[2], (int)head[3], (int)head[4], arguments);
  f = fopen(argv[1], "wb");
  for (int i = 0; i < head[5]; i++) fwrite(buffers[i], 1, sizes[i], f);
  fclose(f);
  for (int i = 0; i < head[5]; i++) free(buffers[i]);
  return 0;
}
#endif
