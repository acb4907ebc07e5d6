/*
 * float.cu
 *	  Products in float32 and float64: GEMM by a packed weight, MATMUL of any two operands.
 *
 * An element is one chain of fused multiply-adds along K from k = 0, as device.h has it, whatever the tile: so bits are the
 * CPU device's.
 *
 * Loop of a block: while it multiplies one step of K out of shared memory, the next is on its way into registers; then
 * that goes to the other half of shared memory.
 */
#include "product.h"

template <class T>
struct float_product
{
	const T    *x;					/* rows of k */
	const T    *w;					/* k rows, w_step apart */
	int64_t		w_step;
	int64_t		m;					/* rows of an item; batched: of a unit */
	int64_t		k;
	int64_t		units_item;			/* 0: not batched */
	uint8_t		lead;
	product_units units;
	product_end<T> end;
};

/* ROWS × COLUMNS by DEPTH of k; a thread has THREAD_ROWS × THREAD_COLUMNS of the elements. */
template <class T, int ROWS_, int COLUMNS_, int DEPTH_, int THREAD_ROWS_, int THREAD_COLUMNS_>
struct float_tile
{
	static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
	static constexpr int THREAD_ROWS = THREAD_ROWS_, THREAD_COLUMNS = THREAD_COLUMNS_;
	static constexpr int ACROSS = COLUMNS / THREAD_COLUMNS;	/* threads */
	static constexpr int DOWN = ROWS / THREAD_ROWS;
	static constexpr int THREADS = ACROSS * DOWN;
	static constexpr int VECTOR = 16 / (int) sizeof(T);		/* what is read from shared memory at once, at most */
	static constexpr int ROWS_AT_ONCE = THREAD_ROWS < VECTOR ? THREAD_ROWS : VECTOR;
	static constexpr int COLUMNS_AT_ONCE = THREAD_COLUMNS < VECTOR ? THREAD_COLUMNS : VECTOR;
	static constexpr int STAGE_ROWS = DOWN * ROWS_AT_ONCE;
	static constexpr int BLOCKS = sizeof(T) == 8 && THREADS == 256 ? 1 : 512 / THREADS;	/* at once on a processor, at least */
	static constexpr int X_STRIDE = ROWS + VECTOR;
	static constexpr int X_LOADS = ROWS * DEPTH / THREADS;
	static constexpr int W_LOADS = COLUMNS * DEPTH / THREADS;

	static_assert(X_LOADS * THREADS == ROWS * DEPTH && W_LOADS * THREADS == COLUMNS * DEPTH, "threads share the loads");

	struct operands
	{
		T			x[DEPTH][X_STRIDE];	/* turned */
		T			w[DEPTH][COLUMNS];
	};

	union alignas(16) memory
	{
		operands	steps[2];
		T			stage[STAGE_ROWS][COLUMNS];
	};

	/* The tile's row that is a thread's i-th; those at once are neighbours. */
	static __device__ inline int
	row(int down, int i)
	{
		return i / ROWS_AT_ONCE * (DOWN * ROWS_AT_ONCE) + down * ROWS_AT_ONCE + i % ROWS_AT_ONCE;
	}

	static __device__ inline int
	column(int across, int j)
	{
		return j / COLUMNS_AT_ONCE * (ACROSS * COLUMNS_AT_ONCE) + across * COLUMNS_AT_ONCE + j % COLUMNS_AT_ONCE;
	}
};

/* One tile of one unit: its operands, and where it is in them. */
template <class T>
struct float_block
{
	const T    *x;
	const T    *w;
	int64_t		rows;
	int64_t		row0;
	int64_t		column0;
	int64_t		y_row0;				/* of the unit */
};

template <class TILE, class T>
static __device__ inline void
float_load(const float_product<T> &p, const float_block<T> &block, int64_t k0, T (&x)[TILE::X_LOADS], T (&w)[TILE::W_LOADS])
{
	GPU_UNROLL
	for (int i = 0; i < TILE::X_LOADS; i++)
	{
		int			e = (int) threadIdx.x + i * TILE::THREADS;
		int64_t		row = block.row0 + e / TILE::DEPTH;
		int64_t		k = k0 + e % TILE::DEPTH;

		x[i] = row < block.rows && k < p.k ? block.x[row * p.k + k] : (T) 0;
	}
	GPU_UNROLL
	for (int i = 0; i < TILE::W_LOADS; i++)
	{
		int			e = (int) threadIdx.x + i * TILE::THREADS;
		int64_t		column = block.column0 + e % TILE::COLUMNS;
		int64_t		k = k0 + e / TILE::COLUMNS;

		w[i] = column < p.end.n && k < p.k ? block.w[k * p.w_step + column] : (T) 0;
	}
}

