/*
 * narrow_weights.c
 *	  Weights in bf16 and int8: packed from numbers of two bytes, mapped where they were kept, and those that are refused.
 */
#include <math.h>

#include "narrow.h"

/* Two matrices pack into the same bytes. */
static bool
same_weight(struct device *device, const struct device_weight_desc *a, const struct device_weight_desc *b)
{
	struct status status;
	struct device_weight *weights[2];
	const void *data[2];
	uint64_t	bytes[2];
	bool		same;

	status_clear(&status);
	weights[0] = device->ops->weight_pack(device, a, &status);
	weights[1] = device->ops->weight_pack(device, b, &status);
	if (weights[0] == NULL || weights[1] == NULL)
		case_fail("weight_pack", &status);
	for (int i = 0; i < 2; i++)
		data[i] = device->ops->weight_data(device, weights[i], &bytes[i]);
	same = bytes[0] == bytes[1] && memcmp(data[0], data[1], bytes[0]) == 0 &&
		device->ops->weight_size(device, a) == device->ops->weight_size(device, b);
	device->ops->weight_free(device, weights[0]);
	device->ops->weight_free(device, weights[1]);
	return same;
}

static void
test_sources(struct device *device, const char *arch)
{
	enum
	{
		K = 37, N = 45
	};
	static uint16_t half[K * N];
	static float full[K * N];
	static float turned[K * N];
	bool		fine = true;

	for (int source = 0; source < 2; source++)
	{
		for (int i = 0; i < K * N; i++)
		{
			half[i] = source == 0 ? (uint16_t) (next_random() & 0xBFFF) : half_bf16_of_f32(number(false));
			full[i] = source == 0 ? half_f32_of_f16(half[i]) : half_f32_of_bf16(half[i]);
			turned[i % N * K + i / N] = full[i];
		}
		for (uint8_t precision = 0; precision < DEVICE_PRECISIONS; precision++)
		{
			struct device_weight_desc a = {
				.type = source == 0 ? DEVICE_F16 : DEVICE_BF16, .precision = precision, .k = K, .n = N, .stride_k = N,
				.stride_n = 1, .data = half
			};
			struct device_weight_desc b = {
				.type = DEVICE_F32, .precision = precision, .k = K, .n = N, .stride_k = 1, .stride_n = K, .data = turned
			};

			fine = same_weight(device, &a, &b) && fine;
		}
	}
	tap_ok(fine, "%s: a weight of two bytes a number packs as what it means", arch);
}

/* What weight_data gave makes the same weight. */
static void
test_map(struct device *device, const char *arch)
{
	bool		fine = true;

	for (uint8_t precision = DEVICE_PRECISION_BF16; precision < DEVICE_PRECISIONS; precision++)
	{
		struct trial t = {
			.device = device, .precision = precision, .k = 35, .n = 70, .output = DEVICE_F32
		};
		struct op_case c;
		struct device_weight *packed;
		struct status status;
		void	   *results[2];
		void	   *x;
		void	   *copy;
		const void *data;
		uint64_t	bytes;

		status_clear(&status);
		trial_fill(&t);
		c = trial_case(&t, DEVICE_F32, t.w);
		case_compile(&c, device);
		x = converted(&t);
		results[0] = bindings_run(&c, &t, x, 20);
		data = device->ops->weight_data(device, c.packed, &bytes);
		copy = case_alloc(bytes);
		memcpy(copy, data, bytes);
		packed = c.packed;
		case_free(&c);
		packed = device->ops->weight_map(device, &c.weight, copy, bytes, &status);
		fine = fine && packed != NULL &&
			device->ops->weight_map(device, &c.weight, copy, bytes - DEVICE_ALIGN, &status) == NULL;
		c.weight.data = NULL;
		if (packed != NULL)
		{
			struct device_weight *again;
			struct device_graph graph = {
				.tensors_count = 2, .tensors = c.tensors, .ops_count = 1, .ops = &c.op, .weights_count = 1,
				.weights = &again, .bindings_count = 2
			};

			again = packed;
			c.program = device->ops->compile(device, &graph, &status);
			c.queue = device->ops->queue_create(device, 0, &status);
			c.packed = packed;
			results[1] = bindings_run(&c, &t, x, 20);
			fine = fine && memcmp(results[0], results[1], (size_t) (20 * t.n) * 4) == 0;
			free(results[1]);
			case_free(&c);
		}
		free(results[0]);
		free(x);
		free(copy);
		trial_free(&t);
	}
	tap_ok(fine, "%s: a mapped weight gives the bits of the packed one", arch);
}

static void
refused(struct device *device, struct device_weight_desc desc, const char *part)
{
	struct status status;
	struct device_weight *weight;

	status_clear(&status);
	weight = device->ops->weight_pack(device, &desc, &status);
	tap_ok(weight == NULL && strstr(status.message, part) != NULL, "refused: %s", status.message);
}

static void
test_refusals(struct device *device)
{
	float		w[4] = {1, 2, NAN, 4};
	double		w64[4] = {1, 2, 3, 4};
	struct device_weight_desc desc = {
		.type = DEVICE_F32, .precision = DEVICE_PRECISION_INT8, .k = 2, .n = 2, .stride_k = 2, .stride_n = 1, .data = w
	};
	int64_t		three = 3;
	struct op_case c = {.op = {.op = DEVICE_OP_UNARY, .fn = UNARY_RELU}, .inputs_count = 1};

	refused(device, desc, "not finite");
	w[2] = INFINITY;
	refused(device, desc, "not finite");
	w[2] = 3;
	desc.k = DEVICE_Q8_MAX + 1;
	refused(device, desc, "65536");
	desc.k = 2;
	desc.precision = DEVICE_PRECISIONS;
	refused(device, desc, "no such precision");
	desc.precision = DEVICE_PRECISION_BF16;
	desc.type = DEVICE_I32;
	refused(device, desc, "int32");
	desc.type = DEVICE_F64;
	desc.data = w64;
	refused(device, desc, "float64");

	for (uint8_t type = DEVICE_BF16; type <= DEVICE_Q8; type++)
	{
		c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &three);
		c.tensors[1] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &three);
		tap_ok(!case_compile(&c, device), "a function of %s is not supported", device_type_name(type));
	}
}

static void
test_device(struct device *device, const char *arch)
{
	bool		cuda = strcmp(arch, "cuda") == 0;

	if (!cuda)						/* which keeps no packed weights for another time */
	{
		test_sources(device, arch);
		test_map(device, arch);
	}
	if (cuda || strcmp(arch, archs[0]) == 0)
		test_refusals(device);
}

int
main(void)
{
	struct device *cuda = case_cuda_device(1);

	if (case_wants("cpu"))
		narrow_on_cpu(test_device);
	narrow_on_cuda(cuda, test_device);
	return tap_done();
}
