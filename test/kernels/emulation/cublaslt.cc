/*
 * cublaslt.cc
 *	  A stand-in for cuBLASLt: the product by its definition, one chain along K.
 *
 * INFER_EMULATED_CUBLASLT, read when the library is opened, says which there is; not set, none:
 *	fine		version 13
 *	12			only libcublasLt.so.12
 *	symbol		one of its functions is missing
 *	create		it does not start
 *	none		it has no algorithms
 *	split		its first algorithms share K among blocks, reduce, or want a workspace; the last is fine
 *	rows		all of its algorithms sum in another order from 33 rows on
 *	first		the first one does, the second is fine
 *	place		the first does so for rows from the 130th on, the second is fine
 *	bias		all of its algorithms forget the bias
 *	tf32		float32 is rounded to 11 bits
 *	few			all of its algorithms refuse fewer than 8 rows
 * Counts, by dlsym: of calls of cublasLtMatmul, emulation_library_products; of handles, emulation_library_handles.
 */
#include "cublasLt.h"
#include "emulation.h"
#include "gpu_library.h"
#include "gpu_platform.h"

#include <set>
#include <stdio.h>

extern "C"
{
extern __attribute__((visibility("default"))) uint64_t emulation_library_products;
extern __attribute__((visibility("default"))) uint32_t emulation_library_handles;

uint64_t	emulation_library_products = 0;
uint32_t	emulation_library_handles = 0;
}

enum kind							/* of an algorithm */
{
	KIND_FINE,
	KIND_ROWS,						/* another order from ROWS_WRONG rows on */
	KIND_PLACE,						/* for rows from PLACE_WRONG on */
	KIND_NO_BIAS,
	KIND_TF32,
	KIND_FEW,
	KIND_SPLIT,
	KIND_REDUCES,
	KIND_WORKSPACE
};

#define ROWS_WRONG		33
#define PLACE_WRONG		130
#define FEW				8
#define ALGORITHM		0x616C676F	/* in data[0] */

static const char *mode = "";

struct cublasLtContext
{
	int			ordinal;
};

/* What lies in the opaque descriptors. */
struct layout
{
	uint64_t	type;
	uint64_t	rows;
	uint64_t	columns;
	int64_t		step;
};

struct operation
{
	uint64_t	compute;
	uint32_t	of_a;
	uint32_t	of_b;
	uint32_t	epilogue;
	uint32_t	bias_type;
	const void *bias;
};

struct preference
{
	uint64_t	workspace;
	uint32_t	reduction;
	uint32_t	aligned[4];
};

struct algorithm
{
	uint64_t	magic;
	uint64_t	kind;
};

static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "it fits");
static_assert(sizeof(operation) <= sizeof(cublasLtMatmulDescOpaque_t), "it fits");
static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "it fits");

/* ---- opening ---- */

void *
gpu_library_open(const char *name)
{
	const char *set = getenv("INFER_EMULATED_CUBLASLT");

	if (set == nullptr || *set == '\0' || strcmp(name, strcmp(set, "12") == 0 ? "libcublasLt.so.12" : "libcublasLt.so.13") != 0)
		return nullptr;
	mode = strdup(set);
	return (void *) mode;
}

void
gpu_library_close(void *library)
{
	free(library);
	mode = "";
}

static bool
is(const char *what)
{
	return strcmp(mode, what) == 0;
}