template <class TILE, class T>
static __device__ inline void
float_keep(typename TILE::operands &to, const T (&x)[TILE::X_LOADS], const T (&w)[TILE::W_LOADS])
{
	GPU_UNROLL
	for (int i = 0; i < TILE::X_LOADS; i++)
	{
		int			e = (int) threadIdx.x + i * TILE::THREADS;

		to.x[e % TILE::DEPTH][e / TILE::DEPTH] = x[i];
	}
	GPU_UNROLL
	for (int i = 0; i < TILE::W_LOADS; i++)
	{
		int			e = (int) threadIdx.x + i * TILE::THREADS;

		to.w[e / TILE::COLUMNS][e % TILE::COLUMNS] = w[i];
	}
}

/* sums += one k of the tile */
template <class TILE, class T>
static __device__ inline void
float_multiply(const typename TILE::operands &from, int k, int down, int across,
			   T (&sums)[TILE::THREAD_ROWS][TILE::THREAD_COLUMNS])
{
	T			x[TILE::THREAD_ROWS];
	T			w[TILE::THREAD_COLUMNS];

	GPU_UNROLL
	for (int i = 0; i < TILE::THREAD_ROWS; i += TILE::ROWS_AT_ONCE)
	{
		using several = product_vector<T, TILE::ROWS_AT_ONCE>;
		several		v = *(const several *) &from.x[k][TILE::row(down, i)];

		GPU_UNROLL
		for (int s = 0; s < TILE::ROWS_AT_ONCE; s++)
			x[i + s] = v.v[s];
	}
	GPU_UNROLL
	for (int j = 0; j < TILE::THREAD_COLUMNS; j += TILE::COLUMNS_AT_ONCE)
	{
		using several = product_vector<T, TILE::COLUMNS_AT_ONCE>;
		several		v = *(const several *) &from.w[k][TILE::column(across, j)];

		GPU_UNROLL
		for (int s = 0; s < TILE::COLUMNS_AT_ONCE; s++)
			w[j + s] = v.v[s];
	}
	GPU_UNROLL
	for (int i = 0; i < TILE::THREAD_ROWS; i++)
		GPU_UNROLL
		for (int j = 0; j < TILE::THREAD_COLUMNS; j++)
			sums[i][j] = gpu_fma(x[i], w[j], sums[i][j]);
}

template <class TILE, class T>
static __device__ inline void
float_sums(const float_product<T> &p, const float_block<T> &block, typename TILE::memory &memory, int down, int across,
		   T (&sums)[TILE::THREAD_ROWS][TILE::THREAD_COLUMNS])
{
	T			x[TILE::X_LOADS];
	T			w[TILE::W_LOADS];
	int			half = 0;

	float_load<TILE>(p, block, 0, x, w);
	float_keep<TILE>(memory.steps[0], x, w);
	__syncthreads();
	for (int64_t k0 = 0; k0 < p.k; k0 += TILE::DEPTH)
	{
		bool		more = k0 + TILE::DEPTH < p.k;

		if (more)
			float_load<TILE>(p, block, k0 + TILE::DEPTH, x, w);
		if (p.k - k0 >= TILE::DEPTH)
		{
			GPU_UNROLL
			for (int k = 0; k < TILE::DEPTH; k++)
				float_multiply<TILE>(memory.steps[half], k, down, across, sums);
		}
		else
			for (int k = 0; k < (int) (p.k - k0); k++)
				float_multiply<TILE>(memory.steps[half], k, down, across, sums);
		if (more)
			float_keep<TILE>(memory.steps[half ^ 1], x, w);
		__syncthreads();
		half ^= 1;
	}
}

