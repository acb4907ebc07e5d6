/*
 * emulation_threads.cc
 *	  The emulation of CUDA's language: barriers, shuffles, votes, atomics, random orders, and that each kind of wrong
 *	  kernel is found.
 */
#include <math.h>
#include <stdio.h>

#include "emulation/emulation.h"
#include "emulation/gpu_platform.h"
#include "emulation/tensor.h"

extern "C"
{
#include "tap.h"
}

extern "C" const emulation_control infer_emulation;

#define FULL	0xFFFFFFFF
#define N		256

static float *x;					/* device memory, N of each */
static float *y;
static int *counts;
static float host_x[N];
static float host_y[N];
static int	host_counts[N];

template <class... P, class... A>
static bool
launch(void (*kernel)(P...), dim3 grid, dim3 block, A... args)
{
	return gpu_launch(kernel, grid, block, (cudaStream_t) nullptr, args...) == cudaSuccess &&
		cudaDeviceSynchronize() == cudaSuccess;
}

static void
up()
{
	for (int i = 0; i < N; i++)
		host_x[i] = (float) (i * 7 % 31) - 3;
	memset(host_y, 0, sizeof(host_y));
	memset(host_counts, 0, sizeof(host_counts));
	cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice);
	cudaMemcpy(y, host_y, sizeof(host_y), cudaMemcpyHostToDevice);
	cudaMemcpy(counts, host_counts, sizeof(host_counts), cudaMemcpyHostToDevice);
}

static void
down()
{
	cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost);
	cudaMemcpy(host_counts, counts, sizeof(host_counts), cudaMemcpyDeviceToHost);
}

/* Whether this was reported of the kernel; the GPU is new afterwards. */
static bool
reported(const char *kernel, const char *what)
{
	const char *report = infer_emulation.report();
	bool		right = report != nullptr && strstr(report, kernel) != nullptr && strstr(report, what) != nullptr;

	if (!right)
		printf("# reported: %s\n", report == nullptr ? "nothing" : report);
	infer_emulation.reset();
	cudaMalloc(&x, sizeof(host_x));
	cudaMalloc(&y, sizeof(host_y));
	cudaMalloc(&counts, sizeof(host_counts));
	up();
	return right;
}

/* ---- what works ---- */

struct sums
{
	float		part[N];
};

static __global__ void
sum_by_barriers(const float *x, float *y)
{
	sums	   &shared = gpu_shared<sums>();

	shared.part[threadIdx.x] = x[threadIdx.x];
	for (unsigned step = blockDim.x / 2; step > 0; step /= 2)
	{
		__syncthreads();
		if (threadIdx.x < step)
			shared.part[threadIdx.x] += shared.part[threadIdx.x + step];
	}
	if (threadIdx.x == 0)
		y[blockIdx.x] = shared.part[0];
}

static __global__ void
shuffles(const float *x, float *y, int kind)
{
	float		own = x[threadIdx.x];

	y[threadIdx.x] = kind == 0 ? __shfl_sync(FULL, own, 5) : kind == 1 ? __shfl_up_sync(FULL, own, 3) :
		kind == 2 ? __shfl_down_sync(FULL, own, 7, 16) : __shfl_xor_sync(FULL, own, 9);
}

static float
shuffled(int lane, int kind)
{
	int			base = lane & ~31;
	int			in = lane & 31;
	int			from = kind == 0 ? 5 : kind == 1 ? (in < 3 ? in : in - 3) : kind == 2 ? (in % 16 + 7 > 15 ? in : in + 7) : in ^ 9;

	return host_x[base + from];
}

static __global__ void
votes(int *counts)
{
	unsigned	t = threadIdx.x;
	int			odd = __syncthreads_count(t % 2);
	int			some = __syncthreads_or(t == 77);
	int			none = __syncthreads_or(t > 1000);
	int			all = __syncthreads_and(t < 1000);
	unsigned	ballot = __ballot_sync(FULL, t % 3 == 0);
	unsigned	half = t % 32 < 16 ? __ballot_sync(0x0000FFFF, 1) : __ballot_sync(0xFFFF0000, 1);

	counts[t] = odd == (int) blockDim.x / 2 && some && !none && all && (ballot >> t % 32 & 1) == (t % 3 == 0) && half == (t % 32 < 16 ? 0x0000FFFFu : 0xFFFF0000u) &&
		__any_sync(FULL, t % 32 == 4) && !__all_sync(FULL, t % 32 == 4);
}

static __global__ void
adds(int *counts, float *y)
{
	atomicAdd(&counts[0], 1);
	atomicMax(&counts[1], (int) threadIdx.x);
	atomicCAS(&counts[2], 0, 5);
	y[atomicAdd(&counts[3], 1)] = (float) (blockIdx.x * blockDim.x + threadIdx.x);
}

