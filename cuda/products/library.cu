/*
 * library.cu
 *	  cuBLASLt: finding it, and which products it gets.
 *
 * int8 stays with own kernels: rows of Q8 are neither signed nor aligned as the library wants them.  A bias or function that
 * it does not do itself, or not to the last bit (its RELU of a NaN, an erf), is a pass of its own over the sums, which long
 * products alone are worth.
 */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if LIBRARY_BUILT

#define SEPARATE_ROWS	2048		/* whose sums go through scratch at once: in the second-level cache */
#define CHECK_BYTES		((int64_t) 64 << 20)	/* of a check; but beside a weight at least */
#define CHECK_BESIDE	((int64_t) 32 << 20)
#define CHECK_WEIGHT	((int64_t) 256 << 20)	/* larger ones are not checked: own kernels */
#define CHECK_ALONE		40			/* rows of y that a check has beside: those alone, a bias */

/* ---- opening ---- */

static bool
calls_find(cuda_library *library)
{
#define LIBRARY_CALL(name) \
	library->calls.name = (decltype(&cublasLt##name)) gpu_library_symbol(library->module, "cublasLt" #name); \
	if (library->calls.name == nullptr) \
		return false;
	LIBRARY_CALLS(LIBRARY_CALL)
#undef LIBRARY_CALL
	return true;
}

/* The library of the toolkit's version, else of the one before or behind; *major: which one. */
static bool
module_open(cuda_library *library, int *major)
{
	const int	majors[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR == 12 ? 13 : 12};
	char		name[64];

	for (int m : majors)
	{
		snprintf(name, sizeof(name), "libcublasLt.so.%d", m);
		library->module = gpu_library_open(name);
		*major = m;
		if (library->module != nullptr)
			return true;
	}
	*major = CUBLAS_VER_MAJOR;
	return false;
}

/* Whether it takes descriptors as this build has them. */
static bool
descriptors_fit(const cuda_library *library)
{
	library_form form = {.type = DEVICE_BF16, .y_type = DEVICE_F32, .bias = true, .gelu_tanh = false, .k = 64, .n = 64, .w_step = 64};
	float		bias = 0;
	library_product product;

	return library_describe(library, &form, &bias, 64, &product);
}

static bool
handles_create(cuda_library *library, cuda_device *device)
{
	for (uint32_t g = 0; g < device->gpus_count; g++)
		if (cudaSetDevice(device->gpus[g].ordinal) != cudaSuccess ||
			library->calls.Create(&library->handles[g]) != CUBLAS_STATUS_SUCCESS)
		{
			library->handles[g] = nullptr;
			cudaGetLastError();
			return false;
		}
	return true;
}

/* The library waits for a GPU whose handle it destroys, and its kernels may be what hangs. */
static void
library_free(cuda_library *library, cuda_device *device)
{
	bool		hangs = __atomic_load_n(&device->hangs, __ATOMIC_ACQUIRE) != 0;

	for (uint32_t g = 0; !hangs && g < device->gpus_count; g++)
		if (library->handles[g] != nullptr && cudaSetDevice(device->gpus[g].ordinal) == cudaSuccess)
			library->calls.Destroy(library->handles[g]);
	for (library_choice *choice = library->choices, *next; choice != nullptr; choice = next)
	{
		next = choice->next;
		free(choice);
	}
	if (library->module != nullptr && !hangs)
		gpu_library_close(library->module);
	pthread_mutex_destroy(&library->lock);
	free(library);
}

void
cuda_library_open(cuda_device *device)
{
	cuda_library *library = (cuda_library *) calloc(1, sizeof(*library));
	const char *missing = nullptr;
	int			major = CUBLAS_VER_MAJOR;

	snprintf(device->library, sizeof(device->library), "none");
	snprintf(device->products, sizeof(device->products), "own kernels");
	if (library == nullptr)
		return;
	pthread_mutex_init(&library->lock, nullptr);
	if (!module_open(library, &major))
		missing = "not found";
	else if (!calls_find(library) || !descriptors_fit(library))
		missing = "is not as this build knows it";
	else if (!handles_create(library, device))
		missing = "does not start";
	if (missing != nullptr)
	{
		snprintf(device->lacks, sizeof(device->lacks), "cuBLASLt %d %s", major, missing);
		snprintf(device->products, sizeof(device->products), "own kernels (%s)", device->lacks);
		library_free(library, device);
		return;
	}
	snprintf(device->library, sizeof(device->library), "%zu", library->calls.GetVersion());
	snprintf(device->products, sizeof(device->products), "cuBLASLt %s", device->library);
	device->products_library = library;
}

void
cuda_library_close(cuda_device *device)
{
	if (device->products_library != nullptr)
		library_free(device->products_library, device);
	device->products_library = nullptr;
}

/* ---- choosing ---- */

static bool
forms_equal(const library_form *a, const library_form *b)
{
	return a->type == b->type && a->y_type == b->y_type && a->bias == b->bias && a->gelu_tanh == b->gelu_tanh && a->k == b->k &&
		   a->n == b->n && a->w_step == b->w_step;
}

static int64_t
weight_bytes(const library_form *form)
{
	return form->type == DEVICE_BF16 ? form->n * form->w_step * 2 : form->k * form->w_step * 4;
}

/*
 * As many rows as the memory of a check holds, a multiple of 256: by the form alone.  Numbers of rows follow from it, and so who
 * computes; how much memory is free must not decide that.
 */
static int64_t
rows_checked(const library_form *form)
{
	int64_t		beside = CHECK_BYTES - weight_bytes(form);
	int64_t		row = form->k * (form->type == DEVICE_BF16 ? 2 : 4) + form->n * 4;
	int64_t		rows;

	beside = beside > CHECK_BESIDE ? beside : CHECK_BESIDE;
	rows = (beside - CHECK_ALONE * form->n * 4) / row / 256 * 256;
	rows = rows > 256 ? rows : 256;
	return rows < GPU_LIBRARY_ROWS ? rows : GPU_LIBRARY_ROWS;
}

/* Fills a new choice.  false: a status. */
static bool
choice_make(cuda_device *device, library_choice *choice, status *status)
{
	cublasLtMatmulAlgo_t candidates[LIBRARY_CANDIDATES];
	int			count;

	choice->own = weight_bytes(&choice->form) > CHECK_WEIGHT;
	if (choice->own)
		return true;
	choice->rows_most = rows_checked(&choice->form);
	count = library_candidates(device->products_library, &choice->form, choice->rows_most, candidates);
	if (count < 0)
		cuda_gpu_fails(&device->gpus[0], device->gpus[0].loading, cudaErrorUnknown);
	if (count < 0)
		return cuda_usable(device, status) && status_set(status, INFER_ERROR_DEVICE, "cuBLASLt failed to say how it computes a product of %lld x %lld",
						  (long long) choice->form.k, (long long) choice->form.n);
	for (int c = 0; c < count; c++)
	{
		choice->algorithm = candidates[c];
		switch (library_agree(device, choice, status))
		{
			case LIBRARY_AGREES:
				return true;
			case LIBRARY_UNKNOWN:
				return false;
			case LIBRARY_DIFFERS:
				break;
		}
	}
	choice->own = true;
	return true;
}

/* The choice of a form; NULL and a status. */
static const library_choice *
choice_of(cuda_device *device, const library_form *form, status *status)
{
	cuda_library *library = device->products_library;
	library_choice *choice;

	pthread_mutex_lock(&library->lock);
	for (choice = library->choices; choice != nullptr && !forms_equal(&choice->form, form);)
		choice = choice->next;
	if (choice == nullptr)
	{
		choice = (library_choice *) calloc(1, sizeof(*choice));
		if (choice == nullptr)
			status_set(status, INFER_ERROR_MEMORY, "out of memory for a product");
		else
		{
			choice->form = *form;
			if (choice_make(device, choice, status))
			{
				choice->next = library->choices;
				library->choices = choice;
			}
			else
			{
				free(choice);
				choice = nullptr;
			}
		}
	}
	pthread_mutex_unlock(&library->lock);
	return choice;
}

/* ---- running ---- */

struct library_sums					/* of the rows from row0 on, N a row */
{
	const float *sums;				/* of row0 */
	int64_t		row0;
	int64_t		rows;				/* at most */
	int64_t		m;					/* rows of an item */
	uint8_t		lead;
	product_end<float> end;
};

static __global__ void
library_finish_kernel(library_sums p, const gpu_batch *batch)
{
	uint64_t	quads = (uint64_t) p.end.n / 4;
	int64_t		left = batch->items[p.lead] * p.m - p.row0;
	uint64_t	count = left <= 0 ? 0 : (uint64_t) (left < p.rows ? left : p.rows) * quads;
	product_plain_sum<float> sum = {p.end.bias, p.end.bias_step};

	for (uint64_t e = gpu_thread(); e < count; e += gpu_threads())
	{
		int64_t		row = (int64_t) (e / quads);
		int64_t		column = (int64_t) (e % quads) * 4;
		product_vector<float, 4> v = *(const product_vector<float, 4> *) (p.sums + row * p.end.n + column);

		for (int j = 0; j < 4; j++)
			v.v[j] = sum.value(column + j, v.v[j]);
		product_finish_four(p.end, p.row0 + row, column, v.v);
	}
}

/* A choice's sums, then what the op does with them; y of F32 holds them itself. */
static bool
run_separate(const cuda_plan *plan, cuda_run *run, const cuda_library *library, const library_choice *choice,
			 library_operands operands, int64_t rows)
{
	const product_shape *shape = (const product_shape *) plan->own;
	bool		in_place = plan->output.type == DEVICE_F32;
	int64_t		most = in_place ? choice->rows_most : SEPARATE_ROWS;
	library_sums p = {.sums = nullptr, .row0 = 0, .rows = 0, .m = shape->m, .lead = plan->lead};

	p.end = product_end_of<float>(plan, run);
	for (; p.row0 < rows; p.row0 += most)
	{
		library_operands part = operands;

		p.rows = rows - p.row0 < most ? rows - p.row0 : most;
		part.x = (const uint8_t *) operands.x + p.row0 * shape->k * (plan->type == DEVICE_BF16 ? 2 : 4);
		part.y = in_place ? (float *) operands.y + p.row0 * shape->n : (float *) cuda_scratch(run, plan);
		p.sums = (const float *) part.y;
		if (library_multiply(library, (uint32_t) run->gpu_index, choice, &part, p.rows, run->stream) != LIBRARY_DONE)
			return false;
		cuda_launch(run, library_finish_kernel, dim3(cuda_blocks((uint64_t) (p.rows * shape->n / 4), 256)), dim3(256), p,
					run->batch);
	}
	return true;
}

static void
launch_library(const cuda_plan *plan, cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;
	const library_choice *choice = (const library_choice *) shape->choice;
	const cuda_library *library = run->gpu->device->products_library;
	library_operands operands = {.x = cuda_operand(plan, run, 0), .w = plan->weight->data[run->gpu_index],
								 .bias = (const float *) cuda_operand(plan, run, 1), .y = cuda_address(run, &plan->output)};
	int64_t		rows = product_rows(plan, run);
	bool		done;

	if (run->error == cudaSuccess && run->loading && shape->separate)
		run->error = cuda_kernel_load(run->gpu, library_finish_kernel);
	if (run->error != cudaSuccess || run->loading || rows == 0)
		return;
	done = shape->separate ? run_separate(plan, run, library, choice, operands, rows) :
		library_multiply(library, (uint32_t) run->gpu_index, choice, &operands, rows, run->stream) == LIBRARY_DONE;
	if (!done && run->error == cudaSuccess)
		run->error = cudaErrorUnknown;
}

/* ---- which products ---- */

/* Whether the op's bias and function are among what the library does itself. */
static bool
fuses(const cuda_plan *plan, const product_shape *shape, bool bias)
{
	if (bias && shape->bias_step == 0 && shape->n != 1)
		return false;
	return plan->fn == UNARY_NONE || (plan->fn == UNARY_GELU_TANH && plan->type == DEVICE_BF16);
}

bool
cuda_library_take(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	product_shape *shape = (product_shape *) plan->own;
	bool		bias = cuda_input(making, 1) != nullptr;
	int64_t		multiple = plan->type == DEVICE_BF16 ? 8 : 4;
	library_form form = {.type = plan->type, .y_type = making->y->type, .bias = bias, .gelu_tanh = plan->fn == UNARY_GELU_TANH,
						 .k = shape->k, .n = shape->n, .w_step = 0};
	const library_choice *choice;

	if (making->placing || making->device->products_library == nullptr || shape->k < GPU_LIBRARY_LEAST ||
		shape->n < GPU_LIBRARY_LEAST ||
		shape->k % multiple != 0 || shape->n % multiple != 0 ||
		(plan->type != DEVICE_F32 && (plan->type != DEVICE_BF16 || making->device->gpus[0].sm < 80)))
		return true;
	form.w_step = plan->type == DEVICE_BF16 ? plan->weight->k_padded : plan->weight->n_padded;
	if (fuses(plan, shape, bias))
	{
		choice = choice_of(making->device, &form, making->status);
		if (choice == nullptr)
			return false;
		if (!choice->own)
		{
			shape->choice = choice;
			plan->launch = launch_library;
			return true;
		}
	}
	if (shape->k < GPU_LIBRARY_SEPARATE_K)
		return true;
	form.bias = form.gelu_tanh = false;
	form.y_type = DEVICE_F32;
	choice = choice_of(making->device, &form, making->status);
	if (choice == nullptr)
		return false;
	if (choice->own)
		return true;
	shape->choice = choice;
	shape->separate = true;
	plan->launch = launch_library;
	plan->launches = 2;
	if (plan->output.type != DEVICE_F32)
		plan->scratch_fixed = (uint64_t) SEPARATE_ROWS * (uint64_t) shape->n * sizeof(float);
	return true;
}

CUDA_MODULE

#else

void
cuda_library_open(cuda_device *device)
{
	snprintf(device->library, sizeof(device->library), "none");
	snprintf(device->lacks, sizeof(device->lacks), "built without cuBLASLt");
	snprintf(device->products, sizeof(device->products), "own kernels (%s)", device->lacks);
}

void
cuda_library_close(cuda_device *device)
{
}

bool
cuda_library_take(cuda_making *making)
{
	return true;
}

#endif
