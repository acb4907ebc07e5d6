/*
 * library_agree.cu
 *	  Whether an algorithm of the library's keeps rule 4, and computes what it is asked for.
 *
 * Nouns
 *	pattern		PATTERN rows of numbers; a run's row r is row r mod PATTERN of it, so that each of them comes to many places
 *	alone		the results of the pattern's rows, each from a run of one row
 *
 * Loop: the rows alone; then runs of all numbers of rows in the list, each row compared, bit by bit, with what it was alone;
 * and some of those alone with sums in float64.  Numbers and weights are made up here: what is chosen belongs to the form.
 */
#include "library.h"

#if LIBRARY_BUILT

#define PATTERN			37			/* no divisor of a tile */
#define EXACT_ROWS		4			/* of which sums are made anew */

static const int64_t row_counts[] = {
	2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 255, 256, 257, 511, 513, 1024, 2048, 4096
};									/* and as many as there may be */

#define ROW_COUNTS		(sizeof(row_counts) / sizeof(*row_counts))

enum verdict						/* of the kernels; what is worse is greater */
{
	VERDICT_FINE = 0,
	VERDICT_WRONG = 1
};

struct agree_memory					/* device memory, one piece */
{
	uint8_t    *x;					/* rows_most × K */
	uint8_t    *w;					/* as weights lie */
	float	   *bias;
	uint8_t    *alone;				/* PATTERN × N */
	uint8_t    *y;					/* rows_most × N */
	uint32_t   *verdict;
};

/* A number from −1 to 1 of a place: the finalizer of MurmurHash3 (public domain). */
static __device__ inline float
number_of(uint64_t place)
{
	uint32_t	h = (uint32_t) place * 2654435761u ^ (uint32_t) (place >> 32);

	h = (h ^ h >> 16) * 0x85EBCA6Bu;
	h = (h ^ h >> 13) * 0xC2B2AE35u;
	h ^= h >> 16;
	return (float) (int32_t) h * 0x1p-31f;
}

static __device__ inline float
get(const uint8_t *memory, uint8_t type, uint64_t i)
{
	return type == DEVICE_BF16 ? gpu_f32_of_bf16(((const uint16_t *) memory)[i]) : ((const float *) memory)[i];
}

static __device__ inline void
put(uint8_t *memory, uint8_t type, uint64_t i, float v)
{
	if (type == DEVICE_BF16)
		((uint16_t *) memory)[i] = gpu_bf16_of_f32(v);
	else
		((float *) memory)[i] = v;
}

/* lines of `width` numbers, of which line l is that of l mod `period`; another seed, other numbers */
static __global__ void
agree_fill(uint8_t *memory, uint8_t type, uint64_t lines, uint64_t width, uint64_t period, uint64_t seed)
{
	for (uint64_t i = gpu_thread(); i < lines * width; i += gpu_threads())
		put(memory, type, i, number_of(i / width % period * width + i % width + (seed << 40)));
}

/* `bytes` bytes of each row, in words. */
static __global__ void
agree_compare(const uint32_t *y, const uint32_t *alone, uint64_t rows, uint64_t words, uint32_t *verdict)
{
	for (uint64_t i = gpu_thread(); i < rows * words; i += gpu_threads())
		if (y[i] != alone[i / words % PATTERN * words + i % words])
			*verdict = VERDICT_WRONG;
}

/*
 * The first rows alone, within what rounding may do: of products in float32 K roundings of sums, where a chain of TF32 would
 * be far beyond; tensor cores cut off more.
 */
static __global__ void
agree_exact(library_form form, agree_memory memory)
{
	bool		narrow = form.type == DEVICE_BF16;

	for (uint64_t e = gpu_thread(); e < (uint64_t) (EXACT_ROWS * form.n); e += gpu_threads())
	{
		int64_t		row = (int64_t) e / form.n;
		int64_t		column = (int64_t) e % form.n;
		double		sum = 0;
		double		magnitude = 0;
		double		tolerance;
		float		got = get(memory.alone, form.y_type, e);

		for (int64_t k = 0; k < form.k; k++)
		{
			double		product = (double) get(memory.x, form.type, (uint64_t) (row * form.k + k)) *
				(double) get(memory.w, form.type, (uint64_t) (narrow ? column * form.w_step + k : k * form.w_step + column));

			sum += product;
			magnitude += fabs(product);
		}
		if (form.bias)
			sum += (double) memory.bias[column];
		tolerance = magnitude * (narrow ? 0x1p-14 : 0x1p-20) + 1e-6;
		if (form.gelu_tanh)
		{
			tolerance = 1.2 * tolerance + fabs(sum) * 0x1p-9;
			sum = gpu_gelu_tanh(sum);
		}
		if (form.y_type == DEVICE_BF16)
			tolerance += fabs(sum) * 0x1p-8;
		if (!(fabs((double) got - sum) <= tolerance))
			*memory.verdict = VERDICT_WRONG;
	}
}

