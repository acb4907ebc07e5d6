/*
 * tabular.cu
 *	  What models of machine learning want, but for trees: distances, pairs of classes.
 */
#include "../cuda.h"

/* ---- DISTANCE ---- */

#define DISTANCE_TILE		32		/* vectors, and points, of a block */
#define DISTANCE_FEATURES	16		/* of which a sum is made, before it is added to those before */
#define DISTANCE_THREADS	16		/* in either direction; each has 2 × 2 of the tile */

struct distance_call
{
	const void *x;
	const void *points;
	void	   *y;
	uint32_t	features;
	uint32_t	points_count;
	uint32_t	tiles;				/* of points */
	uint8_t		lead;
	uint64_t	vectors_item;
};

template <class T>
struct distance_shared
{
	T			x[DISTANCE_FEATURES][DISTANCE_TILE + 1];
	T			points[DISTANCE_FEATURES][DISTANCE_TILE + 1];
};

/* Features [first, first + 16) of up to 32 vectors, of which `count` are left; zeros behind them. */
template <class T>
__device__ inline void
distance_load(T (&to)[DISTANCE_FEATURES][DISTANCE_TILE + 1], const T *from, uint64_t count, uint32_t first, uint32_t features)
{
	for (unsigned i = threadIdx.x; i < DISTANCE_FEATURES * DISTANCE_TILE; i += DISTANCE_THREADS * DISTANCE_THREADS)
	{
		uint32_t	vector = i / DISTANCE_FEATURES;
		uint32_t	f = first + i % DISTANCE_FEATURES;

		to[i % DISTANCE_FEATURES][vector] = vector < count && f < features ? from[(uint64_t) vector * features + f] : (T) 0;
	}
}

static __device__ inline float
distance_fma(float a, float b, float c)
{
	return fmaf(a, b, c);
}

static __device__ inline double
distance_fma(double a, double b, double c)
{
	return fma(a, b, c);
}

/* A block takes 32 vectors and 32 points. */
template <class T>
__global__ void
__launch_bounds__(DISTANCE_THREADS * DISTANCE_THREADS)
distance(const gpu_batch *batch, distance_call c)
{
	distance_shared<T> &shared = gpu_shared<distance_shared<T>>();
	uint64_t	vectors = batch->items[c.lead] * c.vectors_item;
	uint64_t	tiles = (vectors + DISTANCE_TILE - 1) / DISTANCE_TILE * c.tiles;
	uint32_t	across = threadIdx.x % DISTANCE_THREADS;
	uint32_t	down = threadIdx.x / DISTANCE_THREADS;

	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x)
	{
		uint64_t	vector = tile / c.tiles * DISTANCE_TILE;
		uint32_t	point = (uint32_t) (tile % c.tiles) * DISTANCE_TILE;
		T			total[2][2] = {};

		for (uint32_t first = 0; first < c.features; first += DISTANCE_FEATURES)
		{
			T			sum[2][2] = {};

			distance_load(shared.x, (const T *) c.x + vector * c.features, vectors - vector, first, c.features);
			distance_load(shared.points, (const T *) c.points + (uint64_t) point * c.features, c.points_count - point, first,
						  c.features);
			__syncthreads();
			for (int f = 0; f < DISTANCE_FEATURES; f++)
				for (int e = 0; e < 4; e++)
				{
					T			difference = shared.x[f][down + e / 2 * DISTANCE_THREADS] -
						shared.points[f][across + e % 2 * DISTANCE_THREADS];

					sum[e / 2][e % 2] = distance_fma(difference, difference, sum[e / 2][e % 2]);
				}
			for (int e = 0; e < 4; e++)
				total[e / 2][e % 2] += sum[e / 2][e % 2];
			__syncthreads();
		}
		for (int e = 0; e < 4; e++)
		{
			uint64_t	v = vector + down + e / 2 * DISTANCE_THREADS;
			uint32_t	p = point + across + e % 2 * DISTANCE_THREADS;

			if (v < vectors && p < c.points_count)
				((T *) c.y)[v * c.points_count + p] = gpu_canonical(total[e / 2][e % 2]);
		}
	}
}

static void
launch_distance(const cuda_plan *plan, cuda_run *run)
{
	distance_call call = *(const distance_call *) plan->own;
	uint64_t	vectors = run->items[plan->lead] * call.vectors_item;
	dim3		grid(cuda_blocks((vectors + DISTANCE_TILE - 1) / DISTANCE_TILE * call.tiles, 1));

	call.x = cuda_operand(plan, run, 0);
	call.points = cuda_operand(plan, run, 1);
	call.y = cuda_address(run, &plan->output);
	cuda_launch(run, plan->type == DEVICE_F64 ? distance<double> : distance<float>, grid,
				dim3(DISTANCE_THREADS * DISTANCE_THREADS), run->batch, call);
}

bool
cuda_make_distance(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	const device_tensor *c = cuda_input(making, 1);
	int64_t		elements = cuda_elements(making->y, 0, making->y->rank);
	distance_call *own;

	if (c->dims[0] > INT32_MAX || c->dims[1] > INT32_MAX)
		return false;
	own = (distance_call *) cuda_own(making, sizeof(distance_call));
	if (own == nullptr)
		return false;
	own->features = (uint32_t) c->dims[1];
	own->points_count = (uint32_t) c->dims[0];
	own->tiles = (own->points_count + DISTANCE_TILE - 1) / DISTANCE_TILE;
	own->lead = plan->lead;
	own->vectors_item = (uint64_t) cuda_elements(x, 0, x->rank - 1);
	plan->launch = launch_distance;
	plan->flops_item = 3.0 * (double) elements * (double) c->dims[1];
	plan->bytes_item = (plan->type == DEVICE_F64 ? 8.0 : 4.0) * (double) (elements + cuda_elements(x, 0, x->rank));
	return true;
}

