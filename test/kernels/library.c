/*
 * library.c
 *	  Products by cuBLASLt: who computes what, what is said when it is missing, and that an algorithm which breaks rule 4, or
 *	  computes something else, is not taken.
 *
 * Over the emulation with its stand-in, which is told how to be wrong (emulation/cublaslt.cc); what own kernels compute then has
 * the bits that it has without a library.
 */
#include <math.h>

#include "cuda_net.h"
#include "engine/half.h"
#include "random.h"

#define MANY	333					/* more than go at once */

#define CUDA_MEMORY				2
#define CUDA_ILLEGAL_ADDRESS	700
#define CUDA_UNKNOWN			999

static float
number(void)
{
	return (float) ((double) (int64_t) next_random() / 9.3e18);
}

struct form
{
	const char *name;
	uint8_t		type;				/* of x */
	uint8_t		y_type;
	int64_t		k;
	int64_t		n;
	bool		bias;
	uint16_t	fn;
};

static const struct form forms[] = {
	{"f32", DEVICE_F32, DEVICE_F32, 64, 36, false, UNARY_NONE},
	{"f32, bias", DEVICE_F32, DEVICE_F32, 64, 36, true, UNARY_NONE},
	{"bf16, bias", DEVICE_BF16, DEVICE_F32, 64, 40, true, UNARY_NONE},
	{"bf16 to bf16", DEVICE_BF16, DEVICE_BF16, 72, 32, false, UNARY_NONE},
	{"bf16, bias, gelu-tanh", DEVICE_BF16, DEVICE_F32, 64, 48, true, UNARY_GELU_TANH},
	{"bf16, bias, gelu, to bf16, long", DEVICE_BF16, DEVICE_BF16, 128, 40, true, UNARY_GELU},
	{"f32, bias, tanh, long", DEVICE_F32, DEVICE_F32, 100, 32, true, UNARY_TANH},
	/* own kernels in any case */
	{"bf16, bias, to bf16", DEVICE_BF16, DEVICE_BF16, 64, 40, true, UNARY_NONE},
	{"bf16, relu", DEVICE_BF16, DEVICE_F32, 64, 40, false, UNARY_RELU},
	{"f32, odd", DEVICE_F32, DEVICE_F32, 65, 36, false, UNARY_NONE},
	{"bf16, narrow", DEVICE_BF16, DEVICE_F32, 64, 8, false, UNARY_NONE},
};

#define FORMS		(sizeof(forms) / sizeof(*forms))
#define BY_LIBRARY	7				/* the first of them */

/* What is there of one form: operands, and results of own kernels. */
static struct
{
	void	   *x;
	float	   *w;
	float	   *b;
	void	   *own;
}			given[FORMS];

static size_t
bytes_of(uint8_t type)
{
	return type == DEVICE_BF16 ? 2 : 4;
}

static void
give(size_t f)
{
	const struct form *form = &forms[f];

	given[f].x = case_alloc((size_t) (MANY * form->k) * 4);
	given[f].w = case_alloc((size_t) (form->k * form->n) * 4);
	given[f].b = case_alloc((size_t) form->n * 4);
	for (int64_t i = 0; i < MANY * form->k; i++)
		if (form->type == DEVICE_BF16)
			((uint16_t *) given[f].x)[i] = half_bf16_of_f32(number());
		else
			((float *) given[f].x)[i] = number();
	for (int64_t i = 0; i < form->k * form->n; i++)
		given[f].w[i] = number();
	for (int64_t i = 0; i < form->n; i++)
		given[f].b[i] = number();
}

/* Calls of the library's product so far. */
static uint64_t
products(void)
{
	void	   *handle = dlopen(case_cuda_library(), RTLD_NOW | RTLD_LOCAL);

	return *(uint64_t *) dlsym(handle, "emulation_library_products");
}