template <class TILE, class T>
static __device__ inline void
float_finish(const float_product<T> &p, const float_block<T> &block, typename TILE::memory &memory, int down, int across,
			 const T (&sums)[TILE::THREAD_ROWS][TILE::THREAD_COLUMNS])
{
	GPU_UNROLL
	for (int i = 0; i < TILE::THREAD_ROWS; i += TILE::ROWS_AT_ONCE)
	{
		product_place place = {.row0 = block.y_row0 + block.row0 + TILE::row(0, i), .rows_end = block.y_row0 + block.rows,
							   .column0 = block.column0};

		__syncthreads();
		GPU_UNROLL
		for (int s = 0; s < TILE::ROWS_AT_ONCE; s++)
			GPU_UNROLL
			for (int j = 0; j < TILE::THREAD_COLUMNS; j++)
				memory.stage[TILE::row(down, s)][TILE::column(across, j)] = sums[i + s][j];
		__syncthreads();
		product_finish<TILE::STAGE_ROWS, TILE::COLUMNS>(p.end, place, &memory.stage[0][0], TILE::COLUMNS,
														product_plain_sum<T>{p.end.bias, p.end.bias_step});
	}
	__syncthreads();
}

/* Where tile t lies. */
template <class TILE, class T>
static __device__ inline float_block<T>
float_find(const float_product<T> &p, uint64_t t, int64_t rows, int64_t tiles_down, int64_t tiles_across)
{
	float_block<T> block = {.x = p.x, .w = p.w, .rows = rows};
	uint64_t	unit = t / (uint64_t) (tiles_down * tiles_across);
	uint64_t	rest = unit;

	block.column0 = (int64_t) (t % (uint64_t) tiles_across) * TILE::COLUMNS;
	block.row0 = (int64_t) (t / (uint64_t) tiles_across % (uint64_t) tiles_down) * TILE::ROWS;
	block.y_row0 = (int64_t) unit * p.m;
	if (p.units_item == 0)
		return block;
	for (int d = p.units.rank - 1; d >= 0; d--)
	{
		int64_t		index = (int64_t) (d == 0 ? rest : rest % (uint64_t) p.units.dims[d]);

		if (d > 0)
			rest /= (uint64_t) p.units.dims[d];
		block.x += index * p.units.steps[0][d];
		block.w += index * p.units.steps[1][d];
	}
	return block;
}

template <class TILE, class T>
static __global__ void __launch_bounds__(TILE::THREADS, TILE::BLOCKS)
float_kernel(float_product<T> p, const gpu_batch *batch)
{
	typename TILE::memory &memory = gpu_shared<typename TILE::memory>();
	int			across = (int) threadIdx.x % TILE::ACROSS;
	int			down = (int) threadIdx.x / TILE::ACROSS;
	int64_t		items = batch->items[p.lead];
	int64_t		rows = p.units_item == 0 ? items * p.m : p.m;
	int64_t		tiles_down = (rows + TILE::ROWS - 1) / TILE::ROWS;
	int64_t		tiles_across = (p.end.n + TILE::COLUMNS - 1) / TILE::COLUMNS;
	uint64_t	tiles = (uint64_t) (tiles_down * tiles_across * (p.units_item == 0 ? 1 : items * p.units_item));

	for (uint64_t t = blockIdx.x; t < tiles; t += gridDim.x)
	{
		float_block<T> block = float_find<TILE>(p, t, rows, tiles_down, tiles_across);
		T			sums[TILE::THREAD_ROWS][TILE::THREAD_COLUMNS];

		GPU_UNROLL
		for (int i = 0; i < TILE::THREAD_ROWS; i++)
			GPU_UNROLL
			for (int j = 0; j < TILE::THREAD_COLUMNS; j++)
				sums[i][j] = 0;
		float_sums<TILE>(p, block, memory, down, across, sums);
		float_finish<TILE>(p, block, memory, down, across, sums);
	}
}

/* ---- launches ---- */

template <class TILE, class T>
static void
launch_tiles(const float_product<T> &p, cuda_run *run, int64_t rows, uint64_t units)
{
	uint64_t	tiles = product_tiles(rows, p.end.n, TILE::ROWS, TILE::COLUMNS) * units;

	if (tiles > 0)
		cuda_launch(run, float_kernel<TILE, T>, product_grid(tiles), dim3(TILE::THREADS), p, run->batch);
}

/* The largest tile of which there is one for each processor. */
static void
launch_float(const float_product<float> &p, cuda_run *run, int64_t rows, uint64_t units)
{
	uint64_t	processors = (uint64_t) run->gpu->processors;

	if (product_tiles(rows, p.end.n, 128, 128) * units >= processors)
		launch_tiles<float_tile<float, 128, 128, 8, 8, 8>>(p, run, rows, units);
	else if (product_tiles(rows, p.end.n, 64, 64) * units >= processors)
		launch_tiles<float_tile<float, 64, 64, 16, 4, 4>>(p, run, rows, units);
	else
		launch_tiles<float_tile<float, 8, 32, 64, 1, 2>>(p, run, rows, units);
}