/* ---- COUPLE ---- */

#define COUPLE_MAX		1024		/* classes, as on the CPU */
#define COUPLE_THREADS	256
#define COUPLE_ROUNDS	100

struct couple_call
{
	const float *x;
	float	   *y;
	uint32_t	n;					/* classes */
	uint8_t		lead;
	uint64_t	vectors_item;
};

struct couple_shared
{
	float		p[COUPLE_MAX];
	float		qp[COUPLE_MAX];
	float		diagonal[COUPLE_MAX];
};

/* That it is i and not j, i < j. */
static __device__ inline float
couple_pair(const float *pairs, uint32_t n, uint32_t i, uint32_t j)
{
	return pairs[(uint64_t) i * (2 * n - i - 1) / 2 + (j - i - 1)];
}

/* Wu, Lin and Weng's quadratic form beside its diagonal, which is never stored. */
static __device__ inline float
couple_element(const float *pairs, uint32_t n, uint32_t i, uint32_t j)
{
	float		r = i < j ? couple_pair(pairs, n, i, j) : couple_pair(pairs, n, j, i);

	return -(1 - r) * r;
}

static __device__ inline float
couple_diagonal(const float *pairs, uint32_t n, uint32_t k)
{
	float		sum = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		float		r = i == k ? 0 : i < k ? couple_pair(pairs, n, i, k) : 1 - couple_pair(pairs, n, k, i);

		sum += r * r;
	}
	return sum;
}

/* q · p into qp, thread by thread its classes. */
static __device__ inline void
couple_products(couple_shared &shared, const float *pairs, uint32_t n)
{
	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
	{
		float		sum = 0;

		for (uint32_t j = 0; j < n; j++)
			sum += (i == j ? shared.diagonal[i] : couple_element(pairs, n, i, j)) * shared.p[j];
		shared.qp[i] = sum;
	}
}

/* One class after the other; pqp is every thread's. */
static __device__ inline void
couple_round(couple_shared &shared, const float *pairs, uint32_t n, float pqp)
{
	for (uint32_t i = 0; i < n; i++)
	{
		float		q = shared.diagonal[i];
		float		qp = shared.qp[i];
		float		step = (pqp - qp) / q;

		pqp = (pqp + step * (step * q + 2 * qp)) / (1 + step) / (1 + step);
		__syncthreads();
		for (uint32_t j = threadIdx.x; j < n; j += blockDim.x)
		{
			shared.qp[j] = (shared.qp[j] + step * (i == j ? q : couple_element(pairs, n, i, j))) / (1 + step);
			shared.p[j] = (i == j ? shared.p[j] + step : shared.p[j]) / (1 + step);
		}
		__syncthreads();
	}
}

/* A block takes a vector. */
__global__ void
couple(const gpu_batch *batch, couple_call c)
{
	couple_shared &shared = gpu_shared<couple_shared>();
	uint64_t	vectors = batch->items[c.lead] * c.vectors_item;
	uint32_t	n = c.n;

	for (uint64_t u = blockIdx.x; u < vectors; u += gridDim.x)
	{
		const float *pairs = c.x + u * (n * (n - 1) / 2);

		for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		{
			shared.p[i] = 1.0f / (float) n;
			shared.diagonal[i] = couple_diagonal(pairs, n, i);
		}
		__syncthreads();
		for (int round = 0; round < COUPLE_ROUNDS; round++)
		{
			float		pqp = 0;
			float		worst = 0;

			couple_products(shared, pairs, n);
			__syncthreads();
			for (uint32_t i = 0; i < n; i++)
				pqp += shared.p[i] * shared.qp[i];
			for (uint32_t i = 0; i < n; i++)
				worst = fabsf(shared.qp[i] - pqp) > worst ? fabsf(shared.qp[i] - pqp) : worst;
			if (worst < 0.005f / (float) n)
				break;
			couple_round(shared, pairs, n, pqp);
		}
		for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
			c.y[u * n + i] = gpu_canonical(shared.p[i]);
		__syncthreads();
	}
}

static void
launch_couple(const cuda_plan *plan, cuda_run *run)
{
	couple_call call = *(const couple_call *) plan->own;

	call.x = (const float *) cuda_operand(plan, run, 0);
	call.y = (float *) cuda_address(run, &plan->output);
	cuda_launch(run, couple, dim3(cuda_blocks(run->items[plan->lead] * call.vectors_item, 1)),
				dim3(call.n <= 32 ? 32 : COUPLE_THREADS), run->batch, call);
}

bool
cuda_make_couple(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	double		n = (double) plan->i[0];
	const device_tensor *x = cuda_input(making, 0);
	couple_call *own;

	if (making->op->i[0] > COUPLE_MAX)
		return false;
	own = (couple_call *) cuda_own(making, sizeof(couple_call));
	if (own == nullptr)
		return false;
	own->n = (uint32_t) plan->i[0];
	own->lead = plan->lead;
	own->vectors_item = (uint64_t) cuda_elements(x, 0, x->rank - 1);
	plan->launch = launch_couple;
	plan->flops_item = (double) own->vectors_item * 100 * n * n;	/* some ten rounds */
	plan->bytes_item = (double) own->vectors_item * 4 * n * (n + 1) / 2;
	return true;
}

CUDA_MODULE
