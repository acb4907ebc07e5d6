/*
 * language.h
 *	  CUDA's language on the CPU: see cuda_runtime.h.
 *
 * A kernel runs on one thread of the host at a time, so that indices are plain variables, which threads/thread.cc sets whenever
 * it goes on with another of a block's threads, and atomics are plain arithmetic.  Whatever makes a thread wait for
 * others (barriers, shuffles, votes) carries its place in the source: threads that wait in different places are an error.
 *
 * Arithmetic is IEEE's, as CUDA's is without fast-math; float functions are the C library's.
 */
#ifndef EMULATION_LANGUAGE_H
#define EMULATION_LANGUAGE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__		inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n)		__attribute__((aligned(n)))

static const int warpSize = 32;

#define EMULATION_THREADS_MAX	1024	/* of a block */
#define EMULATION_SHARED_MAX	49152	/* bytes of static shared memory */

/* ---- vectors ---- */

#define EMULATION_VECTOR(name, type, align2, align4)																			\
	struct name##1 { type x; };																									\
	struct __align__(align2) name##2 { type x, y; };																			\
	struct name##3 { type x, y, z; };																							\
	struct __align__(align4) name##4 { type x, y, z, w; };																		\
	static inline name##1 make_##name##1(type x) { return {x}; }																\
	static inline name##2 make_##name##2(type x, type y) { return {x, y}; }														\
	static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }											\
	static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

EMULATION_VECTOR(char, signed char, 2, 4)
EMULATION_VECTOR(uchar, unsigned char, 2, 4)
EMULATION_VECTOR(short, short, 4, 8)
EMULATION_VECTOR(ushort, unsigned short, 4, 8)
EMULATION_VECTOR(int, int, 8, 16)
EMULATION_VECTOR(uint, unsigned, 8, 16)
EMULATION_VECTOR(longlong, long long, 16, 16)
EMULATION_VECTOR(ulonglong, unsigned long long, 16, 16)
EMULATION_VECTOR(float, float, 8, 16)
EMULATION_VECTOR(double, double, 16, 16)

struct dim3
{
	unsigned	x, y, z;

	constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
	constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

/* ---- threads: threads/ ---- */

extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

struct emulation_place				/* in the source */
{
	const char *file;
	int			line;
};

#define EMULATION_HERE	emulation_place{__FILE__, __LINE__}

enum emulation_shuffle_kind
{
	EMULATION_SHUFFLE_INDEX,
	EMULATION_SHUFFLE_UP,
	EMULATION_SHUFFLE_DOWN,
	EMULATION_SHUFFLE_XOR
};

/* Waits for the block; returns for how many of its threads the predicate holds. */
extern int emulation_barrier(emulation_place place, int predicate);

/* Wait for the lanes of the mask. */
extern void emulation_warp(emulation_place place, unsigned mask);
extern unsigned emulation_ballot(emulation_place place, unsigned mask, int predicate);
extern uint64_t emulation_shuffle(emulation_place place, int kind, unsigned mask, uint64_t value, int by, int width);

/* The block's memory for this type, NaN when first asked for. */
extern void *emulation_shared(const void *type, size_t bytes);

/* Blocks that were begun, of all launches; and copies to its shared memory that the current one has not waited for (tensor.h). */
extern uint64_t emulation_blocks;
extern unsigned emulation_copies;

/* The launch fails, as after an access to memory that is not there. */
extern void emulation_trap(emulation_place place) __attribute__((noreturn));

#define __syncthreads()				((void) emulation_barrier(EMULATION_HERE, 0))
#define __syncthreads_count(p)		emulation_barrier(EMULATION_HERE, (p) != 0)
#define __syncthreads_or(p)			(emulation_barrier(EMULATION_HERE, (p) != 0) != 0)
#define __syncthreads_and(p)		(emulation_barrier(EMULATION_HERE, (p) == 0) == 0)
#define __syncwarp(...)				emulation_syncwarp(EMULATION_HERE, ##__VA_ARGS__)
#define __ballot_sync(mask, p)		emulation_ballot(EMULATION_HERE, mask, (p) != 0)
#define __any_sync(mask, p)			(emulation_ballot(EMULATION_HERE, mask, (p) != 0) != 0)
#define __all_sync(mask, p)			(emulation_ballot(EMULATION_HERE, mask, (p) == 0) == 0)
#define __shfl_sync(mask, ...)		emulation_exchange(EMULATION_HERE, EMULATION_SHUFFLE_INDEX, mask, __VA_ARGS__)
#define __shfl_up_sync(mask, ...)	emulation_exchange(EMULATION_HERE, EMULATION_SHUFFLE_UP, mask, __VA_ARGS__)
#define __shfl_down_sync(mask, ...)	emulation_exchange(EMULATION_HERE, EMULATION_SHUFFLE_DOWN, mask, __VA_ARGS__)
#define __shfl_xor_sync(mask, ...)	emulation_exchange(EMULATION_HERE, EMULATION_SHUFFLE_XOR, mask, __VA_ARGS__)
#define __trap()					emulation_trap(EMULATION_HERE)

static inline void
emulation_syncwarp(emulation_place place, unsigned mask = 0xFFFFFFFF)
{
	emulation_warp(place, mask);
}

template <class T>
static inline T
emulation_exchange(emulation_place place, int kind, unsigned mask, T value, int by, int width = warpSize)
{
	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
	uint64_t	bits = 0;

	memcpy(&bits, &value, sizeof(T));
	bits = emulation_shuffle(place, kind, mask, bits, by, width);
	memcpy(&value, &bits, sizeof(T));
	return value;
}

static inline void __threadfence() {}
static inline void __threadfence_block() {}

/* ---- atomics ---- */

#define EMULATION_ATOMIC(name, expression)																						\
	template <class T>																											\
	static inline T																												\
	name(T *address, typename emulation_same<T>::type value)																	\
	{																															\
		T			old = *address;																								\
																																\
		*address = (T) (expression);																							\
		return old;																												\
	}

template <class T>
struct emulation_same
{
	typedef T type;
};

EMULATION_ATOMIC(atomicAdd, old + value)
EMULATION_ATOMIC(atomicSub, old - value)
EMULATION_ATOMIC(atomicExch, value)
EMULATION_ATOMIC(atomicMin, value < old ? value : old)
EMULATION_ATOMIC(atomicMax, value > old ? value : old)
EMULATION_ATOMIC(atomicAnd, old & value)
EMULATION_ATOMIC(atomicOr, old | value)
EMULATION_ATOMIC(atomicXor, old ^ value)

template <class T>
static inline T
atomicCAS(T *address, typename emulation_same<T>::type compare, typename emulation_same<T>::type value)
{
	T			old = *address;

	if (old == compare)
		*address = value;
	return old;
}

template <class T>
static inline T
__ldg(const T *address)
{
	return *address;
}

/* ---- bits ---- */

template <class To, class From>
static inline To
emulation_bits(From from)
{
	static_assert(sizeof(To) == sizeof(From), "as many bits");
	To			to;

	memcpy(&to, &from, sizeof(to));
	return to;
}

static inline int __float_as_int(float x) { return emulation_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulation_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulation_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulation_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulation_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulation_bits<double>(x); }
static inline int __double2hiint(double x) { return (int) (emulation_bits<uint64_t>(x) >> 32); }
static inline int __double2loint(double x) { return (int) emulation_bits<uint64_t>(x); }
static inline double __hiloint2double(int high, int low)
{
	return emulation_bits<double>((uint64_t) (unsigned) high << 32 | (unsigned) low);
}

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned) x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long) x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned) ((uint64_t) a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int) ((int64_t) a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
	return (unsigned long long) ((unsigned __int128) a * b >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
	return (unsigned) (((uint64_t) high << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
	return (unsigned) (((uint64_t) high << 32 | low) >> (by & 31));
}

static inline unsigned
__brev(unsigned x)
{
	unsigned	y = 0;

	for (int i = 0; i < 32; i++)
		y |= (x >> i & 1) << (31 - i);
	return y;
}

static inline unsigned
__byte_perm(unsigned a, unsigned b, unsigned selector)
{
	uint64_t	bytes = (uint64_t) b << 32 | a;
	unsigned	y = 0;

	for (int i = 0; i < 4; i++)
	{
		unsigned	select = selector >> (4 * i);
		unsigned	byte = (unsigned) (bytes >> (8 * (select & 7))) & 255;

		y |= (select & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
	}
	return y;
}

static inline int
__dp4a(int a, int b, int c)
{
	unsigned	sum = (unsigned) c;

	for (int i = 0; i < 4; i++)
		sum += (unsigned) ((int8_t) (a >> (8 * i)) * (int8_t) (b >> (8 * i)));
	return (int) sum;
}

static inline unsigned
__dp4a(unsigned a, unsigned b, unsigned c)
{
	for (int i = 0; i < 4; i++)
		c += (a >> (8 * i) & 255) * (b >> (8 * i) & 255);
	return c;
}

/* ---- arithmetic ---- */

#define EMULATION_MINMAX(type)																									\
	static inline type min(type a, type b) { return b < a ? b : a; }															\
	static inline type max(type a, type b) { return a < b ? b : a; }

EMULATION_MINMAX(int)
EMULATION_MINMAX(unsigned)
EMULATION_MINMAX(long)
EMULATION_MINMAX(unsigned long)
EMULATION_MINMAX(long long)
EMULATION_MINMAX(unsigned long long)

static inline unsigned min(int a, unsigned b) { return min((unsigned) a, b); }
static inline unsigned min(unsigned a, int b) { return min(a, (unsigned) b); }
static inline unsigned max(int a, unsigned b) { return max((unsigned) a, b); }
static inline unsigned max(unsigned a, int b) { return max(a, (unsigned) b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frcp_rn(float a) { return 1 / a; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __saturatef(float x) { return x > 0 ? fminf(x, 1) : 0; }
static inline float rsqrtf(float x) { return (float) (1 / sqrt((double) x)); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }

/* To integers: what does not fit becomes the nearest that does, NaN zero (a C++ cast would be undefined). */
template <class I, class F>
static inline I
emulation_integer(F x)
{
	const I		least = (I) ((I) -1 < 0 ? (I) 1 << (sizeof(I) * 8 - 1) : 0);
	const I		greatest = (I) ~least;

	if (x != x)
		return 0;
	if (x < (F) least)
		return least;
	/* the first power of two above the greatest: exact in either float */
	return x >= ldexp((F) 1, (int) sizeof(I) * 8 - ((I) -1 < 0)) ? greatest : (I) x;
}

static inline int __float2int_rn(float x) { return emulation_integer<int>(rintf(x)); }
static inline int __float2int_rz(float x) { return emulation_integer<int>(truncf(x)); }
static inline int __float2int_rd(float x) { return emulation_integer<int>(floorf(x)); }
static inline int __float2int_ru(float x) { return emulation_integer<int>(ceilf(x)); }
static inline unsigned __float2uint_rn(float x) { return emulation_integer<unsigned>(rintf(x)); }
static inline unsigned __float2uint_rz(float x) { return emulation_integer<unsigned>(truncf(x)); }
static inline long long __float2ll_rn(float x) { return emulation_integer<long long>(rintf(x)); }
static inline long long __float2ll_rz(float x) { return emulation_integer<long long>(truncf(x)); }
static inline int __double2int_rn(double x) { return emulation_integer<int>(rint(x)); }
static inline int __double2int_rz(double x) { return emulation_integer<int>(trunc(x)); }
static inline long long __double2ll_rn(double x) { return emulation_integer<long long>(rint(x)); }
static inline long long __double2ll_rz(double x) { return emulation_integer<long long>(trunc(x)); }
static inline float __int2float_rn(int x) { return (float) x; }
static inline float __uint2float_rn(unsigned x) { return (float) x; }
static inline float __ll2float_rn(long long x) { return (float) x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __ll2double_rn(long long x) { return (double) x; }
static inline float __double2float_rn(double x) { return (float) x; }

#endif /* EMULATION_LANGUAGE_H */