/* Where everything lies from `base` on, unless that is NULL; the bytes of it all. */
static uint64_t
lay_out(const library_choice *choice, uint8_t *base, agree_memory *memory)
{
	const library_form *form = &choice->form;
	uint64_t	bytes = form->type == DEVICE_BF16 ? 2 : 4;
	uint64_t	y_row = (uint64_t) form->n * (form->y_type == DEVICE_BF16 ? 2 : 4);
	uint64_t	sizes[] = {(uint64_t) (choice->rows_most * form->k) * bytes,
						   (uint64_t) ((form->type == DEVICE_BF16 ? form->n : form->k) * form->w_step) * bytes,
						   (uint64_t) form->n * sizeof(float), PATTERN * y_row, (uint64_t) choice->rows_most * y_row,
						   sizeof(uint32_t)};
	uint64_t	offsets[6];
	uint64_t	offset = 0;

	for (int i = 0; i < 6; i++)
	{
		offsets[i] = offset;
		offset += (sizes[i] + 255) / 256 * 256;
	}
	if (base != nullptr)
		*memory = {.x = base + offsets[0], .w = base + offsets[1], .bias = (float *) (base + offsets[2]),
				   .alone = base + offsets[3], .y = base + offsets[4], .verdict = (uint32_t *) (base + offsets[5])};
	return offset;
}

static dim3
grid_of(int64_t numbers)
{
	unsigned	blocks = cuda_blocks((uint64_t) numbers, 256 * 16);

	return dim3(blocks < 1024 ? blocks : 1024);
}

static cudaError_t
fill(const library_choice *choice, const agree_memory *memory, cudaStream_t stream)
{
	const library_form *form = &choice->form;
	dim3		block(256);
	uint64_t	w_lines = (uint64_t) (form->type == DEVICE_BF16 ? form->n : form->k);
	cudaError_t errors[4];

	errors[0] = gpu_launch(agree_fill, grid_of(choice->rows_most * form->k), block, stream, memory->x, form->type,
						   (uint64_t) choice->rows_most, (uint64_t) form->k, (uint64_t) PATTERN, (uint64_t) 1);
	errors[1] = gpu_launch(agree_fill, grid_of((int64_t) w_lines * form->w_step), block, stream, memory->w, form->type, w_lines,
						   (uint64_t) form->w_step, w_lines, (uint64_t) 2);
	errors[2] = gpu_launch(agree_fill, grid_of(form->n), block, stream, (uint8_t *) memory->bias, (uint8_t) DEVICE_F32,
						   (uint64_t) 1, (uint64_t) form->n, (uint64_t) 1, (uint64_t) 3);
	errors[3] = cudaMemsetAsync(memory->verdict, 0, sizeof(uint32_t), stream);
	for (cudaError_t error : errors)
		if (error != cudaSuccess)
			return error;
	return cudaSuccess;
}

/* nsec of all that run_all puts on the stream.  float64 is slow on most GPUs. */
static uint64_t
predict(const cuda_gpu *gpu, const library_choice *choice)
{
	const library_form *form = &choice->form;
	double		products = 2.0 * (double) form->k * (double) form->n;
	double		rows = PATTERN + (double) choice->rows_most;

	for (int64_t count : row_counts)
		rows += count <= choice->rows_most ? (double) count : 0;
	return (uint64_t) (products * 1e9 * (rows / gpu->flops[form->type == DEVICE_BF16 ? DEVICE_PRECISION_BF16 : DEVICE_PRECISION_FULL] +
										 EXACT_ROWS * 64 / gpu->flops[DEVICE_PRECISION_FULL]));
}