static struct op_case
form_case(size_t f)
{
	const struct form *form = &forms[f];
	struct op_case c = {.op = {.op = DEVICE_OP_GEMM, .fn = form->fn}, .inputs_count = form->bias ? 2 : 1};

	c.weight = (struct device_weight_desc) {
		.type = DEVICE_F32, .precision = form->type == DEVICE_BF16 ? DEVICE_PRECISION_BF16 : DEVICE_PRECISION_FULL,
		.k = form->k, .n = form->n, .stride_k = form->n, .stride_n = 1, .data = given[f].w
	};
	c.tensors[0] = case_tensor(form->type, DEVICE_LEAD_ROWS, 1, &form->k);
	if (form->bias)
		c.tensors[1] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, &form->n);
	c.tensors[c.inputs_count] = case_tensor(form->y_type, DEVICE_LEAD_ROWS, 1, &form->n);
	return c;
}

/* y of `rows` rows from the first on; *by_library: whether the run was the library's. */
static void *
multiply(struct device *device, size_t f, uint32_t first, uint32_t rows, bool *by_library)
{
	const struct form *form = &forms[f];
	struct op_case c = form_case(f);
	void	   *bindings[3];
	struct status status;
	uint64_t	before;

	status_clear(&status);
	bindings[0] = case_alloc((size_t) (rows * form->k) * 4);
	memcpy(bindings[0], (uint8_t *) given[f].x + (size_t) (first * form->k) * bytes_of(form->type),
		   (size_t) (rows * form->k) * bytes_of(form->type));
	bindings[1] = given[f].b;
	bindings[c.inputs_count] = case_alloc((size_t) (rows * form->n) * 4);
	if (!case_compile(&c, device))
		case_fail("compile", &status);
	before = products();
	if (!case_run(&c, rows, bindings, NULL, &status))
		case_fail("run", &status);
	*by_library = products() > before;
	case_free(&c);
	free(bindings[0]);
	return bindings[c.inputs_count];
}

/* Within what another order of sums does. */
static bool
near(size_t f, const void *got)
{
	const struct form *form = &forms[f];
	bool		rounded = form->y_type == DEVICE_BF16;

	for (int64_t i = 0; i < MANY * form->n; i++)
	{
		double		a = rounded ? half_f32_of_bf16(((const uint16_t *) got)[i]) : ((const float *) got)[i];
		double		b = rounded ? half_f32_of_bf16(((const uint16_t *) given[f].own)[i]) : ((const float *) given[f].own)[i];

		if (!(fabs(a - b) <= 2e-5 + (rounded ? 0x1p-7 * fabs(b) : 0)))
		{
			printf("# %s, element %lld: %.9g, not %.9g\n", form->name, (long long) i, a, b);
			return false;
		}
	}
	return true;
}

/* With the library as `mode` has it; NULL: the device cannot be opened. */
static struct device *
device_with(const char *mode, const char *said)
{
	struct device *device;
	struct device_info info;

	setenv("INFER_EMULATED_CUBLASLT", mode, 1);
	device = case_cuda_device(1);
	if (device == NULL)
		return NULL;
	device->ops->info(device, &info);
	tap_ok(strcmp(info.products, said) == 0, "%s: \"%s\"", *mode == '\0' ? "missing" : mode, info.products);
	tap_ok((strstr(info.numerics_id, strcmp(mode, "12") == 0 ? "-lt120800" : "-lt130100") != NULL) == (info.products[0] == 'c'),
		   "%s: %s", *mode == '\0' ? "missing" : mode, info.numerics_id);
	return device;
}

/* ours: the forms, a bit each, that fall to own kernels beside those that are always theirs. */
static void
test_mode(const char *mode, const char *said, uint32_t ours)
{
	struct device *device = device_with(mode, said);
	bool		fine = true;
	bool		rows = true;

	for (size_t f = 0; f < FORMS; f++)
	{
		bool		own = f >= BY_LIBRARY || (ours >> f & 1) != 0;
		bool		by_library;
		uint8_t    *y = multiply(device, f, 0, MANY, &by_library);
		size_t		row = (size_t) forms[f].n * bytes_of(forms[f].y_type);

		if (by_library == own || (own ? memcmp(y, given[f].own, row * MANY) != 0 : !near(f, y)))
		{
			printf("# %s: %s\n", forms[f].name, by_library ? "by the library" : "by own kernels");
			fine = false;
		}
		for (uint32_t count = 1; count < 40 && !own; count += 32)
		{
			void	   *few = multiply(device, f, 200, count, &by_library);

			rows = rows && memcmp(few, y + 200 * row, count * row) == 0;
			free(few);
		}
		free(y);
	}
	tap_ok(fine, "%s: who computes what, and right", mode);
	tap_ok(rows, "%s: a row has the same bits in any number of rows", mode);
	device_close(device);
}