static void
test_what_works()
{
	float		sum = 0;
	bool		fine = true;
	bool		ordered = true;

	up();
	for (int i = 0; i < N; i++)
		sum += host_x[i];
	for (int i = 0; i < 20; i++)
		fine = launch(sum_by_barriers, dim3(3), dim3(N), x, y) && fine;
	down();
	tap_ok(fine && host_y[0] == sum && host_y[1] == sum && host_y[2] == sum, "barriers");
	for (int kind = 0; kind < 4; kind++)
	{
		fine = launch(shuffles, dim3(1), dim3(N), x, y, kind) && fine;
		down();
		for (int i = 0; i < N; i++)
			fine = fine && host_y[i] == shuffled(i, kind);
	}
	tap_ok(fine, "shuffles");
	fine = launch(votes, dim3(1), dim3(N), counts);
	down();
	for (int i = 0; i < N; i++)
		fine = fine && host_counts[i];
	tap_ok(fine, "votes of blocks and warps");
	for (int i = 0; i < 3; i++)
	{
		up();
		fine = launch(adds, dim3(4), dim3(N / 4), counts, y) && fine;
		down();
		fine = fine && host_counts[0] == N && host_counts[1] == N / 4 - 1 && host_counts[2] == 5;
		for (int t = 0; t < N; t++)
			ordered = ordered && host_y[t] == (float) t;
	}
	tap_ok(fine, "atomics");
	tap_ok(!ordered, "blocks and threads run in random orders");
}

static __global__ void
unwritten(float *y)
{
	y[blockIdx.x * blockDim.x + threadIdx.x] = gpu_shared<sums>().part[threadIdx.x];
	gpu_shared<sums>().part[threadIdx.x] = 1;
}

static void
test_memory()
{
	float	   *host;
	bool		fine = true;

	cudaMalloc(&y, sizeof(host_y));
	cudaHostAlloc(&host, sizeof(host_y), cudaHostAllocDefault);
	cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost);
	for (int i = 0; i < N; i++)
		fine = fine && isnan(host_y[i]) && isnan(host[i]);
	tap_ok(fine, "new memory is NaN");
	fine = launch(unwritten, dim3(4), dim3(N / 4), y);
	down();
	for (int i = 0; i < N; i++)
		fine = fine && isnan(host_y[i]);
	tap_ok(fine, "shared memory is NaN at the beginning of each block");
	infer_emulation.reset();
	cudaMalloc(&x, sizeof(host_x));
	cudaMalloc(&y, sizeof(host_y));
	cudaMalloc(&counts, sizeof(host_counts));
	up();
}

/* ---- what is wrong ---- */

static __global__ void
leaves_early(float *y)
{
	if (threadIdx.x > 6)
		return;
	__syncthreads();
	y[0] = 1;
}