/* The runs and comparisons, on the stream.  *result: the library's; another one than LIBRARY_DONE ends them. */
static cudaError_t
run_all(cuda_device *device, const library_choice *choice, const agree_memory *memory, cudaStream_t stream, library_result *result)
{
	const cuda_library *library = device->products_library;
	const library_form *form = &choice->form;
	uint64_t	x_row = (uint64_t) form->k * (form->type == DEVICE_BF16 ? 2 : 4);
	uint64_t	y_row = (uint64_t) form->n * (form->y_type == DEVICE_BF16 ? 2 : 4);
	library_operands operands = {.x = memory->x, .w = memory->w, .bias = memory->bias, .y = memory->alone};
	cudaError_t error = fill(choice, memory, stream);

	for (int p = 0; p < PATTERN && error == cudaSuccess && *result == LIBRARY_DONE; p++)
	{
		operands.x = memory->x + (uint64_t) p * x_row;
		operands.y = memory->alone + (uint64_t) p * y_row;
		*result = library_multiply(library, 0, choice, &operands, 1, stream);
	}
	if (error == cudaSuccess && *result == LIBRARY_DONE)
		error = gpu_launch(agree_exact, dim3(cuda_blocks((uint64_t) (EXACT_ROWS * form->n), 128)), dim3(128), stream, *form, *memory);
	operands.x = memory->x;
	operands.y = memory->y;
	for (size_t i = 0; i <= ROW_COUNTS && error == cudaSuccess && *result == LIBRARY_DONE; i++)
	{
		int64_t		rows = i < ROW_COUNTS ? row_counts[i] : choice->rows_most;

		if (rows > choice->rows_most)
			continue;
		*result = library_multiply(library, 0, choice, &operands, rows, stream);
		cuda_load_beats(device);	/* the first ones may have loaded their code */
		if (*result == LIBRARY_DONE)
			error = gpu_launch(agree_compare, grid_of(rows * form->n), dim3(256), stream, (const uint32_t *) memory->y,
							   (const uint32_t *) memory->alone, (uint64_t) rows, y_row / 4, memory->verdict);
	}
	return error;
}

static cudaError_t
load_kernels(cuda_gpu *gpu)
{
	const cudaError_t errors[] = {
		cuda_kernel_load(gpu, agree_fill), cuda_kernel_load(gpu, agree_compare), cuda_kernel_load(gpu, agree_exact)
	};

	for (cudaError_t error : errors)
		if (error != cudaSuccess)
			return error;
	return cudaSuccess;
}

/* The check itself, within memory that is there.  Nothing waits in a call for what may hang: copies to the stack come last. */
static cudaError_t
check(cuda_device *device, const library_choice *choice, const agree_memory *memory, library_result *result, uint32_t *verdict)
{
	cuda_gpu   *gpu = &device->gpus[0];
	cudaStream_t stream = nullptr;
	cudaError_t error = cudaSetDevice(gpu->ordinal);
	cudaError_t ended;

	if (error == cudaSuccess)
		error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	if (error != cudaSuccess)
		return error;
	error = load_kernels(gpu);
	if (error == cudaSuccess)
		error = run_all(device, choice, memory, stream, result);
	if (error == cudaSuccess && *result == LIBRARY_FAILS)
		error = cudaErrorUnknown;
	ended = cuda_watch_stream(gpu, stream, predict(gpu, choice));
	error = error == cudaSuccess ? ended : error;
	if (error == cudaSuccess)
		error = cudaMemcpyAsync(verdict, memory->verdict, sizeof(*verdict), cudaMemcpyDeviceToHost, stream);
	if (error == cudaSuccess)
		error = cuda_watch_stream(gpu, stream, 0);
	cudaStreamDestroy(stream);
	return error;
}

library_agreement
library_agree(cuda_device *device, const library_choice *choice, status *status)
{
	cuda_gpu   *gpu = &device->gpus[0];
	agree_memory memory = {};
	uint64_t	bytes = lay_out(choice, nullptr, &memory);
	uint8_t    *base = (uint8_t *) cuda_memory_borrow(gpu, bytes, "the check of a product", status);
	uint32_t	verdict = VERDICT_FINE;
	library_result result = LIBRARY_DONE;
	cudaError_t error;

	if (base == nullptr)
		return LIBRARY_UNKNOWN;
	lay_out(choice, base, &memory);
	cuda_load_begins(device);
	error = check(device, choice, &memory, &result, &verdict);
	cuda_load_ends(device);
	if (error != cudaSuccess)
		cuda_gpu_fails(gpu, gpu->loading, error);
	cuda_memory_return(gpu, base);
	if (error == cudaSuccess)
		return result != LIBRARY_DONE || verdict != VERDICT_FINE ? LIBRARY_DIFFERS : LIBRARY_AGREES;
	if (cuda_usable(device, status))
		status_set(status, INFER_ERROR_DEVICE, "a product of %lld × %lld could not be checked: %s", (long long) choice->form.k,
				   (long long) choice->form.n, cudaGetErrorString(error));
	return LIBRARY_UNKNOWN;
}

CUDA_MODULE

#endif