void *
gpu_library_symbol(void *library, const char *name)
{
#define SYMBOL(function) \
	if (strcmp(name, #function) == 0) \
		return (void *) function;
	if (library != (void *) mode || (is("symbol") && strcmp(name, "cublasLtMatmulAlgoConfigGetAttribute") == 0))
		return nullptr;
	SYMBOL(cublasLtGetVersion)
	SYMBOL(cublasLtCreate)
	SYMBOL(cublasLtDestroy)
	SYMBOL(cublasLtMatmul)
	SYMBOL(cublasLtMatmulDescInit_internal)
	SYMBOL(cublasLtMatmulDescSetAttribute)
	SYMBOL(cublasLtMatrixLayoutInit_internal)
	SYMBOL(cublasLtMatmulPreferenceInit_internal)
	SYMBOL(cublasLtMatmulPreferenceSetAttribute)
	SYMBOL(cublasLtMatmulAlgoGetHeuristic)
	SYMBOL(cublasLtMatmulAlgoConfigGetAttribute)
#undef SYMBOL
	return nullptr;
}

size_t
cublasLtGetVersion(void)
{
	return is("12") ? 120800 : 130100;
}

/* Nobody destroys those of a GPU that is lost, and the process is about to be replaced: no leaks. */
static std::set<cublasLtHandle_t> &made = *new std::set<cublasLtHandle_t>;

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *handle)
{
	if (is("create"))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	*handle = new cublasLtContext{0};
	made.insert(*handle);
	emulation_library_handles++;
	return cudaGetDevice(&(*handle)->ordinal) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t
cublasLtDestroy(cublasLtHandle_t handle)
{
	if (emulation_used_by_others())
		emulation_report("cublasLtDestroy while another thread uses a GPU");
	made.erase(handle);
	delete handle;
	emulation_library_handles--;
	return CUBLAS_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

cublasStatus_t
cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute, cudaDataType_t scale)
{
	operation  *to = (operation *) desc;

	if (size != sizeof(*desc) || scale != CUDA_R_32F)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset((void *) desc, 0, sizeof(*desc));
	to->compute = compute;
	to->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)
{
	operation  *to = (operation *) desc;

	if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
	{
		memcpy(&to->bias, value, sizeof(to->bias));
		return size == sizeof(to->bias) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
	}
	if (size != sizeof(uint32_t))
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &to->of_a : attribute == CUBLASLT_MATMUL_DESC_TRANSB ? &to->of_b :
		   attribute == CUBLASLT_MATMUL_DESC_EPILOGUE ? &to->epilogue : &to->bias_type, value, size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t desc, size_t size, cudaDataType_t type, uint64_t rows, uint64_t columns,
								  int64_t step)
{
	layout		value = {.type = type, .rows = rows, .columns = columns, .step = step};

	if (size != sizeof(*desc) || step < (int64_t) rows)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset((void *) desc, 0, sizeof(*desc));
	memcpy((void *) desc, &value, sizeof(value));
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t desc, size_t size)
{
	preference	value = {.workspace = 0, .reduction = CUBLASLT_REDUCTION_SCHEME_MASK, .aligned = {256, 256, 256, 256}};

	memset((void *) desc, 0, sizeof(*desc));
	memcpy((void *) desc, &value, sizeof(value));
	return size == sizeof(*desc) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t desc, cublasLtMatmulPreferenceAttributes_t attribute,
									 const void *value, size_t size)
{
	preference *to = (preference *) desc;

	if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
		memcpy(&to->workspace, value, size);
	else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
		memcpy(&to->reduction, value, size);
	else
		memcpy(&to->aligned[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
	return size == (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4) ? CUBLAS_STATUS_SUCCESS :
		CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- algorithms ---- */

/* Those of the mode, in the heuristics' order; their number. */
static int
kinds(kind list[4])
{
	static const struct
	{
		const char *mode;
		int			count;
		kind		list[4];
	}			modes[] = {
		{"none", 0, {}}, {"split", 4, {KIND_SPLIT, KIND_REDUCES, KIND_WORKSPACE, KIND_FINE}}, {"rows", 2, {KIND_ROWS, KIND_ROWS}},
		{"first", 2, {KIND_ROWS, KIND_FINE}}, {"place", 2, {KIND_PLACE, KIND_FINE}}, {"bias", 1, {KIND_NO_BIAS}},
		{"tf32", 1, {KIND_TF32}}, {"few", 1, {KIND_FEW}}
	};

	for (const auto &m : modes)
		if (is(m.mode))
		{
			memcpy(list, m.list, sizeof(m.list));
			return m.count;
		}
	list[0] = KIND_FINE;
	return 1;
}

/* Whether the operands fit together. */
static bool
well_formed(const operation *op, const layout *a, const layout *b, const layout *c, const layout *d)
{
	uint64_t	n = op->of_a == CUBLAS_OP_T ? a->columns : a->rows;
	uint64_t	k = op->of_a == CUBLAS_OP_T ? a->rows : a->columns;

	return op->of_b == CUBLAS_OP_N && b->rows == k && d->rows == n && d->columns == b->columns && b->columns > 0 &&
		   memcmp(c, d, sizeof(*c)) == 0 && a->type == b->type &&
		   (a->type == CUDA_R_32F ? d->type == CUDA_R_32F && op->compute == CUBLAS_COMPUTE_32F_PEDANTIC :
			op->compute == CUBLAS_COMPUTE_32F);
}

/* As NVIDIA's table of types has it, a bias is of the type of D. */
static bool
is_supported(const operation *op, const layout *d)
{
	return (op->epilogue & CUBLASLT_EPILOGUE_BIAS) == 0 || op->bias_type == d->type;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
							   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
							   cublasLtMatmulPreference_t wishes, int wanted, cublasLtMatmulHeuristicResult_t *results, int *count)
{
	const preference *wish = (const preference *) wishes;
	kind		list[4];

	*count = 0;
	if (handle == nullptr || !well_formed((operation *) op, (layout *) a, (layout *) b, (layout *) c, (layout *) d) ||
		wish->workspace != 0 || wish->reduction != CUBLASLT_REDUCTION_SCHEME_NONE || wish->aligned[1] > 16)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!is_supported((operation *) op, (layout *) d) || kinds(list) == 0)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	for (int i = 0; i < kinds(list) && i < wanted; i++)
	{
		algorithm	value = {ALGORITHM, list[i]};

		memset((void *) &results[i], 0, sizeof(results[i]));
		memcpy((void *) &results[i].algo, &value, sizeof(value));
		results[i].workspaceSize = list[i] == KIND_WORKSPACE ? 1024 : 0;
		*count = i + 1;
	}
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
									 size_t size, size_t *written)
{
	const algorithm *a = (const algorithm *) algo;
	uint32_t	number = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? (a->kind == KIND_SPLIT ? 4 : 0) :
		a->kind == KIND_REDUCES ? CUBLASLT_REDUCTION_SCHEME_INPLACE : CUBLASLT_REDUCTION_SCHEME_NONE;

	if (a->magic != ALGORITHM || size != sizeof(number))
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(value, &number, sizeof(number));
	*written = sizeof(number);
	return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

struct product						/* a kernel's argument */
{
	operation	op;
	layout		a;
	layout		b;
	layout		d;
	const void *from_a;
	const void *from_b;
	void	   *to;
	uint64_t	kind;
};

static float
number(const void *memory, uint64_t type, uint64_t i)
{
	return type == CUDA_R_32F ? ((const float *) memory)[i] : __uint_as_float((unsigned) ((const uint16_t *) memory)[i] << 16);
}

static float
rounded(float x, int bits)			/* to nearest, but for ties */
{
	return __uint_as_float((__float_as_uint(x) + (1u << (bits - 1))) >> bits << bits);
}

static void
multiply(product p)
{
	uint64_t	n_all = p.d.rows;
	uint64_t	k_all = p.b.rows;

	for (uint64_t m = 0; m < p.d.columns; m++)
		for (uint64_t n = 0; n < n_all; n++)
		{
			bool		wrong = (p.kind == KIND_ROWS && p.d.columns >= ROWS_WRONG) || (p.kind == KIND_PLACE && m >= PLACE_WRONG);
			float		sum = 0;
			uint64_t	place = m * (uint64_t) p.d.step + n;

			for (uint64_t i = 0; i < k_all; i++)
			{
				uint64_t	k = wrong ? k_all - 1 - i : i;
				float		w = number(p.from_a, p.a.type, p.op.of_a == CUBLAS_OP_T ? n * (uint64_t) p.a.step + k : k * (uint64_t) p.a.step + n);
				float		x = number(p.from_b, p.b.type, m * (uint64_t) p.b.step + k);

				sum = p.kind == KIND_TF32 ? fmaf(rounded(x, 13), rounded(w, 13), sum) : fmaf(x, w, sum);
			}
			if ((p.op.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 && p.kind != KIND_NO_BIAS)
				sum += ((const float *) p.op.bias)[n];
			if ((p.op.epilogue & CUBLASLT_EPILOGUE_GELU) != 0)
				sum = 0.5f * sum * (1 + tanhf(0.7978845608f * (sum + 0.044715f * sum * sum * sum)));
			if (p.d.type == CUDA_R_32F)
				((float *) p.to)[place] = sum;
			else
				((uint16_t *) p.to)[place] = (uint16_t) ((__float_as_uint(sum) + 0x7FFF + (__float_as_uint(sum) >> 16 & 1)) >> 16);
		}
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
			   cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
			   cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
			   void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
	const algorithm *chosen = (const algorithm *) algo;
	product		p = {.op = *(operation *) desc, .a = *(layout *) a_layout, .b = *(layout *) b_layout, .d = *(layout *) d_layout,
					 .from_a = a, .from_b = b, .to = d, .kind = chosen->kind};

	if (!well_formed(&p.op, &p.a, &p.b, (layout *) c_layout, &p.d) || chosen->magic != ALGORITHM || c != d || workspace_bytes != 0 ||
		*(const float *) alpha != 1 || *(const float *) beta != 0 || (uintptr_t) a % 256 != 0 || (uintptr_t) b % 16 != 0 ||
		(uintptr_t) d % 16 != 0 || (p.a.type == CUDA_R_16BF && (p.b.rows % 8 != 0 || p.d.rows % 8 != 0)))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!is_supported(&p.op, &p.d) || (p.kind == KIND_FEW && p.d.columns < FEW))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	emulation_library_products++;
	return gpu_launch(multiply, dim3(1), dim3(1), stream, p) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