static __global__ void
waits_elsewhere(float *y)
{
	if (threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
	y[0] = 1;
}

static __global__ void
lane_leaves(float *y)
{
	if (threadIdx.x % 32 == 3)
		return;
	y[threadIdx.x] = __shfl_down_sync(FULL, 1.0f, 1);
}

static __global__ void
lane_outside(float *y)
{
	y[threadIdx.x] = __shfl_down_sync(0x7FFFFFFF, 1.0f, 1);
}

/* The barrier between writing and reading is missing. */
static __global__ void
barrier_missing(const float *x, float *y)
{
	sums	   &shared = gpu_shared<sums>();

	shared.part[threadIdx.x] = x[threadIdx.x];
	y[threadIdx.x] = shared.part[blockDim.x - 1 - threadIdx.x];
}

/* The last block wins. */
static __global__ void
blocks_race(float *y)
{
	y[threadIdx.x] = (float) blockIdx.x;
}

static __global__ void
traps()
{
	if (threadIdx.x == 3)
		__trap();
}

struct vectors
{
	float		x[32][4];
};

/* Each thread copies two vectors, and waits for all of them but the last `left` groups. */
template <int LEFT>
static __global__ void
copies(const float *x, float *y)
{
	vectors    &shared = gpu_shared<vectors>();

	tensor_copy(shared.x[threadIdx.x], x + threadIdx.x * 4, true);
	tensor_copy_commit();
	tensor_copy(shared.x[threadIdx.x + 16], x, false);
	tensor_copy_commit();
	tensor_copy_wait<LEFT>();
	for (int i = 0; i < 4; i++)
	{
		y[threadIdx.x * 4 + i] = shared.x[threadIdx.x][i];
		y[threadIdx.x * 4 + i + 64] = shared.x[threadIdx.x + 16][i];
	}
}

struct large
{
	uint8_t		bytes[30000];
};

struct larger
{
	uint8_t		bytes[30000];
};

static __global__ void
takes_much(float *y)
{
	gpu_shared<large>().bytes[0] = 1;
	gpu_shared<larger>().bytes[0] = 2;
	y[0] = gpu_shared<large>().bytes[0];
}

static void
test_what_is_wrong()
{
	bool		found = false;
	bool		copied = true;

	settings.collect = true;
	tap_ok(!launch(leaves_early, dim3(2), dim3(64), y) && reported("leaves_early", "7 of 64 threads wait"),
		   "a barrier that threads left without reaching");
	tap_ok(!launch(waits_elsewhere, dim3(1), dim3(64), y) && reported("waits_elsewhere", "others at"), "a barrier in two places");
	tap_ok(!launch(lane_leaves, dim3(1), dim3(64), y) && reported("lane_leaves", "left"), "a shuffle without a lane of its mask");
	tap_ok(!launch(lane_outside, dim3(1), dim3(64), y) && reported("lane_outside", "lane 31"), "a shuffle by a lane that is not in its mask");
	tap_ok(!launch(takes_much, dim3(1), dim3(32), y) && reported("takes_much", "shared memory"), "more than 48 KB of shared memory");
	tap_ok(!launch(copies<1>, dim3(1), dim3(16), x, y) && reported("copies", "16 copies to shared memory that it has not waited for"),
		   "a block that ends before its copies");
	tap_ok(launch(copies<0>, dim3(3), dim3(16), x, y) && infer_emulation.report() == nullptr, "one that has waited for them");
	down();
	for (int i = 0; i < 64; i++)
		copied = copied && host_y[i] == host_x[i] && host_y[i + 64] == 0;
	tap_ok(copied, "and has them");
	tap_ok(!launch(traps, dim3(1), dim3(32)) && reported("traps", "trap at"), "a trap");
	for (int i = 0; i < 5 && !found; i++)
	{
		launch(barrier_missing, dim3(1), dim3(N), x, y);
		down();
		for (int t = 0; t < N; t++)
			found = found || host_y[t] != host_x[N - 1 - t];
	}
	tap_ok(found, "what a missing barrier does shows");
	settings.races = true;
	launch(sum_by_barriers, dim3(3), dim3(N), x, y);
	tap_ok(infer_emulation.report() == nullptr, "a kernel whose barriers are there does not depend on the order");
	for (int i = 0; i < 20; i++)
		launch(blocks_race, dim3(7), dim3(32), y);
	tap_ok(reported("blocks_race", "depends on the order"), "one whose blocks race is found");
	settings.races = false;
}

/* ---- what CUDA refuses ---- */

static bool
refused(dim3 grid, dim3 block)
{
	return gpu_launch(traps, grid, block, (cudaStream_t) nullptr) == cudaErrorInvalidConfiguration;
}

static void
test_limits()
{
	tap_ok(refused(dim3(1), dim3(1025)) && refused(dim3(1), dim3(1, 1, 65)) && refused(dim3(1), dim3(32, 33)), "too many threads");
	tap_ok(refused(dim3(1, 65536), dim3(1)) && refused(dim3(0x80000000u), dim3(1)), "too many blocks");
	tap_ok(refused(dim3(0), dim3(1)) && refused(dim3(1), dim3(0)), "none");
	tap_ok(cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess, "the last error is told once");
}

/* ---- arithmetic ---- */

static void
test_arithmetic()
{
	tap_ok(__float2int_rn(2.5f) == 2 && __float2int_rn(-3.5f) == -4 && __float2int_rz(-2.9f) == -2 && __float2int_rz(3e9f) == INT32_MAX &&
		   __float2int_rz(-3e9f) == INT32_MIN && __float2int_rz(NAN) == 0 && __double2ll_rz(1e19) == INT64_MAX &&
		   __float2uint_rz(-1) == 0 && __float2uint_rz(5e9f) == UINT32_MAX, "casts take what does not fit to the nearest that does");
	tap_ok(__dp4a(0x01FF02FE, 0x03040506, 7) == 7 + 3 - 4 + 10 - 12 && __dp4a(0x01FF02FEu, 0x01010101u, 0u) == 1u + 255 + 2 + 254,
		   "products of four bytes");
	tap_ok(__byte_perm(0x33221100, 0x77665544, 0x7531) == 0x77553311 && __byte_perm(0x80, 0, 0x0008) == 0x808080FF &&
		   __brev(1) == 0x80000000 && __funnelshift_r(0x12345678, 0x9ABCDEF0, 8) == 0xF0123456 &&
		   __funnelshift_l(0x12345678, 0x9ABCDEF0, 8) == 0xBCDEF012 && __clz(0) == 32 && __clz(1) == 31 && __ffs(8) == 4, "bits");
	tap_ok(min(-1, 2u) == 2u && max(1.0f, NAN) == 1.0f && rsqrtf(4) == 0.5f, "the least and the greatest are CUDA's");
}

int
main()
{
	cudaMalloc(&x, sizeof(host_x));
	cudaMalloc(&y, sizeof(host_y));
	cudaMalloc(&counts, sizeof(host_counts));
	test_what_works();
	test_memory();
	test_what_is_wrong();
	test_limits();
	test_arithmetic();
	infer_emulation.reset();
	return tap_done();
}