static struct device *
device_quietly(void)
{
	struct device_options options = {.threads = 1, .library = case_cuda_library(), .gpu = -1};
	struct status status;
	struct device *device;

	status_clear(&status);
	setenv("INFER_EMULATED_CUBLASLT", "fine", 1);
	device = device_open("cuda", &options, &status);
	if (device == NULL)
		case_fail("open", &status);
	return device;
}

/* The program of form 2, while the call-th call of CUDA from here on fails; NULL and a status. */
static struct device_program *
compile_failing(struct device *device, struct op_case *c, uint32_t call, int error, int how, struct status *status)
{
	struct device_graph graph = {0};

	for (uint32_t i = 0; i <= c->inputs_count; i++)
		c->tensors[i].binding = (int32_t) i;
	c->op.inputs = (int32_t[]) {0, 1};
	c->op.output = (int32_t) c->inputs_count;
	c->op.inputs_count = c->inputs_count;
	graph.tensors_count = c->inputs_count + 1;
	graph.tensors = c->tensors;
	graph.ops_count = 1;
	graph.ops = &c->op;
	graph.weights_count = 1;
	graph.weights = &c->packed;
	graph.bindings_count = c->inputs_count + 1;
	case_emulation()->fail(call, error, how);
	return device->ops->compile(device, &graph, status);
}

/*
 * Each call in turn that a check makes of CUDA fails: then the model cannot be loaded, and nothing is kept of the check; it never
 * is another kernel that computes it from then on.
 */
static void
test_failures(void)
{
	const struct emulation_control *control = case_emulation();
	uint32_t	failures = 0;
	bool		fine = true;
	bool		over = false;

	while (!over && failures < 10000)
	{
		struct device *device = device_quietly();
		struct op_case c = form_case(2);
		struct device_info before;
		struct device_info after;
		struct status status;
		bool		by_library;

		status_clear(&status);
		c.packed = device->ops->weight_pack(device, &c.weight, &status);
		device->ops->info(device, &before);
		c.program = compile_failing(device, &c, ++failures, CUDA_MEMORY, EMULATION_FAILS_ONCE, &status);
		over = control->failed() == NULL;
		control->fail(0, 0, 0);
		device->ops->info(device, &after);
		if (c.program != NULL)
			device->ops->program_free(device, c.program);
		else
			fine = fine && status.message[0] != '\0' && after.bytes_used == before.bytes_used;
		free(multiply(device, 2, 0, 5, &by_library));
		if (!by_library)
			printf("# own kernels after the failure of call %u\n", failures);
		fine = fine && by_library;
		device->ops->weight_free(device, c.packed);
		device_close(device);
	}
	tap_ok(fine && over, "%u calls fail in turn, and none decides who computes", failures - 1);
}

/* From each call on the GPU answers errors: then it is lost, and said to be, but where it has computed all before. */
static void
test_losses(void)
{
	const struct emulation_control *control = case_emulation();
	uint32_t	losses = 0;
	uint32_t	lost = 0;
	bool		fine = true;
	bool		over = false;

	while (!over && losses < 10000)
	{
		struct device *device = device_quietly();
		struct op_case c = form_case(2);
		struct status status;

		status_clear(&status);
		c.packed = device->ops->weight_pack(device, &c.weight, &status);
		c.program = compile_failing(device, &c, ++losses, CUDA_ILLEGAL_ADDRESS, EMULATION_FAILS_FOR_GOOD, &status);
		over = control->failed() == NULL;
		lost += status.error == INFER_ERROR_DEVICE_LOST;
		if (c.program == NULL && (over || status.error != INFER_ERROR_DEVICE_LOST))
		{
			printf("# call %u, %s: %s\n", losses, over ? "none" : control->failed(), status.message);
			fine = false;
		}
		if (c.program != NULL)
			device->ops->program_free(device, c.program);
		device->ops->weight_free(device, c.packed);
		device_close(device);
		control->reset();
	}
	tap_ok(fine && over && lost > losses / 2, "from each of %u calls on all fail, and the GPU is lost by %u", losses - 1, lost);
}