static void
launch_float(const float_product<double> &p, cuda_run *run, int64_t rows, uint64_t units)
{
	if (product_tiles(rows, p.end.n, 64, 64) * units >= (uint64_t) run->gpu->processors)
		launch_tiles<float_tile<double, 64, 64, 16, 4, 4>>(p, run, rows, units);
	else
		launch_tiles<float_tile<double, 8, 32, 32, 1, 2>>(p, run, rows, units);
}

template <class T>
static void
float_gemm(const cuda_plan *plan, cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;
	float_product<T> p = {.x = (const T *) cuda_operand(plan, run, 0), .w = (const T *) plan->weight->data[run->gpu_index],
						  .w_step = plan->weight->n_padded, .m = shape->m, .k = shape->k, .lead = plan->lead};

	p.end = product_end_of<T>(plan, run);
	launch_float(p, run, product_rows(plan, run), 1);
}

void
product_float(const cuda_plan *plan, cuda_run *run)
{
	if (plan->type == DEVICE_F64)
		float_gemm<double>(plan, run);
	else
		float_gemm<float>(plan, run);
}

template <class T>
static void
float_matmul(const cuda_plan *plan, cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;
	float_product<T> p = {.x = (const T *) cuda_operand(plan, run, 0), .w = (const T *) cuda_operand(plan, run, 1),
						  .w_step = shape->n, .m = shape->m, .k = shape->k, .units_item = shape->units_item, .lead = plan->lead,
						  .units = shape->units};
	int64_t		items = run->items[plan->lead];

	p.end = {.y = cuda_address(run, &plan->output), .bias = nullptr, .bias_step = 0, .n = shape->n, .fn = UNARY_NONE,
			 .rounded = false, .f0 = 0, .f1 = 0};
	if (shape->units_item == 0)
		launch_float(p, run, items * shape->m, 1);
	else
		launch_float(p, run, shape->m, (uint64_t) (items * shape->units_item));
}

/* ---- whole numbers, which wrap around: an element a thread ---- */

struct integer_tile
{
	static constexpr int ROWS = 1, COLUMNS = 1;
};

template <class T, class U>
static __global__ void
integer_kernel(float_product<T> p, const gpu_batch *batch)
{
	uint64_t	item = (uint64_t) (p.m * p.end.n) * (uint64_t) (p.units_item == 0 ? 1 : p.units_item);
	uint64_t	count = batch->items[p.lead] * item;

	for (uint64_t e = gpu_thread(); e < count; e += gpu_threads())
	{
		int64_t		rows = p.units_item == 0 ? (int64_t) (count / (uint64_t) p.end.n) : p.m;
		float_block<T> block = float_find<integer_tile>(p, e, rows, rows, p.end.n);
		U			sum = 0;

		for (int64_t k = 0; k < p.k; k++)
			sum += (U) block.x[block.row0 * p.k + k] * (U) block.w[k * p.w_step + block.column0];
		((T *) p.end.y)[e] = (T) sum;
	}
}

template <class T, class U>
static void
integer_matmul(const cuda_plan *plan, cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;
	float_product<T> p = {.x = (const T *) cuda_operand(plan, run, 0), .w = (const T *) cuda_operand(plan, run, 1),
						  .w_step = shape->n, .m = shape->m, .k = shape->k, .units_item = shape->units_item, .lead = plan->lead,
						  .units = shape->units};
	uint64_t	count = run->items[plan->lead] * (uint64_t) (shape->m * shape->n) *
		(uint64_t) (shape->units_item == 0 ? 1 : shape->units_item);

	p.end.y = cuda_address(run, &plan->output);
	p.end.n = shape->n;
	if (count > 0)
		cuda_launch(run, integer_kernel<T, U>, dim3(cuda_blocks(count, 128)), dim3(128), p, run->batch);
}

void
product_matmul(const cuda_plan *plan, cuda_run *run)
{
	switch (plan->type)
	{
		case DEVICE_F32:
			float_matmul<float>(plan, run);
			break;
		case DEVICE_F64:
			float_matmul<double>(plan, run);
			break;
		case DEVICE_I32:
			integer_matmul<int32_t, uint32_t>(plan, run);
			break;
		default:
			integer_matmul<int64_t, uint64_t>(plan, run);
	}
}

CUDA_MODULE