/* A check is larger than all that models may have, and a model is as large as that. */
static void
test_budget(void)
{
	struct device_options options = {.threads = 1, .library = case_cuda_library(), .gpu = -1, .gpu_memory = 48 << 10};
	struct status status;
	struct device *device;
	struct device_info info;
	bool		by_library;
	void	   *y;

	status_clear(&status);
	device = device_open("cuda", &options, &status);
	if (device == NULL)
		case_fail("open", &status);
	y = multiply(device, 2, 0, 5, &by_library);
	device->ops->info(device, &info);
	tap_ok(by_library && info.bytes_used == 0, "a check takes nothing of infer.gpu_memory");
	free(y);
	device_close(device);
}

/* INFER_EMULATED_CUBLASLT=fine.  The GPU hangs in the check of a product. */
static int
check_hangs(void *argument)
{
	struct device *device = device_quietly();
	struct op_case c = form_case(2);
	struct status status;

	status_clear(&status);
	c.packed = device->ops->weight_pack(device, &c.weight, &status);
	c.program = compile_failing(device, &c, 20, CUDA_UNKNOWN, EMULATION_HANGS, &status);
	world_ok(case_emulation()->failed() != NULL && c.program == NULL && status.error == INFER_ERROR_DEVICE_LOST &&
			 strstr(status.message, "hangs") != NULL, "a check that does not end loses the GPU: %s", status.message);
	fflush(stdout);
	_exit(world_failed != 0);
}

#define ALL		0x7F

int
main(void)
{
	struct device *device;
	bool		by_library;
	bool		none = true;
	pid_t		hang;

	setenv("INFER_TEST_DEVICE", "cuda", 0);
	if (!case_wants("cuda") || case_emulation() == NULL)
	{
		tap_skip("cuBLASLt", "its stand-in is the emulation's");
		return tap_done();
	}
	for (size_t f = 0; f < FORMS; f++)
		give(f);
	hang = world_begin("INFER_EMULATED_CUBLASLT", "fine", check_hangs, NULL);
	device = device_with("", "own kernels (cuBLASLt 13 not found)");
	if (device == NULL)
		return 2;
	for (size_t f = 0; f < FORMS; f++)
	{
		given[f].own = multiply(device, f, 0, MANY, &by_library);
		none = none && !by_library;
	}
	tap_ok(none, "without it own kernels compute all");
	device_close(device);

	test_mode("symbol", "own kernels (cuBLASLt 13 is not as this build knows it)", ALL);
	test_mode("create", "own kernels (cuBLASLt 13 does not start)", ALL);
	test_mode("fine", "cuBLASLt 130100", 0);
	test_mode("12", "cuBLASLt 120800", 0);
	test_mode("none", "cuBLASLt 130100", ALL);
	test_mode("split", "cuBLASLt 130100", 0);
	test_mode("rows", "cuBLASLt 130100", ALL);
	test_mode("first", "cuBLASLt 130100", 0);
	test_mode("place", "cuBLASLt 130100", 0);
	test_mode("few", "cuBLASLt 130100", ALL);
	test_mode("tf32", "cuBLASLt 130100", 1 << 0 | 1 << 1 | 1 << 6);

	/* a bias that is added in a pass of its own cannot be forgotten */
	test_mode("bias", "cuBLASLt 130100", 1 << 1 | 1 << 2 | 1 << 4);
	test_failures();
	test_losses();
	test_budget();
	tap_ok(world_end(hang), "a GPU hangs in a check");
	return tap_done();
}
